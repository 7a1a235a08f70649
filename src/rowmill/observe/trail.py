"""Tracebacks for logs: lines of code and classes, never the text of an error, which may quote what is in a row."""

import textwrap
import traceback
from collections.abc import Iterator

from rowmill.model.errors import safe_text

KEPT_BYTES = 8192
"""Bytes of a traceback that the history keeps: its end, where the error was raised."""

MOST_OF_A_GROUP = 5
"""The most errors of a group that are shown, and the depth of groups within groups."""


def trail(error: BaseException) -> str:
    """Return the traceback of an error after those of the errors that caused it; of a group, those of its first members
    too."""
    return _trail(error, set(), 0)


def kept_trail(error: BaseException) -> str:
    """Return the traceback for the history of a row, as text that every database takes. Of a long one, the last
    part."""
    text = trail(error)
    data = safe_text(text, len(text)).encode()
    return data.decode() if len(data) <= KEPT_BYTES else "…" + data[-KEPT_BYTES:].decode(errors="ignore")


def _trail(error: BaseException, seen: set[int], depth: int) -> str:
    chain = reversed(list(_chain(error, seen)))
    return "\nwhich led to\n".join(_part(each, seen, depth) for each in chain)


def _part(error: BaseException, seen: set[int], depth: int) -> str:
    lines = "".join(traceback.format_tb(error.__traceback__))
    text = f"Traceback (most recent call last):\n{lines}{type(error).__qualname__}"
    if isinstance(error, BaseExceptionGroup) and depth < MOST_OF_A_GROUP:
        shown = error.exceptions[:MOST_OF_A_GROUP]
        for number, each in enumerate(shown, start=1):
            text += f"\n  + {number} of {len(error.exceptions)}\n"
            text += textwrap.indent(_trail(each, seen, depth + 1), "  | ")
    return text


def _chain(error: BaseException, seen: set[int]) -> Iterator[BaseException]:
    """Yield an error and its causes, except those in `seen`: causes may form a circle."""
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
