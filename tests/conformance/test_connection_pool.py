"""Connections of the worker's own: one is enough while statements are quick, and no slow one holds up the next."""

import asyncio

import pytest

from rowmill.store import dsn
from rowmill.store.open import parse_url
from rowmill.store.port import StatementTimeout
from rowmill.store.postgres import connection
from rowmill.store.postgres.connection import ConnectionPool


@pytest.fixture
async def pool(pg_url: str) -> ConnectionPool:
    return ConnectionPool("test", dsn.for_asyncpg(parse_url(pg_url)))


async def test_quick_statements_share_one_connection(pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 30.0)
    pids = await asyncio.gather(*(pool.fetch("SELECT pg_backend_pid()") for _ in range(20)))
    await pool.close()

    assert len({rows[0][0] for rows in pids}) == 1


async def test_a_slow_statement_does_not_hold_up_the_next(pool: ConnectionPool) -> None:
    slow = asyncio.create_task(pool.fetch("SELECT pg_sleep(60)"))
    await asyncio.sleep(0)  # it has the connection now
    [[answer]] = await pool.fetch("SELECT 1")
    assert (answer, len(pool)) == (1, 2)
    assert not slow.done()
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
    assert [list(row) for row in await pool.fetch("SELECT 2")] == [[2]], "what was cut off is not used again"
    await pool.close()


async def test_connections_that_are_not_needed_any_more_are_closed(
    pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "PATIENCE", 0.0)
    monkeypatch.setattr(connection, "IDLE_SECONDS", 0.0)
    await asyncio.gather(*(pool.fetch("SELECT pg_sleep(0.2)") for _ in range(3)))
    await asyncio.sleep(0.01)
    await pool.fetch("SELECT 1")
    assert len(pool) == 1
    await pool.close()


async def test_a_cancelled_statement_leaves_its_connection_as_it_was(pool: ConnectionPool) -> None:
    [[before]] = await pool.fetch("SELECT pg_backend_pid()")
    await pool.fetch("SET statement_timeout = '50ms'")
    with pytest.raises(StatementTimeout) as told:
        await pool.fetch("SELECT pg_sleep(60)")
    [[after]] = await pool.fetch("SELECT pg_backend_pid()")
    await pool.close()

    assert not told.value.unanswered
    assert before == after
