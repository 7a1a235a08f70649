"""Where PostgreSQL and SQLite differ."""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite


def upsert_into(bind: sa.Connection | sa.Engine, table: Any) -> postgresql.Insert | sqlite.Insert:
    """Return an INSERT with `on_conflict_do_update` and `on_conflict_do_nothing`."""
    if bind.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


def in_utc(moment: datetime) -> datetime:
    """Return a time of the database in UTC. SQLite stores no zones: what it returns is UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
