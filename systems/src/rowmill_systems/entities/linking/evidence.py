"""Compare local facts with those of a candidate."""

import math
import re
from collections.abc import Mapping
from itertools import product
from typing import Any
from urllib.parse import urlsplit

from rowmill_systems.entities.properties.catalogue import Kind, Property, catalogue
from rowmill_systems.parts.names.folding import folded, words

_DATE = re.compile(r"([+-]?\d{1,6})(?:-(\d{2}))?(?:-(\d{2}))?(?:T.*)?")
BY_YEAR, BY_MONTH, BY_DAY = 0.6, 0.8, 1.0
"""Scores of dates that agree as far as both go."""
OTHER_DAY, YEAR_BESIDE, OTHER_YEAR = -0.2, -0.5, -1.0
NEAR_KM, FAR_KM = 30, 300
MOST = 20
"""Values of one property that are compared."""


def agreement(known: Mapping[str, Any], facts: Mapping[str, tuple[Any, ...]]) -> float:
    """Return the score: -1 if they contradict each other, 1 if they agree, 0 if they share no property."""
    agree, contradict = 1.0, 1.0
    for key in sorted(known.keys() & facts.keys() & catalogue().keys()):
        said = _compared(catalogue()[key], _values(known[key]), _values(facts[key]))
        agree, contradict = agree * (1 - max(said, 0.0)), contradict * (1 + min(said, 0.0))
    return contradict - agree


def _compared(property: Property, ours: list[Any], theirs: list[Any]) -> float:
    """Return the best score of any two values. If a property may have many values, another one is no contradiction."""
    said = max((_said(property, one, other) for one, other in product(ours, theirs)), default=0.0)
    return max(said, 0.0) if property.many else said


def _said(property: Property, one: Any, other: Any) -> float:
    kind: Kind = property.kind
    match kind:
        case "date":
            return _dates(one, other)
        case "number" | "amount":
            return _numbers(_number(one), _number(other), property.drifts)
        case "place":
            return _places(one, other)
        case "id":
            return 1.0 if _code(one) == _code(other) else -1.0
        case "url":
            return 0.8 if _host(one) and _host(one) == _host(other) else 0.0
        case "thing" | "text":
            return _things(one, other)


def _dates(one: Any, other: Any) -> float:
    ours, theirs = _DATE.fullmatch(str(one).strip()), _DATE.fullmatch(str(other).strip())
    if not ours or not theirs:
        return 0.0
    years = abs(int(ours[1]) - int(theirs[1]))
    if years:
        return YEAR_BESIDE if years == 1 else OTHER_YEAR
    if not (ours[2] and theirs[2]):
        return BY_YEAR
    if ours[2] != theirs[2]:
        return OTHER_DAY
    if not (ours[3] and theirs[3]):
        return BY_MONTH
    return BY_DAY if ours[3] == theirs[3] else OTHER_DAY


def _numbers(one: float | None, other: float | None, drifts: float) -> float:
    if one is None or other is None:
        return 0.0
    apart = abs(one - other) / max(abs(one), abs(other), 1e-9)
    if apart <= max(drifts, 0.02):
        return 0.5
    return -0.5 if apart > 0.5 else 0.0


def _places(one: Any, other: Any) -> float:
    match one, other:
        case {"lat": int() | float(), "lon": int() | float()}, {"lat": int() | float(), "lon": int() | float()}:
            try:
                away = _kilometres(one, other)
            except (ValueError, OverflowError):  # numbers of JSON that are on no globe
                return 0.0
            return 0.8 if away <= NEAR_KM else -1.0 if away > FAR_KM else 0.0
    return 0.0


def _things(one: Any, other: Any) -> float:
    """Compare things by name.

    Another name proves nothing: a suburb is in the city, and England in the United Kingdom.
    """
    match one, other:
        case {"id": str(ours)}, {"id": str(theirs)} if ours and ours == theirs:
            return 0.6
    ours_words, theirs_words = set(words(_label(one))), set(words(_label(other)))
    if not ours_words or not theirs_words:
        return 0.0
    return 0.5 if ours_words <= theirs_words or theirs_words <= ours_words else -0.1


def _kilometres(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    first, second = math.radians(one["lat"]), math.radians(other["lat"])
    across = math.radians(one["lon"] - other["lon"])
    chord = math.sin((first - second) / 2) ** 2 + math.cos(first) * math.cos(second) * math.sin(across / 2) ** 2
    return 2 * 6371 * math.asin(min(1.0, math.sqrt(max(0.0, chord))))


def _values(value: Any) -> list[Any]:
    return list(value)[:MOST] if isinstance(value, list | tuple) else [value]


def _number(value: Any) -> float | None:
    if isinstance(value, Mapping):
        value = value.get("amount")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _label(value: Any) -> str:
    if isinstance(value, Mapping):
        value = value.get("label")
    return value[:500] if isinstance(value, str) else ""


def _code(value: Any) -> str:
    return folded(str(value)).replace(" ", "")


def _host(value: Any) -> str:
    try:
        return (urlsplit(str(value)).hostname or "").removeprefix("www.")
    except ValueError:
        return ""
