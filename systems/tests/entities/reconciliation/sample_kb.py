"""A small knowledge base in memory, with things in it that no file would be taken with."""

import threading
from collections.abc import Sequence
from typing import Any

from rowmill_systems.entities.kb.thing import Thing
from rowmill_systems.parts.names.types import EntityType

PERSON, PLACE, WORK = EntityType.PERSON, EntityType.PLACE, EntityType.WORK
HOSTILE = "</script><img src=x onerror=alert(1)>\u2028'\"&"
THINGS = (
    Thing(
        "t1",
        "Ada Lovelace",
        frozenset({PERSON}),
        ("Augusta Ada King",),
        "English mathematician",
        0.9,
        {
            "birth_date": ("1815-12-10",),
            "citizenship": ({"label": "United Kingdom"},),
            "death_date": ("1852",),
            "birth_place": ({"id": "t2", "label": "Londres"},),
            "occupation": ({"id": "Q170790", "label": "mathematician"}, {"id": "Q36180", "label": "writer"}),
            "website": ("https://example.org/ada",),
        },
        wikidata_id="Q7259",
        dbpedia_uri="http://dbpedia.org/resource/Ada_Lovelace",
    ),
    Thing(
        "t2",
        "London",
        frozenset({PLACE}),
        ("Londres",),
        "capital of the United Kingdom",
        0.6,
        {
            "population": (8_866_180,),
            "area": ({"amount": 1572.15, "unit": "km²"},),
            "coordinates": ({"lat": 51.5, "lon": -0.12},),
        },
    ),
    Thing("t3", "London", frozenset({PLACE}), (), "city in Ontario", 0.4, {"population": (422_324,)}),
    Thing("t4", "London", frozenset({WORK}), (), "novel", 0.1, {"published": ("2004-05",)}),
    Thing("t5", "Ada", frozenset({PLACE}), (), "town in Ohio", 0.1),
    Thing(
        "t6",
        HOSTILE,
        frozenset({EntityType.OTHER}),
        (HOSTILE,),
        HOSTILE,
        0.0,
        {"website": ("javascript:alert(1)", HOSTILE), "founded": ("-44-03-15",)},
        dbpedia_uri="javascript:alert(2)",
    ),
    Thing("t7", "Alias Day", frozenset(), ("2001-09-11",), "", 0.0, {"revenue": (3_000_000_000,), "employees": (0,)}),
    *(Thing(f"m{number:03}", f"Mill {number:03}") for number in range(60)),
)


class SampleKnowledgeBase:
    """Notes who read it, and in which thread."""

    def __init__(self, things: Sequence[Thing] = THINGS, title: str = "A shelf") -> None:
        self.title, self.things = title, {thing.id: thing for thing in things}
        self.threads = set[int]()

    def search(self, name: str, *, most: int = 10, type: EntityType | None = None) -> Sequence[Thing]:
        self.threads.add(threading.get_ident())
        words = set(name.casefold().split())
        return self._some(lambda called: bool(words & set(called.casefold().split())), most, type)

    def complete(self, prefix: str, *, most: int = 10, type: EntityType | None = None) -> Sequence[Thing]:
        self.threads.add(threading.get_ident())
        return self._some(lambda called: called.casefold().startswith(prefix.casefold()), most, type)

    def get(self, id: str) -> Thing | None:
        return self.things.get(id)

    def __len__(self) -> int:
        return len(self.things)

    def _some(self, fits: Any, most: int, type: EntityType | None) -> Sequence[Thing]:
        of_type = (each for each in self.things.values() if type is None or not each.types or type in each.types)
        found = (each for each in of_type if any(map(fits, (each.name, *each.aliases))))
        return sorted(found, key=lambda each: -each.prominence)[:most]
