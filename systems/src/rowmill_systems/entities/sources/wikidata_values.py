"""Convert claims of Wikidata to plain values: which hold, and what they say."""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import quote

from rowmill_systems.entities.properties.catalogue import Property
from rowmill_systems.entities.sources.dates import gregorian, written
from rowmill_systems.parts.names.types import EntityType

Claim = Mapping[str, Any]
YEAR, MONTH, DAY = 9, 10, 11
"""Precisions of a time. A decade or a century is not a date."""
JULIAN = "Q1985786"
EARTH = "Q2"
MOST_DIGITS = 300
"""Of an amount. 1E9999999 is short, and would take minutes to write out."""
FILES = "https://commons.wikimedia.org/wiki/Special:FilePath/"


def holding(property: Property, claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims that hold: the preferred ones, if there are any, without those that have ended; where a person
    studied or worked stays true. For a property with one value, the latest or the most precise."""
    best = [claim for claim in claims if claim["preferred"]] or list(claims)
    if property.key != "educated_at":
        current = [claim for claim in best if not claim["ended"]]
        best = current or (best if property.types == {EntityType.PERSON} else [])
    if property.many:
        return best
    return sorted(best, key=lambda claim: (claim["at"], _precision(claim)), reverse=True)[:1]


def things_in(property: Property, claims: Sequence[Claim]) -> list[str]:
    """Return the ids of things and units whose names are needed."""
    found = [_id(claim["value"]) or _unit(claim["value"]) for claim in holding(property, claims)]
    return [id for id in found if id]


class StatementReader:
    """Converts claims, with the names of other things by id."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels

    def values(self, property: Property, claims: Sequence[Claim]) -> tuple[Any, ...]:
        found: list[Any] = []
        for claim in holding(property, claims):
            try:
                value = self._value(property.kind, claim)
            except (ArithmeticError, TypeError, ValueError):  # whoever wrote it wrote something odd: it says nothing
                continue
            if value is not None and value not in found:
                found.append(value)
        return tuple(found)

    def _value(self, kind: str, claim: Claim) -> Any:
        """Convert the value of a claim; None if it is not of this kind."""
        value = claim["value"]
        match kind, claim["type"]:
            case "date", "time" if isinstance(value, dict):
                return _date(value)
            case "thing", _ if id := _id(value):
                return {"id": id, "label": self._labels.get(id) or id}
            case "number", "quantity":
                return _amount(value)
            case "amount", "quantity" if (amount := _amount(value)) is not None:
                unit = _unit(value)
                return {"amount": amount, "unit": self._labels.get(unit) or unit}
            case "place", "globe-coordinate" | "globecoordinate":
                return _place(value)
            case "url", "commonsMedia" if isinstance(value, str):
                return FILES + quote(value.replace(" ", "_"))
            case "url" | "id" | "text", _ if isinstance(value, str):
                return value
            case "text", "monolingualtext" if isinstance(value, dict):
                return value.get("text")
        return None


def _id(value: Any) -> str:
    return str(value["id"]) if isinstance(value, dict) and "entity-type" in value and "id" in value else ""


def _unit(value: Any) -> str:
    """Return the id of the unit's item; empty for a number without a unit."""
    unit = value.get("unit") if isinstance(value, dict) else None
    return unit.rpartition("/")[2] if isinstance(unit, str) and "/" in unit else ""


def _amount(value: Any) -> int | float | None:
    try:
        amount = Decimal(str(value["amount"]))
        if not amount.is_finite() or amount.adjusted() > MOST_DIGITS:
            return None
        return int(amount) if amount == amount.to_integral_value() else float(amount)
    except (InvalidOperation, KeyError, TypeError, OverflowError, ValueError):
        return None


def _place(value: Any) -> dict[str, float] | None:
    if not isinstance(value, dict) or not str(value.get("globe", EARTH)).endswith(f"/{EARTH}"):
        return None
    lat, lon = value.get("latitude"), value.get("longitude")
    if isinstance(lat, int | float) and isinstance(lon, int | float) and math.isfinite(lat) and math.isfinite(lon):
        return {"lat": lat, "lon": lon}
    return None


def _precision(claim: Claim) -> int:
    value = claim["value"]
    precision = value.get("precision") if isinstance(value, dict) else None
    return precision if claim["type"] == "time" and isinstance(precision, int) else 0


def _date(value: Any) -> str | None:
    """Days of the Julian calendar since 1582 are written as the rest of the world did; those before are left as they
    were called then."""
    time, precision = str(value.get("time", "")), value.get("precision")
    sign, parts = time[:1], time[1:].partition("T")[0].split("-")
    if sign not in ("+", "-") or len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return None
    year, month, day = (int(part) for part in parts)
    year = -year if sign == "-" else year
    if precision == DAY and str(value.get("calendarmodel", "")).endswith(JULIAN):
        year, month, day = gregorian(year, month, day)
    known = {DAY: (year, month, day), MONTH: (year, month), YEAR: (year,)}
    return written(*known[precision]) if precision in known else None
