"""The database's clock, for Rowmill's own tables, and times as they are read."""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa


def moment(dialect: str, seconds: float = 0.0) -> "sa.ColumnElement[Any]":
    """The database's time, `seconds` from now."""
    shift = float(seconds)
    if dialect == "postgresql":
        return sa.literal_column(f"(statement_timestamp() + {shift!r} * interval '1 second')")
    return sa.literal_column(f"strftime('%Y-%m-%d %H:%M:%f000', 'now', '{shift!r} seconds')")


def as_moment(value: Any, epoch: str = "s") -> datetime | None:
    """A time as a column gives it, with or without a zone or as an epoch number, in UTC."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    return datetime.fromtimestamp(float(value) / (1000 if epoch == "ms" else 1), UTC)
