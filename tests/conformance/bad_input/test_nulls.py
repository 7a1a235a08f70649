"""NULL where none is expected."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Lease, Mill, Order, Queue, Retry
from rowmill.store.rescue import Rescued
from tests.conformance.fleet import jobs, worker


def loose(mill: Mill) -> Queue[Any]:
    """Nothing but the key has to be there."""
    table = jobs(Column("state", sa.Text), Column("attempts", sa.Integer), Column("rank", sa.Integer))
    return mill.queue(table, order=Order(priority="rank"), retry=Retry(attempts=2))


async def test_attempts_that_are_missing_count_as_none(database_url: str) -> None:
    async with worker(database_url, loose) as member:
        await member.sql("INSERT INTO jobs (title, state) VALUES ('a', 'ready')")
        [lease] = await member.claim()
        assert lease.attempt == 1
        await member.release(lease)
        assert (await member.row()).attempts == 0
        [lease] = await member.claim()
        await member.sql("UPDATE jobs SET attempts = NULL")
        assert (await member.settle((lease, ValueError("x")))).kept == 1
        await member.bench.advance(10_000)
        [lease] = await member.claim()
        assert lease.attempt == 1


async def test_attempts_that_go_missing_while_a_row_runs(database_url: str) -> None:
    async with worker(database_url, loose) as member:
        await member.put({"title": "a"})
        [lease] = await member.claim()
        await member.sql("UPDATE jobs SET attempts = NULL")
        assert (await member.release(lease)).kept == 1
        await member.claim()
        await member.sql("UPDATE jobs SET attempts = NULL")
        await member.expire()
        assert await member.rescue() == Rescued(returned=1)


async def test_a_state_that_is_missing_is_no_state(database_url: str) -> None:
    """Such a row is not claimed, not rescued, and in nobody's way."""
    async with worker(database_url, loose) as member:
        await member.sql("INSERT INTO jobs (title, state, leased_until) VALUES ('lost', NULL, '2020-01-01')")
        await member.put({"title": "a"})
        assert [lease.row.title for lease in await member.claim(10)] == ["a"]
        assert await member.rescue() == Rescued()
        assert (await member.rows())[0].state is None


async def test_a_lease_that_goes_missing_is_lost(database_url: str) -> None:
    async with worker(database_url, loose) as member:
        await member.put({"title": "a"})
        [lease] = await member.claim()
        await member.sql("UPDATE jobs SET lease = NULL")
        assert (await member.store.renew([lease])).lost == [lease]
        assert (await member.settle((lease, None))).kept == 0
        await member.expire()
        assert await member.rescue() == Rescued(returned=1)
        [entry] = await member.own("attempt")
        assert entry.worker == 0


async def test_an_end_of_the_lease_that_goes_missing_is_given_anew(database_url: str) -> None:
    async with worker(database_url, loose) as member:
        await member.put({"title": "a"})
        [lease] = await member.claim()
        await member.sql("UPDATE jobs SET leased_until = NULL")
        assert await member.rescue() == Rescued()
        assert (await member.row()).leased_until is not None
        assert (await member.settle((lease, None))).kept == 1


async def test_every_optional_column_empty(database_url: str) -> None:
    async with worker(database_url, loose) as member:

        @member.queue.handler()
        async def work(lease: Lease[Any]) -> dict[str, None]:
            assert lease.row.title is None
            return {"title": None}

        await member.sql("INSERT INTO jobs (state) VALUES ('ready')")
        assert (await member.bench.drain()).done == 1
