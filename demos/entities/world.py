"""A world of things that do not exist: people, organisations, places, works and events, with namesakes. The same seed
makes the same world."""

import random
import tomllib
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rowmill_systems.entities.kb.thing import Thing
from rowmill_systems.parts.names.types import EntityType

WORDS: dict[str, Any] = tomllib.loads((Path(__file__).parent / "world.toml").read_text("utf-8"))
FIRST_ID = 900_000_001
"""First id, far above Wikidata's: none of ours means an existing thing."""
NAMESAKES = 0.12
SHARES = {
    EntityType.PLACE: 0.2, EntityType.ORGANISATION: 0.2, EntityType.PERSON: 0.42,
    EntityType.WORK: 0.12, EntityType.EVENT: 0.06,
}  # fmt: skip


@dataclass
class World:
    """Things by id, in the order of creation."""

    things: dict[str, Thing] = field(default_factory=dict)

    def of_type(self, type: EntityType) -> list[Thing]:
        return [each for each in self.things.values() if type in each.types]

    def label(self, id: str) -> str:
        return self.things[id].name


def make_world(size: int = 300, seed: int = 1) -> World:
    """Create so many things to mention, and what they refer to: countries, occupations, classes."""
    return Maker(random.Random(seed)).make(size)


class Maker:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.world = World()
        self.pools: dict[str, list[Thing]] = {}
        self.names: Counter[str] = Counter()

    def make(self, size: int) -> World:
        for id, name in WORDS["classes"].items():
            self.world.things[id] = Thing(id, name, frozenset({EntityType.OTHER}), prominence=0.9)
        for kind, of in (("occupation", "Q28640"), ("industry", "Q268592"), ("genre", "Q483394")):
            self.pools[kind] = [self._add(name, EntityType.OTHER, of) for name in WORDS[kind]]
        self.pools["country"] = [self._country(name) for name in WORDS["country"]]
        for type, share in SHARES.items():
            made = self.pools[type] = []
            made.extend(self._one(type) for _ in range(max(1, round(size * share))))
            self._disambiguations(made)
        return self.world

    def _one(self, type: EntityType) -> Thing:
        before = self.pools[type]
        namesake = self.chance.choice(before).name if before and self.chance.random() < NAMESAKES else None
        match type:
            case EntityType.PERSON:
                return self._person(namesake)
            case EntityType.ORGANISATION:
                return self._organisation(namesake)
            case EntityType.PLACE:
                return self._place(namesake)
            case EntityType.WORK:
                return self._work(namesake)
        return self._event()

    def _add(self, name: str, type: EntityType, of: str, **more: Any) -> Thing:
        id = f"Q{FIRST_ID + len(self.world.things)}"
        properties = {"instance_of": (self._ref(of),), **more.pop("properties", {})}
        thing = Thing(id, name, frozenset({type}), properties=properties, wikidata_id=id, **more)
        page = f"{name} ({id})" if self.names[name] else name
        self.names[name] += 1
        thing = replace(thing, dbpedia_uri=f"http://dbpedia.org/resource/{page.replace(' ', '_')}")
        self.world.things[id] = thing
        return thing

    def _ref(self, id: str) -> dict[str, str]:
        return {"id": id, "label": self.world.label(id)}

    def _any(self, pool: str) -> dict[str, str]:
        return self._ref(self.chance.choice(self.pools[pool]).id)

    def _known(self) -> float:
        """Return how well known a thing is: a few are, most are not."""
        return round(self.chance.random() ** 3, 3)

    def _date(self, first: int, last: int) -> str:
        year = self.chance.randint(first, last)
        if self.chance.random() < 0.15:
            return f"{year:04}"
        return f"{year:04}-{self.chance.randint(1, 12):02}-{self.chance.randint(1, 28):02}"

    def _country(self, name: str) -> Thing:
        given = {"iso_country_code": (name[:2].upper(),), "population": (self.chance.randint(1, 90) * 1_000_000,)}
        aliases = (f"Republic of {name}",)
        return self._add(
            name, EntityType.PLACE, "Q6256", aliases=aliases, properties=given, prominence=0.95,
            description="country that does not exist",
        )  # fmt: skip

    def _place(self, namesake: str | None) -> Thing:
        name = namesake or self.chance.choice(WORDS["place_start"]) + self.chance.choice(WORDS["place_end"])
        country, kind = self._any("country"), self.chance.choice(("Q515", "Q532"))
        properties = {
            "country": (country,),
            "population": (self.chance.randint(300, 3_000_000),),
            "area": ({"amount": self.chance.randint(3, 900), "unit": "square kilometre"},),
            "coordinates": (self._somewhere(),),
        }
        description = f"{self.world.label(kind)} in {country['label']}"
        return self._add(
            name, EntityType.PLACE, kind, description=description, prominence=self._known(), properties=properties
        )

    def _somewhere(self) -> dict[str, float]:
        return {"lat": round(self.chance.uniform(-60, 70), 4), "lon": round(self.chance.uniform(-179, 179), 4)}

    def _person(self, namesake: str | None) -> Thing:
        first, last = self.chance.choice(WORDS["first"]), self.chance.choice(WORDS["last"])
        name = namesake or f"{first} {last}"
        while not namesake and self.names[name]:  # namesakes are made on purpose
            name = f"{first} {self.chance.choice(WORDS['first'])} {self.chance.choice(WORDS['last'])}"
        first, last = name.split()[0], name.split()[-1]
        occupation, born = self._any("occupation"), self._date(1780, 1990)
        properties: dict[str, Any] = {
            "birth_date": (born,), "birth_place": (self._any(EntityType.PLACE),), "occupation": (occupation,),
            "citizenship": (self._any("country"),),
        }  # fmt: skip
        if self.chance.random() < 0.5:
            properties["employer"] = (self._any(EntityType.ORGANISATION),)
        if int(born[:4]) < 1930:
            properties["death_date"] = (self._date(int(born[:4]) + 30, int(born[:4]) + 90),)
        aliases = (f"{first[0]}. {last}", f"{last}, {first}")
        description = f"{properties['citizenship'][0]['label']} {occupation['label']} (born {born[:4]})"
        return self._add(
            name, EntityType.PERSON, "Q5", aliases=aliases, description=description, prominence=self._known(),
            properties=properties,
        )  # fmt: skip

    def _organisation(self, namesake: str | None) -> Thing:
        name = namesake or " ".join(self.chance.choice(WORDS[part]) for part in ("last", "firm", "form"))
        industry, seat = self._any("industry"), self._any(EntityType.PLACE)
        properties = {
            "founded": (self._date(1820, 2015),), "headquarters": (seat,), "industry": (industry,),
            "employees": (self.chance.randint(5, 90_000),), "country": (self._any("country"),),
            "website": (f"https://{name.split()[0].lower()}-{self.chance.randint(10, 99)}.example/",),
        }  # fmt: skip
        words = name.split()
        aliases = (" ".join(words[:2]), "".join(word[0] for word in words if word[0].isalpha()))
        kind = "Q31855" if name.endswith("Institute") else "Q4830453"
        description = f"{self.world.label(kind)} in {seat['label']}, {industry['label']}"
        return self._add(
            name, EntityType.ORGANISATION, kind, aliases=aliases, description=description, prominence=self._known(),
            properties=properties,
        )  # fmt: skip

    def _work(self, namesake: str | None) -> Thing:
        name = namesake or f"The {self.chance.choice(WORDS['adjective'])} {self.chance.choice(WORDS['noun'])}"
        kind, role = self.chance.choice((("Q571", "author"), ("Q11424", "director"), ("Q2188189", "composer")))
        maker = self._any(EntityType.PERSON)
        properties = {role: (maker,), "genre": (self._any("genre"),), "published": (self._date(1850, 2024),)}
        description = f"{self.world.label(kind)} by {maker['label']}"
        return self._add(
            name, EntityType.WORK, kind, aliases=(name.removeprefix("The "),), description=description,
            prominence=self._known(), properties=properties,
        )  # fmt: skip

    def _event(self) -> Thing:
        year, place, kind = (
            self.chance.randint(1890, 2024),
            self._any(EntityType.PLACE),
            self.chance.choice(WORDS["meeting"]),
        )
        properties = {"start_date": (f"{year}-05-02",), "end_date": (f"{year}-05-09",), "location": (place,)}
        of = "Q132241" if kind == "Festival" else "Q2020153"
        return self._add(
            f"{year} {place['label']} {kind}", EntityType.EVENT, of, aliases=(f"{place['label']} {kind}",),
            description=f"{kind.lower()} in {place['label']}", prominence=self._known(), properties=properties,
        )  # fmt: skip

    def _disambiguations(self, made: list[Thing]) -> None:
        """Create disambiguation pages, like Wikipedia's. No mention means one."""
        names = Counter(each.name for each in made)
        for name in sorted(name for name, times in names.items() if times > 1):
            self._add(name, EntityType.OTHER, "Q4167410", description="disambiguation page")
