"""The database's clock in SQL."""

from datetime import datetime

import sqlalchemy as sa

MOMENT = sa.DateTime(timezone=True)


def now(connection: sa.Connection) -> "sa.ColumnElement[datetime]":
    """Return the current time of the database, with milliseconds: SQLite's CURRENT_TIMESTAMP has seconds only."""
    if connection.dialect.name == "sqlite":
        return sa.func.strftime("%Y-%m-%d %H:%M:%f000", "now", type_=MOMENT)
    return sa.func.now()
