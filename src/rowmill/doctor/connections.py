"""Checks of connections: a pooler that breaks LISTEN, and too few connections."""

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from rowmill.doctor.finding import DoctorFinding, FindingSeverity
from rowmill.model.errors import DatabaseUnreachable
from rowmill.model.queue import QueueSpec
from rowmill.operator.activity import workers
from rowmill.store.port import Store

LINES = 5
"""Connections that each worker opens for itself: claims, settles, renewals, listening, upkeep."""
HEARD_WITHIN = 2.0


class ServerRefused(Exception):
    """The server, or a pooler in front of it, refused the connection."""


def pool_size(engine: AsyncEngine) -> int | None:
    """Return how many connections `settling()` may use at once; None for no limit."""
    pool: Any = engine.pool
    if not hasattr(pool, "size"):
        return None
    overflow = int(getattr(pool, "_max_overflow", 0))
    return None if overflow < 0 else int(pool.size()) + overflow


def pool(queues: Sequence[QueueSpec[Any]], size: int | None) -> Iterator[DoctorFinding]:
    """Check that the pool is large enough for all handlers to be in `settling()` at once."""
    wanted = sum(handler.concurrency for queue in queues for handler in queue.handlers.values())
    if size is not None and wanted > size:
        yield DoctorFinding(
            FindingSeverity.WARNING,
            "pool_small",
            f"{wanted} handlers may run at once in a worker that has all queues, and the pool has {size} connections: "
            "those that use settling() wait for each other",
            f"give the mill more: Mill(url, connections={wanted}); or lower concurrency to {size} in all, "
            "or give queues workers of their own: rowmill work --queue NAME",
        )


CONNECTIONS = """
SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS most,
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS used,
       (SELECT count(*) FROM pg_stat_activity
        WHERE application_name LIKE 'rowmill%' AND datname = current_database()) AS ours,
       (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user) AS role_limit,
       (SELECT datconnlimit FROM pg_database WHERE datname = current_database()) AS database_limit
"""


def server_limit(connection: Connection, size: int | None) -> Iterator[DoctorFinding]:
    """Check that the server allows the connections that the fleet may need."""
    found = connection.execute(sa.text(CONNECTIONS)).one()
    fleet = max(1, sum(worker.alive for worker in workers(connection)))
    needed = fleet * (LINES + (size or 0))
    limits = [found.most - max(found.used - found.ours, 0)]
    limits += [limit for limit in (found.role_limit, found.database_limit) if limit >= 0]
    if needed > min(limits):
        yield DoctorFinding(
            FindingSeverity.WARNING,
            "connections",
            f"{fleet} worker{'' if fleet == 1 else 's'} may need {needed} connections ({LINES} each, and the pool), "
            f"and the server has {min(limits)} for them",
            "raise max_connections (or the limit of the role or database), or run fewer processes",
        )


async def pooler(url: URL) -> list[DoctorFinding]:
    """Check that NOTIFY arrives. If not, find out whether a transaction pooler is the cause: it shows one server
    connection to two clients, or two to one."""
    import asyncpg

    given = _arguments(url) | {"statement_cache_size": 0, "timeout": 10}
    opened: list[Any] = []
    try:
        opened.append(await asyncpg.connect(**given))
        opened.append(await asyncpg.connect(**given))
        shared = await _shares_servers(*opened)
        if await _hears(*opened):
            return []
    except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise ServerRefused(type(error).__name__) from error
    finally:
        for connection in opened:
            connection.terminate()
    why = "a pooler gives out connections per transaction" if shared else "something between us and the server drops it"
    return [
        DoctorFinding(
            FindingSeverity.WARNING,
            "listen_broken",
            f"LISTEN does not work on this URL: {why}. Sleeping workers are not woken, and their locks and settings "
            "may go to others",
            "give workers a URL that leads to PostgreSQL itself, as ROWMILL_DATABASE_URL; for the transactions of "
            "handlers, name the pooler: Mill(pooled_url=...) or ROWMILL_POOLED_URL",
        )
    ]


SAME_DATABASE = sa.text("SELECT current_database(), pg_postmaster_start_time()")


async def pooled(store: Store) -> list[DoctorFinding]:
    """Check that `pooled_url` leads to the same database as the worker's own URL."""
    where = await store.run(lambda connection: tuple(connection.execute(SAME_DATABASE).one()), write=False)
    try:
        async with store.handlers_engine.connect() as connection:
            if tuple((await connection.execute(SAME_DATABASE)).one()) == where:
                return []
        problem = "leads to another database than the worker's own URL: handlers find none of their rows there"
    except (DBAPIError, OSError, DatabaseUnreachable) as error:
        problem = f"does not answer ({type(error).__name__}): transactions of handlers fail"
    return [
        DoctorFinding(
            FindingSeverity.ERROR,
            "pooled_url",
            f"pooled_url {problem}",
            "let it lead to the same database through the pooler, or take it away: handlers then connect directly",
        )
    ]


async def _shares_servers(one: Any, other: Any) -> bool:
    async with one.transaction():
        first = await one.fetchval("SELECT pg_backend_pid()")
    async with other.transaction():
        if await other.fetchval("SELECT pg_backend_pid()") == first:
            return True
        async with one.transaction():
            return bool(await one.fetchval("SELECT pg_backend_pid()") != first)


async def _hears(one: Any, other: Any) -> bool:
    channel, heard = f"rowmill_doctor_{secrets.token_hex(8)}", asyncio.Event()
    try:
        await one.add_listener(channel, lambda *_: heard.set())
        await other.execute(f"NOTIFY {channel}")
        await asyncio.wait_for(heard.wait(), HEARD_WITHIN)
    except (TimeoutError, OSError):
        return False
    return True


def _arguments(url: URL) -> dict[str, Any]:
    dialect = url.set(drivername="postgresql+asyncpg").get_dialect()()
    given = dialect.create_connect_args(url)[1]
    return {key: value for key, value in given.items() if not key.startswith(("prepared_statement", "async_"))}
