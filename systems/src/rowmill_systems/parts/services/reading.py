"""The JSON of an answer, fit for every database."""

import json
import math
from typing import Any

from rowmill_systems.parts.values import UNFIT


def read_json(content: bytes) -> Any:
    """An object or an array, or ValueError. Every service here answers with one of these: anything else, cut short or
    a page for people, is no answer. The error quotes nothing of it."""
    try:
        found = json.loads(content.decode("utf-8-sig"), parse_constant=_refused)
        if isinstance(found, dict | list):
            return fit(found)
    except (ValueError, RecursionError):
        pass
    raise ValueError("no JSON object")


def fit(value: Any) -> Any:
    """Without NUL, halves of characters and numbers without an end, which PostgreSQL does not take."""
    match value:
        case str():
            return UNFIT.sub("", value)
        case float():
            return value if math.isfinite(value) else None
        case list():
            return [fit(one) for one in value]
        case dict():
            return {UNFIT.sub("", name): fit(one) for name, one in value.items()}
    return value


def _refused(name: str) -> Any:
    raise ValueError(name)
