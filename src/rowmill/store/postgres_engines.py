"""SQLAlchemy's engines on PostgreSQL: for the transactions of handlers, and for the statements that are not hot."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from rowmill.store import dsn
from rowmill.store.line import CONNECT_SECONDS
from rowmill.store.postgres_session import ALIVE
from rowmill.store.transactions import guard

ISOLATION = "READ COMMITTED"
"""Of handlers' transactions, whatever the database's own default: the worker renews the lease of a row while its
handler's transaction is open, and in a stricter one that transaction could not settle the row any more."""


def async_engine(url: URL, settings: Mapping[str, str], /, **pool: int) -> AsyncEngine:
    return create_async_engine(
        url.set(drivername="postgresql+asyncpg", query={}),
        pool_pre_ping=True,
        hide_parameters=True,
        isolation_level=ISOLATION,
        connect_args=dsn.for_engine(url) | {"timeout": CONNECT_SECONDS, "server_settings": settings},
        **pool,
    )


def handler_engine(url: URL, connections: int) -> AsyncEngine:
    """For transactions of async handlers: see `postgres_transactions`, which limits how many there are at once."""
    return create_async_engine(
        url.set(drivername="postgresql+asyncpg", query={}),
        hide_parameters=True,
        isolation_level="AUTOCOMMIT",
        connect_args=dsn.for_engine(url) | {"timeout": CONNECT_SECONDS, "server_settings": ALIVE},
        pool_size=connections,
        max_overflow=1,  # never used; without it, the pool would wait by itself even for a connection that is there
        pool_use_lifo=True,
        pool_reset_on_return=None,
    )


def sync_engine(url: URL, **pool: int) -> Engine:
    engine = create_engine(
        dsn.for_psycopg(url), pool_pre_ping=True, hide_parameters=True, isolation_level=ISOLATION, **pool
    )
    sa.event.listen(engine, "connect", keep_alive)
    return engine


def sync_handler_engine(url: URL, connections: int) -> Engine:
    """For transactions of sync handlers."""
    engine = create_engine(
        dsn.for_psycopg(url), hide_parameters=True, isolation_level="AUTOCOMMIT", pool_size=connections, max_overflow=0,
        pool_use_lifo=True, pool_reset_on_return=None,
    )  # fmt: skip
    sa.event.listen(engine, "connect", keep_alive)
    guard(engine)  # a commit by psycopg's connection is one, even in autocommit
    return engine


def keep_alive(connection: Any, _record: Any) -> None:
    """Give a session of a driver without parameters for the server its settings."""
    with connection.cursor() as cursor:
        cursor.execute("; ".join(f"SET {name} = '{value}'" for name, value in ALIVE.items()))
    connection.commit()
