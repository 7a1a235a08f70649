"""Values of properties, in a file and in a fact."""

import math
import re
from typing import Any

from rowmill_systems.entities.properties.catalogue import Kind, Property
from rowmill_systems.parts.values import UNSTORABLE

MOST_SIGNS = 10_000
_DATE = re.compile(r"-?\d{1,4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")
_URL = re.compile(r"https?://\S+")

SHAPES: dict[Kind, str] = {
    "text": "a text",
    "id": "a text",
    "url": "an address that begins with http:// or https://",
    "date": "a date as 1815-12-10, 1815-12 or 1815",
    "number": "a number",
    "amount": 'an amount as {"amount": 12.5, "unit": "km2"}, in CSV as 12.5 km2',
    "thing": 'the id of a thing of this file, a label, or {"id": …, "label": …}',
    "place": 'a place as {"lat": 52.5, "lon": 13.4}, in CSV as 52.5, 13.4',
}
"""The form of a value, in words for the author of the file."""


def is_text(value: object) -> bool:
    """Tell whether it is a text that is not blank, not too long, and that every database stores."""
    if not isinstance(value, str) or len(value) > MOST_SIGNS or not value.strip():
        return False
    return UNSTORABLE.search(value) is None


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def fits(value: object, kind: Kind) -> bool:
    match kind:
        case "text" | "id":
            return is_text(value)
        case "url":
            return is_text(value) and _URL.fullmatch(str(value)) is not None
        case "date":
            return isinstance(value, str) and _DATE.fullmatch(value) is not None
        case "number":
            return is_number(value)
        case "amount":
            if not isinstance(value, dict) or set(value) != {"amount", "unit"}:
                return False
            return is_number(value["amount"]) and is_text(value["unit"])
        case "thing":
            if not isinstance(value, dict):
                return is_text(value)
            return "label" in value and set(value) <= {"id", "label"} and all(map(is_text, value.values()))
        case "place":
            if not isinstance(value, dict) or set(value) != {"lat", "lon"} or not all(map(is_number, value.values())):
                return False
            return bool(abs(value["lat"]) <= 90 and abs(value["lon"]) <= 180)


def from_cell(cell: str, property: Property) -> list[Any]:
    """Return the values in a cell of CSV. What can't be parsed stays text, and then does not fit."""
    parts = cell.split("|") if property.many else [cell]
    return [_parsed(part.strip(), property.kind) for part in parts if part.strip()]


def _parsed(text: str, kind: Kind) -> object:
    try:
        match kind:
            case "number":
                return _number(text)
            case "amount":
                amount, _, unit = text.partition(" ")
                return {"amount": _number(amount), "unit": unit.strip()}
            case "place":
                lat, _, lon = text.partition(",")
                return {"lat": _number(lat), "lon": _number(lon)}
    except ValueError:
        pass
    return text


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
