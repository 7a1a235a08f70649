"""Values of the Reconciliation API's data extension, as plain values of a kind."""

import re
from typing import Any

from rowmill_systems.entities.properties.catalogue import Kind
from rowmill_systems.entities.sources.dates import read_date

PLACE = re.compile(r"\s*([+-]?\d{1,3}(?:\.\d+)?)\s*[,;/ ]\s*([+-]?\d{1,3}(?:\.\d+)?)\s*")
KINDS = ("str", "date", "int", "float", "bool")


def value_of(kind: Kind, cell: Any) -> Any:
    """Return the value of a cell; None if it is empty or of another kind."""
    if not isinstance(cell, dict):
        return None
    if isinstance(cell.get("id"), str):
        label = cell.get("name")
        return {"id": cell["id"], "label": label if isinstance(label, str) else cell["id"]} if kind == "thing" else None
    value = next((cell[name] for name in KINDS if cell.get(name) is not None), None)
    match kind:
        case "date":
            return read_date(str(value)) if value is not None else None
        case "number" | "amount":
            number = _number(value)
            return number if kind == "number" or number is None else {"amount": number, "unit": ""}
        case "place":
            found = PLACE.fullmatch(value) if isinstance(value, str) else None
            return {"lat": float(found[1]), "lon": float(found[2])} if found else None
    return str(value) if value is not None and str(value).strip() else None


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    text = str(value).strip()
    return (
        (int(text) if text.lstrip("+-").isdecimal() else float(text))
        if re.fullmatch(r"[+-]?\d{1,15}(\.\d+)?", text)
        else None
    )
