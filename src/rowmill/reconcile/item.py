"""An item of an inventory: its key and its facts."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from rowmill.model.errors import InventoryError
from rowmill.store.clock import as_moment

Key = int | str | UUID
Facts = Mapping[str, Any]
"""What an inventory knows about an item: its state, its time. Never logged."""
Item = tuple[Any, Facts]

NOTHING: Facts = {}
KEY_LENGTH = 1000
"""The most bytes in the text of a key. An index entry holds at most 2,700 bytes."""


class InventoryEnd:
    """The end marker of an inventory with `end_marker`."""

    def __repr__(self) -> str:
        return "END"


END: Final = InventoryEnd()


def as_item(given: Any) -> Item:
    """Return key and facts of an item that may be a key alone."""
    if isinstance(given, tuple) and len(given) == 2:
        key, facts = given
        return key, NOTHING if facts is None else facts
    return given, NOTHING


def kind_of(key: Any) -> type:
    """Return the type by which a key is ordered. Raises InventoryError for keys of other types."""
    for kind in (str, UUID, int):
        if isinstance(key, kind) and not isinstance(key, bool):
            return kind
    raise InventoryError(f"a key is an int, a str or a UUID, not {type(key).__name__}")


def key_text(key: Any) -> str:
    """Return a key as text for the database, logs and people. The text is unique per key, valid in every database, and
    short enough for an index."""
    text = str(key).replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text.encode()) <= KEY_LENGTH:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text[: KEY_LENGTH // 4]}…{digest}"


def time_in(facts: Facts, name: str | None, epoch: str = "s") -> datetime | None:
    """Return the item's time; None if it has none. Text is ISO 8601."""
    value = None if name is None else facts.get(name)
    return as_moment(datetime.fromisoformat(value) if isinstance(value, str) else value, epoch)
