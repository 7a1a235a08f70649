"""Renewal and release: both guarded by the token."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Columns, Mill, Queue, States
from tests.conformance.fleet import MOMENT, Member, fleet, jobs, worker


def plain(mill: Mill) -> Queue[Any]:
    table = jobs(Column("started_at", MOMENT))
    return mill.queue(table, columns=Columns(started_at="started_at"), states=States(waiting="waiting"), lease=100.0)


async def age(member: Member, seconds: float) -> None:
    await member.bench.advance(seconds)


async def test_renewal_pushes_the_end_of_the_lease_on(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({}, {})
        leases = await member.claim(2)
        await age(member, 70)
        before = await member.rows()
        assert (await member.store.renew(leases)).lost == []
        for old, new in zip(before, await member.rows(), strict=True):
            assert new.leased_until - old.leased_until >= timedelta(seconds=70)
            assert (new.state, new.lease, new.attempts) == (old.state, old.lease, old.attempts)


async def test_renewal_saves_a_row_from_rescue(database_url: str) -> None:
    async with fleet(database_url, plain, size=2) as [member, keeper]:
        await member.put({})
        [lease] = await member.claim()
        await age(member, 101)
        await member.store.renew([lease])
        assert (await keeper.rescue()).returned == 0
        assert (await member.settle((lease, None))).kept == 1


@asynccontextmanager
async def referring(url: str, key: int) -> AsyncIterator[None]:
    """Within the block, a transaction is open that has put in a row which refers to this one."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("CREATE TABLE IF NOT EXISTS notes (job bigint REFERENCES jobs (id))")
        async with connection.transaction():
            await connection.execute("INSERT INTO notes VALUES ($1)", key)
            yield
    finally:
        await connection.close()


async def test_a_row_that_others_refer_to_is_claimed_renewed_and_rescued(pg_url: str) -> None:
    """A foreign key locks the row that it names, against its deletion alone. A handler that keeps such a transaction
    open for longer than its lease would not be renewed, and would lose the row to a rescue when it commits."""
    async with worker(pg_url, plain) as member:
        await member.put({})
        async with referring(pg_url, 1):
            [lease] = await member.claim()
            await age(member, 70)
            before = await member.row()
            assert (await member.store.renew([lease])).lost == []
            assert (await member.row()).leased_until - before.leased_until >= timedelta(seconds=70)
            await age(member, 101)
            assert (await member.rescue()).returned == 1


async def test_a_claim_does_not_wait_for_who_refers_to_a_row(pg_url: str) -> None:
    """Where the state is part of a unique key, to change it is to change a key: such a row is left for later."""

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(sa.UniqueConstraint("title", "state")))

    async with worker(pg_url, declare) as member:
        await member.put({"title": "a"}, {"title": "b"})
        async with referring(pg_url, 1), asyncio.timeout(30):
            assert [lease.key for lease in await member.claim(2)] == [2]


async def test_a_stale_token_renews_nothing(database_url: str) -> None:
    """The row has been claimed by another: its end must not move, and the late worker must hear of it."""
    async with fleet(database_url, plain, size=2) as [late, other]:
        await late.put({"title": "stolen"}, {"title": "kept"})
        stale, kept = await late.claim(2)
        await late.sql("UPDATE jobs SET state = 'ready', lease = NULL, leased_until = NULL WHERE title = 'stolen'")
        await other.claim()
        await age(other, 50)
        before = {row.title: row.leased_until for row in await other.rows()}
        assert (await late.store.renew([stale, kept])).lost == [stale]
        after = {row.title: row.leased_until for row in await other.rows()}
        assert after["stolen"] == before["stolen"]
        assert after["kept"] > before["kept"]


async def test_a_settled_row_is_not_renewed(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({})
        [lease] = await member.claim()
        await member.settle((lease, None))
        assert (await member.store.renew([lease])).lost == [lease]
        assert (await member.row()).leased_until is None


async def test_a_row_that_is_gone_is_not_renewed(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({})
        [lease] = await member.claim()
        await member.sql("DELETE FROM jobs")
        assert (await member.store.renew([lease])).lost == [lease]


async def test_leases_of_several_stages_and_queues_are_renewed_together(database_url: str) -> None:
    from rowmill import Stage

    def declare(mill: Mill) -> Queue[Any]:
        mill.queue(jobs(name="others"), lease=10.0)
        stages = [Stage("a", "a", "a running", lease=50.0), Stage("b", "b", "b running", lease=500.0)]
        return mill.queue(jobs(), stages=stages)

    async with worker(database_url, declare) as member:
        others = member.mill["others"]
        await member.put({"state": "a"}, {"state": "b"})
        await member.bench.insert(others, {})
        leases = [*await member.claim(stage="a"), *await member.claim(stage="b")]
        leases += await member.store.claim(others, others.step(), 1)
        before = [row.leased_until for row in await member.rows()]
        assert len(leases) == 3
        assert (await member.store.renew(leases)).lost == []
        after = [row.leased_until for row in await member.rows()]
        assert all(new >= old for old, new in zip(before, after, strict=True))
        assert after[1] - after[0] >= timedelta(seconds=400)


async def test_release_gives_the_attempt_back(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({"attempts": 1})
        [lease] = await member.claim()
        assert (await member.row()).attempts == 2
        assert (await member.release(lease)).kept == 1
        row = await member.row()
        assert (row.state, row.attempts, row.lease, row.leased_until) == ("ready", 1, None, None)
        assert await member.own("attempt") == []
        assert len(await member.claim()) == 1


async def test_release_never_counts_below_zero(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({})
        [lease] = await member.claim()
        await member.sql("UPDATE jobs SET attempts = 0")
        await member.release(lease)
        assert (await member.row()).attempts == 0


async def test_a_released_row_may_be_told_to_wait(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({})
        await member.release(*await member.claim(), wait=500.0)
        assert await member.claim() == []
        await age(member, 501)
        assert len(await member.claim()) == 1


async def test_a_stale_token_releases_nothing(database_url: str) -> None:
    async with fleet(database_url, plain, size=2) as [late, other]:
        await late.put({})
        [stale] = await late.claim()
        await late.expire()
        await other.rescue()
        [held] = await other.claim()
        before = await other.row()
        settled = await late.release(stale)
        assert (settled.kept, len(settled.lost)) == (0, 1)
        assert await other.row() == before
        assert (await other.settle((held, None))).kept == 1
