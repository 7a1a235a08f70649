"""SQLAlchemy engines on PostgreSQL: for the transactions of handlers, and for statements outside the hot path. Those on
asyncpg are for `greenlet_spawn`; see `store.transactions`."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import URL

from rowmill.model.errors import DatabaseUnreachable
from rowmill.store import dsn
from rowmill.store.postgres.connection import CONNECT_SECONDS
from rowmill.store.postgres.session import ALIVE
from rowmill.store.transactions import guard

EPOCH = datetime(2000, 1, 1)
"""The zero of PostgreSQL's times."""
ENDLESS = 2**63 - 1
ENDLESS_DATE = 2**31 - 1
MICROSECOND = timedelta(microseconds=1)
FIRST, LAST = (datetime.min - EPOCH) // MICROSECOND, (datetime.max - EPOCH) // MICROSECOND


def read_timestamp(given: tuple[int]) -> datetime:
    return EPOCH + min(max(given[0], FIRST), LAST) * MICROSECOND


def write_timestamp(value: datetime) -> tuple[int]:
    number = (value - EPOCH) // MICROSECOND
    return (ENDLESS if number == LAST else -ENDLESS - 1 if number == FIRST else number,)


def read_timestamptz(given: tuple[int]) -> datetime:
    return read_timestamp(given).replace(tzinfo=UTC)


def write_timestamptz(value: datetime) -> tuple[int]:
    """Encode a time. One without a zone is in the zone of this machine, as in asyncpg."""
    return write_timestamp(value.astimezone(UTC).replace(tzinfo=None))


def read_date(given: tuple[int]) -> date:
    return read_timestamp((given[0] * 86_400_000_000,)).date()


def write_date(value: date) -> tuple[int]:
    days = (value - EPOCH.date()).days
    return (ENDLESS_DATE if value == date.max else -ENDLESS_DATE - 1 if value == date.min else days,)


READERS = {
    "timestamp": (write_timestamp, read_timestamp),
    "timestamptz": (write_timestamptz, read_timestamptz),
    "date": (write_date, read_date),
}


async def read_far_times(connection: Any) -> None:
    """Make an asyncpg connection read times beyond Python's calendar as its first or last moment. By itself asyncpg
    reads `infinity` so, but fails on the year 20000: one such row would keep a whole list from being shown."""
    for name, (encoder, decoder) in READERS.items():
        await connection.set_type_codec(name, schema="pg_catalog", encoder=encoder, decoder=decoder, format="tuple")


ISOLATION = "READ COMMITTED"
"""The isolation level of handlers' transactions, whatever the database's default. The worker renews a row's lease while
its handler's transaction is open; at a stricter level that transaction could not settle the row any more."""


def async_engine(url: URL, settings: Mapping[str, str], /, **pool: int) -> Engine:
    return create_engine(
        url.set(drivername="postgresql+asyncpg", query={}),
        pool_pre_ping=True,
        hide_parameters=True,
        isolation_level=ISOLATION,
        connect_args=dsn.for_engine(url) | {"timeout": CONNECT_SECONDS, "server_settings": settings},
        **pool,
    )


def handler_engine(url: URL, *, pooled: bool = False) -> Engine:
    """Return the engine for the transactions of async handlers. `HandlerConnections` keeps its connections.

    A `pooled` one may go through a pooler in transaction mode. It asks for no settings, and prepares statements under
    names that nobody else has, inside the transaction in which they are used.
    """
    session: dict[str, Any] = {"server_settings": ALIVE}
    if pooled:
        session = {
            "server_settings": NAME,
            "statement_cache_size": 0,
            "prepared_statement_cache_size": 0,
            "prepared_statement_name_func": lambda: f"rowmill_{uuid4()}",
        }
    engine = create_engine(
        url.set(drivername="postgresql+asyncpg", query={}),
        hide_parameters=True,
        isolation_level="AUTOCOMMIT",
        connect_args=dsn.for_engine(url) | {"timeout": CONNECT_SECONDS} | session,
        poolclass=sa.NullPool,
        pool_reset_on_return=None,
    )
    guard(engine)
    if pooled:
        sa.event.listen(engine, "connect", _check_asyncpg)
    return engine


def upkeep_engine(url: URL, settings: Mapping[str, str], /, **pool: int) -> Engine:
    """Return the engine for statements that read rows of users. It reads any time that they may hold."""
    engine = async_engine(url, settings, **pool)

    @sa.event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        connection.run_async(read_far_times)

    return engine


def sync_engine(url: URL, **pool: int) -> Engine:
    engine = create_engine(
        dsn.for_psycopg(url), pool_pre_ping=True, hide_parameters=True, isolation_level=ISOLATION, **pool
    )
    sa.event.listen(engine, "connect", keep_alive)
    return engine


def sync_handler_engine(url: URL, connections: int, *, pooled: bool = False) -> Engine:
    """Return the engine for the transactions of sync handlers. A `pooled` one prepares no statements."""
    engine = create_engine(
        dsn.for_psycopg(url), hide_parameters=True, isolation_level="AUTOCOMMIT", pool_size=connections, max_overflow=0,
        pool_use_lifo=True, pool_reset_on_return=None,
        connect_args=NAME | {"prepare_threshold": None} if pooled else {},
    )  # fmt: skip
    sa.event.listen(engine, "connect", _check_psycopg if pooled else keep_alive)
    guard(engine)  # a commit by psycopg's connection is one, even in autocommit
    return engine


NAME = {"application_name": "rowmill"}
"""The one session setting that every pooler passes on."""


def _check_asyncpg(connection: Any, _record: Any) -> None:
    _check_strings(connection.driver_connection.get_settings().standard_conforming_strings)


def _check_psycopg(connection: Any, _record: Any) -> None:
    _check_strings(connection.info.parameter_status("standard_conforming_strings"))


def _check_strings(setting: str | None) -> None:
    """Raise if standard_conforming_strings is off. State words are literals in statements; a backslash would then end
    one early, and a session behind a pooler can't change the setting."""
    if setting != "on":
        raise DatabaseUnreachable(
            "standard_conforming_strings is off behind the pooler of pooled_url. Switch it on for the role: "
            "ALTER ROLE ... SET standard_conforming_strings = on"
        )


def keep_alive(connection: Any, _record: Any) -> None:
    """Set the session settings on a connection whose driver can't send them when it connects."""
    with connection.cursor() as cursor:
        cursor.execute("; ".join(f"SET {name} = '{value}'" for name, value in ALIVE.items()))
    connection.commit()
