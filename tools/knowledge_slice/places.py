"""Countries, states and cities."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from tools.knowledge_slice.table import HERE, Entry, rows, several

STATE_OF = {"United States of America": "United States", "Canada": "Canada", "Australia": "Australia"}
NATIONS = {"England", "Scotland", "Wales", "Northern Ireland"}
CURRENCIES = {"BG": ["Euro"], "HT": ["Haitian Gourde"], "PS": []}
"""Currencies where CLDR is outdated, or names one that is merely used."""
WIKIDATA = {"PS": "Q219060"}
"""Wikidata ids where Natural Earth means the region."""
PLAIN = {"Euro": "Euro", "US Dollar": "United States dollar"}
"""Currencies that are things of the slice."""


def countries() -> Iterator[Entry]:
    given = {row["code"]: row for row in _lines("countries.jsonl")}
    for code, title, capital, languages, aliases, prominence in rows("countries.txt"):
        row = given[code]
        money = CURRENCIES.get(code, row["currencies"])
        sovereign = prominence != "50" or code == "DM"
        yield Entry(
            title,
            ("place",),
            _country(row["continent"], sovereign),
            [*several(aliases), row["formal"] if sovereign and row["formal"] else "", row["name"], *row["names"]],
            int(prominence) / 100,
            {
                "capital": [capital],
                "continent": row["continent"],
                "official_language": several(languages),
                "currency": [PLAIN.get(name, name) for name in money],
                "iso_country_code": [] if code == "XK" else [code],
            },
            WIKIDATA.get(code, row["wikidata"]),
            in_dbpedia=True,
        )


def states() -> Iterator[Entry]:
    given = {row["name"]: row for row in _lines("states.jsonl")}
    for name, title, capital, prominence in rows("states.txt"):
        row = given[name]
        country = STATE_OF[row["country"]]
        also = [f"State of {name}", f"{name} State"] if country == "United States" else []
        yield Entry(
            title or name,
            ("place",),
            f"{row['kind'].lower()} of {'the ' if country == 'United States' else ''}{country}",
            [name, *also, *row["names"]],
            int(prominence) / 100,
            {"country": [country], "part_of": [country], "capital": [capital]},
            row["wikidata"],
        )


def cities() -> Iterator[Entry]:
    for title, where, description, aliases, prominence, wikidata in rows("cities.txt"):
        country = _country_of(where)
        properties = {"country": [country]}
        if where != country:
            properties["part_of"] = [where]
        region = where.split(" (")[0]
        area = region if where == country or where in NATIONS else f"{region}, {country}"
        yield Entry(
            title,
            ("place",),
            description or f"city in {area}",
            several(aliases),
            int(prominence) / 100,
            properties,
            wikidata,
            is_city=True,
        )


@cache
def _country_of(where: str) -> str:
    if where in NATIONS:
        return "United Kingdom"
    if where == "New York City":
        return "United States"
    return next((entry.properties["country"][0] for entry in states() if entry.title == where), where).replace(
        "Ireland", "Republic of Ireland"
    )


def _country(continents: list[str], sovereign: bool) -> str:
    kind = "country" if sovereign else "territory"
    return f"{kind} in {' and '.join(continents)}" if continents else kind


def _lines(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (HERE / file).read_text("utf-8").splitlines()]
