"""Where an error comes from, for a log: lines of code and classes. Never its text, which may quote what is in a row."""

import traceback
from collections.abc import Iterator


def trail(error: BaseException) -> str:
    """The way of an error through the code, after that of the errors that it was raised from."""
    parts = []
    for each in reversed(list(_chain(error))):
        lines = "".join(traceback.format_tb(each.__traceback__))
        parts.append(f"Traceback (most recent call last):\n{lines}{type(each).__qualname__}")
    return "\nwhich led to\n".join(parts)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
