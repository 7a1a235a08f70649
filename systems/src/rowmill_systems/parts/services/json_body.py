"""Read the JSON of an answer."""

import json
from typing import Any

from rowmill_systems.parts.values import storable


def read_json(content: bytes) -> Any:
    """Return the object or array of an answer, without what no database stores.

    Raises ValueError for anything else: a page for people, or an answer that was cut short. The error quotes nothing.
    """
    try:
        found = json.loads(content.decode("utf-8-sig"), parse_constant=_refused)
        if isinstance(found, dict | list):
            return storable(found)
    except (ValueError, RecursionError):
        pass
    raise ValueError("no JSON object")


def _refused(name: str) -> Any:
    raise ValueError(name)
