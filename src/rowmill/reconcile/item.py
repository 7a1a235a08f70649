"""What an inventory gives: a key, and what is known of the thing beside it."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from rowmill.model.errors import InventoryError
from rowmill.store.clock import as_moment

Key = int | str | UUID
Facts = Mapping[str, Any]
"""What an inventory tells of a thing: its state, its time. Never logged."""
Item = tuple[Any, Facts]

NOTHING: Facts = {}
KEY_LENGTH = 1000
"""Of the text of a key. An index takes no more than 2,700 bytes."""


class InventoryEnd:
    """The last item of an inventory that promises one."""

    def __repr__(self) -> str:
        return "END"


END: Final = InventoryEnd()


def as_item(given: Any) -> Item:
    """A key alone, or with its facts."""
    if isinstance(given, tuple) and len(given) == 2:
        key, facts = given
        return key, NOTHING if facts is None else facts
    return given, NOTHING


def kind_of(key: Any) -> type:
    """Keys of two kinds have no common order."""
    for kind in (str, UUID, int):
        if isinstance(key, kind) and not isinstance(key, bool):
            return kind
    raise InventoryError(f"a key is an int, a str or a UUID, not {type(key).__name__}")


def key_text(key: Any) -> str:
    """A key as the database, the log and people have it: text that every database takes, of a length that an index
    takes, and another one for every other key."""
    text = str(key).replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text.encode()) <= KEY_LENGTH:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text[: KEY_LENGTH // 4]}…{digest}"


def time_in(facts: Facts, name: str | None, epoch: str = "s") -> datetime | None:
    """The time that the facts tell; None where they tell none. Text is ISO 8601."""
    value = None if name is None else facts.get(name)
    return as_moment(datetime.fromisoformat(value) if isinstance(value, str) else value, epoch)
