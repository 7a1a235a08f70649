"""The database's clock for Rowmill's own tables, and how times are read."""

import re
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

MOMENT = sa.DateTime(timezone=True)
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
"""Where Python's calendar begins and ends. Times beyond, `infinity` among them, are read as these."""
FAR = re.compile(r"\s*(?P<sign>[+-]?)(infinity|(?P<year>\d{4,})-)", re.IGNORECASE)


def moment(dialect: str, seconds: float = 0.0) -> "sa.ColumnElement[Any]":
    """Return an SQL expression for the database's time, `seconds` from now."""
    shift = float(seconds)
    if dialect == "postgresql":
        return sa.literal_column(f"(statement_timestamp() + {shift!r} * interval '1 second')")
    return sa.literal_column(f"strftime('%Y-%m-%d %H:%M:%f000', 'now', '{shift!r} seconds')")


def database_now(connection: Connection) -> datetime:
    """Return the database's time."""
    now = as_moment(connection.scalar(sa.select(sa.type_coerce(moment(connection.dialect.name), MOMENT))))
    assert now is not None
    return now


def as_moment(value: Any, epoch: str = "s") -> datetime | None:
    """Return a time in UTC, whether a column holds it with or without a zone, as text or as an epoch number. Users
    write into these columns: a time beyond Python's calendar becomes its end, and something that is no time becomes
    None."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        return datetime.fromtimestamp(float(value) / (1000 if epoch == "ms" else 1), UTC)
    except (ValueError, OverflowError, OSError):
        return _end_of_calendar(value)


def _end_of_calendar(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return FIRST if value.year == FIRST.year else LAST
    if isinstance(value, str):
        found = FAR.match(value)
        if found is None:
            return None
        before = found["sign"] == "-" or found["year"] == "0000"
        beyond = found["year"] is None or len(found["year"]) > 4
        return FIRST if before else LAST if beyond else None
    number = float(value)
    return None if number != number else FIRST if number < 0 else LAST


def as_stored(column: "sa.Column[Any]", dialect: str) -> "sa.ColumnElement[Any]":
    """Return a column of times as it is stored, to be read by `as_moment`. A SQLite column may hold any text; read as a
    time by SQLAlchemy, a wrong one would fail the whole query."""
    kind: Any = column.type
    while isinstance(kind, sa.types.TypeDecorator):
        kind = kind.impl_instance
    if dialect == "sqlite" and isinstance(kind, sa.DateTime):
        return sa.type_coerce(column, sa.types.NullType())
    return column
