"""Compare two values of a property."""

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from rowmill_systems.entities.properties.catalogue import Property
from rowmill_systems.parts.names.folding import folded
from rowmill_systems.parts.values import value_hash

NEAR_DEGREES = 0.1
"""Places closer than this are the same: sources mean the middle of a town, or its town hall."""


def agree(property: Property, one: Any, other: Any) -> bool:
    """Tell whether two values say the same, as far as both go: 1815 agrees with 1815-12-10, and London with Q84."""
    if one == other:
        return True
    match property.kind:
        case "date":
            return _dates_agree(one, other)
        case "number" | "amount":
            return _amounts_agree(one, other, property.drifts)
        case "thing":
            return bool(_names_of(one) & _names_of(other))
        case "place":
            return _places_agree(one, other)
    return form(property, one) == form(property, other)


def form(property: Property, value: Any) -> str:
    """Return a form that is the same for values that differ only in spelling."""
    match property.kind, value:
        case "url", str():
            return _url(value.strip())
        case "id", str():
            return "".join(char for char in value.casefold() if char.isalnum())
        case "thing", {"label": str(label)}:
            return folded(label)
        case _, str():
            return folded(value)
    return value_hash(value)


def finer(property: Property, one: Any, other: Any) -> bool:
    """Tell whether the other of two values that agree says more: 1815-12-10 says more than 1815."""
    match property.kind, one, other:
        case "date", str(), str():
            return len(other) > len(one)
        case "thing", str(), Mapping():
            return True
    return False


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
    except ValueError:
        return text
    host = parts.netloc.lower().removeprefix("www.")
    return f"{host}{parts.path.rstrip('/')}?{parts.query}" if host else text


def _dates_agree(one: Any, other: Any) -> bool:
    """Compare dates as far as both go, without times of day."""
    if not isinstance(one, str | int) or not isinstance(other, str | int):
        return False
    one_parts, other_parts = _date_parts(str(one)), _date_parts(str(other))
    return all(a == b for a, b in zip(one_parts, other_parts, strict=False))


def _date_parts(text: str) -> list[str]:
    day = text.strip().split("T")[0].split(" ")[0]
    sign = "-" if day.startswith("-") else ""
    year, *rest = day.removeprefix("+").removeprefix("-").split("-")
    return [sign + year.lstrip("0"), *(part.lstrip("0") for part in rest)]


def _amounts_agree(one: Any, other: Any, drifts: float) -> bool:
    (amount, unit), (other_amount, other_unit) = _amount(one), _amount(other)
    if amount is None or other_amount is None or (unit and other_unit and folded(unit) != folded(other_unit)):
        return False
    return math.isclose(amount, other_amount, rel_tol=max(drifts, 1e-9))


def _amount(value: Any) -> tuple[float | None, str]:
    """Return a number with its unit, if it has one."""
    match value:
        case {"amount": amount}:
            return _amount(amount)[0], str(value.get("unit") or "")
        case bool():
            return None, ""
        case int() | float() | str():
            try:
                return float(value.replace(",", "").replace(" ", "") if isinstance(value, str) else value), ""
            except (ValueError, OverflowError):  # whole numbers of JSON may be of any length
                return None, ""
    return None, ""


def _names_of(value: Any) -> set[str]:
    """Return the names of a thing: an id, a label, a text."""
    match value:
        case {"id": id, "label": str(label)}:
            return {str(id), folded(label)}
        case {"id": id}:
            return {str(id)}
        case str():
            return {value, folded(value)}
    return set()


def _places_agree(one: Any, other: Any) -> bool:
    match one, other:
        case {"lat": lat, "lon": lon}, {"lat": other_lat, "lon": other_lon}:
            try:
                away = abs(float(lon) - float(other_lon)) % 360
                return abs(float(lat) - float(other_lat)) <= NEAR_DEGREES and min(away, 360 - away) <= NEAR_DEGREES
            except (TypeError, ValueError, OverflowError):
                return False
    return False
