"""The database's clock, in statements of this system."""

from datetime import datetime

import sqlalchemy as sa

MOMENT = sa.DateTime(timezone=True)


def now(connection: sa.Connection) -> "sa.ColumnElement[datetime]":
    """The time, to the millisecond at least: SQLite's own word for it counts in seconds."""
    if connection.dialect.name == "sqlite":
        return sa.func.strftime("%Y-%m-%d %H:%M:%f000", "now", type_=MOMENT)
    return sa.func.now()
