"""Return properties of things, for the columns that a client adds to its table."""

import re
from typing import Any

from rowmill_systems.entities.kb.thing import Thing, ThingIndex
from rowmill_systems.entities.properties.catalogue import Kind, catalogue
from rowmill_systems.entities.reconciliation import vocabulary
from rowmill_systems.entities.reconciliation.queries import Extension

DAY = re.compile(r"(-?)(\d{1,6})(-\d\d-\d\d)")
"""Months and years are no moments, and stay text."""
LARGEST_INT = 2**31 - 1
"""OpenRefine keeps whole numbers in 32 bits. Larger ones go as fractions, which it keeps in 64."""


def extend(kb: ThingIndex, asked: Extension) -> dict[str, Any]:
    """Return a row for each id with a list of values for each property. Unknown ids, properties and values give an
    empty list, so that every row has every column."""
    most = {wanted.id: wanted.most for wanted in asked.properties}
    words = {key: vocabulary.property_word(key) for key in most}
    things = {id: kb.get(id) for id in asked.ids}
    return {
        "meta": [{"id": key, "name": word.name if word else key} for key, word in words.items()],
        "rows": {
            id: {key: _cells(kb, thing, key, count) for key, count in most.items()} for id, thing in things.items()
        },
    }


def _cells(kb: ThingIndex, thing: Thing | None, property: str, most: int | None) -> list[dict[str, Any]]:
    if thing is None:
        return []
    kind = catalogue()[property].kind if property in catalogue() else "text"
    return [cell(kb, value, kind) for value in vocabulary.values_of(thing, property)[:most]]


def cell(kb: ThingIndex, value: Any, kind: Kind) -> dict[str, Any]:
    """Return a value in one of the six forms of the specification. A thing is given by its id only if this knowledge
    base has it: the client would look up a foreign id here."""
    match value:
        case {"id": str(id)} if (thing := kb.get(id)) is not None:
            return {"id": thing.id, "name": thing.name}
        case bool():
            return {"str": "true" if value else "false"}
        case int() if abs(value) <= LARGEST_INT:
            return {"int": value}
        case int() | float():
            return {"float": float(value)}
        case str() if kind == "date" and (day := DAY.fullmatch(value)):
            return {"date": f"{day[1]}{day[2].zfill(4)}{day[3]}T00:00:00Z"}
        case _:
            return {"str": shown(value)}


def shown(value: Any) -> str:
    """Return a value as one line of text."""
    match value:
        case {"label": str(name)} | {"id": str(name)}:
            return name
        case {"lat": lat, "lon": lon}:
            return f"{lat},{lon}"
        case {"amount": amount, **rest}:
            return f"{amount} {rest.get('unit') or ''}".strip()
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)
