"""People, organisations, works, events, and other things."""

import re
from collections.abc import Iterator

from tools.knowledge_slice.table import Entry, rows, several, titled

_A_DAY = re.compile(r"-?\d+-\d\d-\d\d")
_MADE_NOT_PUBLISHED = {"creator", "composer"}


def people() -> Iterator[Entry]:
    for title, born, died, born_in, citizen_of, occupation, description, aliases, prominence, wikidata in rows(
        "people.txt"
    ):
        properties = {
            "birth_date": [born],
            "death_date": [died],
            "birth_place": [born_in],
            "citizenship": _states(citizen_of),
            "occupation": several(occupation),
        }
        yield Entry(title, ("person",), description, several(aliases), int(prominence) / 100, properties, wikidata)


def organisations() -> Iterator[Entry]:
    for cell, founded, seat, country, industry, description, aliases, prominence, wikidata in rows("organisations.txt"):
        title, in_dbpedia = titled(cell)
        properties = {
            "founded": [founded],
            "headquarters": [seat],
            "country": _states(country),
            "industry": [industry],
        }
        yield Entry(
            title,
            ("organisation",),
            description,
            several(aliases),
            int(prominence) / 100,
            properties,
            wikidata,
            in_dbpedia,
        )


def works() -> Iterator[Entry]:
    for title, published, makers, description, aliases, prominence, wikidata in rows("works.txt"):
        properties = _properties(makers)
        if not _MADE_NOT_PUBLISHED & set(properties):
            properties["published"] = [published]
        yield Entry(title, ("work",), description, several(aliases), int(prominence) / 100, properties, wikidata)


def events() -> Iterator[Entry]:
    for cell, began, ended, where, description, aliases, prominence, wikidata in rows("events.txt"):
        title, in_dbpedia = titled(cell)
        on_a_day = not ended and _A_DAY.fullmatch(began) is not None
        properties = {
            "held_on": [began] if on_a_day else [],
            "start_date": [] if on_a_day else [began],
            "end_date": [ended],
            "location": several(where),
        }
        yield Entry(
            title, ("event",), description, several(aliases), int(prominence) / 100, properties, wikidata, in_dbpedia
        )


def others() -> Iterator[Entry]:
    for cell, types, description, aliases, prominence, wikidata, properties in rows("others.txt"):
        title, in_dbpedia = titled(cell)
        yield Entry(
            title,
            tuple(several(types)),
            description,
            several(aliases),
            int(prominence) / 100,
            _properties(properties),
            wikidata,
            in_dbpedia,
        )


def _properties(cell: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part in several(cell):
        key, _, value = part.partition("=")
        found.setdefault(key, []).append(value)
    return found


def _states(cell: str) -> list[str]:
    return [{"Ireland": "Republic of Ireland"}.get(name, name) for name in several(cell)]
