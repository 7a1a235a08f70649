"""Things and what is known of them, as lines of a temporary file. As data: nothing here is code when it comes back."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from rowmill.model.errors import InventoryError

MARK = "\x00"
"""The key under which the kind of a value stands that JSON has no form for."""
READ: dict[str, Callable[[Any], Any]] = {
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timedelta": lambda text: timedelta(seconds=float(text)),
    "Decimal": Decimal,
    "UUID": UUID,
    "bytes": b64decode,
}


def packed(values: list[Any]) -> bytes:
    """One line."""
    return json.dumps(values, default=_told, ensure_ascii=True).encode() + b"\n"


def unpacked(line: bytes) -> list[Any]:
    found: list[Any] = json.loads(line, object_hook=_known)
    return found


def _told(value: Any) -> Any:
    match value:
        case datetime() | date() | time():
            text = value.isoformat()
        case timedelta():
            text = repr(value.total_seconds())
        case Decimal() | UUID():
            text = str(value)
        case bytes() | bytearray() | memoryview():
            return {MARK: "bytes", "is": b64encode(value).decode()}
        case Mapping():
            return dict(value)
        case _:
            raise InventoryError(
                f"facts may be numbers, text, times, UUIDs, bytes, lists and mappings, not {type(value).__name__}"
            )
    return {MARK: next(kind.__name__ for kind in type(value).__mro__ if kind.__name__ in READ), "is": text}


def _known(found: dict[str, Any]) -> Any:
    kind = found.get(MARK)
    return READ[kind](found["is"]) if kind in READ and len(found) == 2 else found
