"""Where an error comes from, for a log: lines of code and classes. Never its text, which may quote what is in a row."""

import traceback
from collections.abc import Iterator

from rowmill.model.errors import safe_text

KEPT_BYTES = 8192
"""Of a traceback in the history: its end, where the error was raised."""


def trail(error: BaseException) -> str:
    """The way of an error through the code, after that of the errors that it was raised from."""
    parts = []
    for each in reversed(list(_chain(error))):
        lines = "".join(traceback.format_tb(each.__traceback__))
        parts.append(f"Traceback (most recent call last):\n{lines}{type(each).__qualname__}")
    return "\nwhich led to\n".join(parts)


def kept_trail(error: BaseException) -> str:
    """The same for the history of a row: text that every database takes, of long ones the last part."""
    text = trail(error)
    data = safe_text(text, len(text)).encode()
    return data.decode() if len(data) <= KEPT_BYTES else "…" + data[-KEPT_BYTES:].decode(errors="ignore")


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
