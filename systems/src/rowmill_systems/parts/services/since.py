"""How old an answer may be that counts for the entity at hand."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

_SINCE: ContextVar[datetime | None] = ContextVar("answers_since", default=None)


@contextmanager
def answers_since(moment: datetime | None) -> Iterator[None]:
    """Within the block, services are asked anew unless they answered after this time of the database's clock."""
    token = _SINCE.set(None if moment is None else in_utc(moment))
    try:
        yield
    finally:
        _SINCE.reset(token)


def current() -> datetime | None:
    return _SINCE.get()


def in_utc(moment: datetime) -> datetime:
    """SQLite keeps no zones. What it has is UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
