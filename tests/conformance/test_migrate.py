"""Indexes that a queue's table lacks are made: beside those who write to it, where there are rows."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from rowmill import Mill, Queue
from rowmill.errors import SchemaMismatch
from rowmill.store.indexes import IndexState, index_states, queue_indexes
from tests.conformance.fleet import Member, jobs, worker

pytestmark = pytest.mark.empty_database

READY = "rowmill_jobs_work_ready"


def plain(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs())


async def fill(member: Member, rows: int) -> None:
    for _ in range(rows):
        await member.put({})


async def states(member: Member) -> set[IndexState]:
    sql = member.store.sql(member.queue)
    found = await member.mill.run(lambda connection: index_states(connection, sql, queue_indexes(sql)))
    return set(found.values())


async def until(connection: "asyncpg.Connection[Any]", query: str, condition: str = "true") -> None:
    """Until somebody else's last statement begins like this."""
    here = f"datname = current_database() AND pid <> pg_backend_pid() AND {condition}"
    async with asyncio.timeout(30):
        while not await connection.fetch(f"SELECT FROM pg_stat_activity WHERE {here} AND query LIKE $1", f"{query}%"):
            await asyncio.sleep(0.01)


@asynccontextmanager
async def held_up(member: Member, url: str) -> AsyncIterator[tuple["asyncio.Task[Any]", "asyncpg.Connection[Any]"]]:
    """A migration that waits with its index for an old transaction, until the end of the block; and a connection."""
    await member.put({})
    await member.sql(f"DROP INDEX {READY}")
    old, other = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        async with old.transaction():
            await old.execute("INSERT INTO jobs (state) VALUES ('ready')")
            migrating = asyncio.create_task(member.mill.migrate())
            await until(other, "CREATE INDEX", "wait_event_type = 'Lock'")
            yield migrating, other
        await asyncio.wait({migrating})
    finally:
        await old.close()
        await other.close()


@pytest.mark.parametrize("rows", [0, 3])
async def test_an_index_that_is_missing_is_made(database_url: str, rows: int) -> None:
    async with worker(database_url, plain) as member:
        await fill(member, rows)
        await member.sql(f"DROP INDEX {READY}")
        assert IndexState.MISSING in await states(member)
        await member.mill.migrate()
        assert await states(member) == {IndexState.GOOD}
        assert len(await member.claim(5)) == rows


async def test_nobody_who_writes_waits_for_it(pg_url: str) -> None:
    """A plain CREATE INDEX would wait for the old transaction too, and all writers behind it."""
    async with worker(pg_url, plain) as member:
        async with held_up(member, pg_url) as (migrating, other):
            await other.execute("SET lock_timeout = '5s'")
            await other.execute("INSERT INTO jobs (state) VALUES ('ready')")
        await migrating
        assert await states(member) == {IndexState.GOOD}
        assert len(await member.claim(5)) == 3


@pytest.mark.parametrize("rows", [0, 3])
async def test_what_a_failed_attempt_left_is_removed_and_made_anew(pg_url: str, rows: int) -> None:
    async with worker(pg_url, plain) as member:
        await fill(member, rows)
        await member.sql(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{READY}'::regclass")
        assert IndexState.INVALID in await states(member)
        await member.mill.migrate()
        assert await states(member) == {IndexState.GOOD}


async def test_an_index_that_can_t_be_made_is_said_and_the_next_attempt_goes_on(pg_url: str) -> None:
    """An error in the middle of it leaves an invalid index."""
    async with worker(pg_url, plain) as member:
        async with held_up(member, pg_url) as (migrating, other):
            cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX%'"
            await other.execute(f"{cancel} AND datname = current_database()")
            with pytest.raises(SchemaMismatch, match=f"{READY} of table jobs could not be made.*migrate again"):
                await migrating
        assert IndexState.INVALID in await states(member)
        await member.mill.migrate()
        assert await states(member) == {IndexState.GOOD}


async def test_who_comes_while_another_makes_it_waits_for_it(pg_url: str) -> None:
    """What the other makes looks like what a failed attempt left. And a worker may be started next."""
    async with worker(pg_url, plain) as member:
        mill = Mill(pg_url)
        plain(mill)

        async def second() -> set[IndexState]:
            await mill.migrate()
            return await states(member)

        async with held_up(member, pg_url) as (migrating, other):
            late = asyncio.create_task(second())
            await until(other, "SELECT pg_try_advisory_lock")
        await migrating
        assert await late == {IndexState.GOOD}
