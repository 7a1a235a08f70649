"""The database's clock in SQL."""

from datetime import datetime

import sqlalchemy as sa

SECONDS_OF_A_DAY = 86_400.0
MOMENT = sa.DateTime(timezone=True)


def now(dialect: str, seconds: float = 0.0, *, days: float = 0.0) -> "sa.ColumnElement[datetime]":
    """Return the time of the database plus `seconds` and `days`, also within a long transaction."""
    seconds += days * SECONDS_OF_A_DAY
    if dialect == "postgresql":
        shifted = f"(statement_timestamp() + {float(seconds)!r} * interval '1 second')"
        return sa.literal_column(shifted, MOMENT)
    return sa.literal_column(f"strftime('%Y-%m-%d %H:%M:%f000', 'now', '{float(seconds):+} seconds')", MOMENT)
