"""The database's clock."""

from datetime import datetime

import sqlalchemy as sa

from rowmill_systems.parts.database import in_utc

MOMENT = sa.DateTime(timezone=True)
SECONDS_OF_A_DAY = 86_400.0


def now(dialect: str, seconds: float = 0.0, *, days: float = 0.0) -> "sa.ColumnElement[datetime]":
    """Return the time of the database plus `seconds` and `days`, also within a long transaction."""
    seconds += days * SECONDS_OF_A_DAY
    if dialect == "postgresql":
        return sa.literal_column(f"(statement_timestamp() + {float(seconds)!r} * interval '1 second')", MOMENT)
    return sa.literal_column(f"strftime('%Y-%m-%d %H:%M:%f000', 'now', '{float(seconds):+} seconds')", MOMENT)


def database_time(connection: sa.Connection) -> datetime:
    """Return the time of the database."""
    if connection.dialect.name == "postgresql":
        found: datetime = connection.scalar(sa.select(sa.func.statement_timestamp()))  # type: ignore[assignment]
        return in_utc(found)
    text = connection.scalar(sa.select(sa.func.strftime("%Y-%m-%d %H:%M:%f", "now")))
    return in_utc(datetime.fromisoformat(str(text)))
