"""How new an answer must be to be used."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime

from rowmill_systems.parts.database import in_utc

_SINCE: ContextVar[datetime | None] = ContextVar("answers_since", default=None)


@contextmanager
def answers_since(moment: datetime | None) -> Iterator[None]:
    """Within the block, use only answers given after this time of the database's clock, and ask for others again."""
    token = _SINCE.set(None if moment is None else in_utc(moment))
    try:
        yield
    finally:
        _SINCE.reset(token)


def current() -> datetime | None:
    return _SINCE.get()
