"""A claim starts where the last one left off; rows that come to lie behind that are found all the same.

Only PostgreSQL has a watermark, but the promise is of both stores.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Mill, Order, Queue
from rowmill.store import watermark
from rowmill.store.postgres.store import PostgresStore
from tests.conformance.fleet import Member, fleet, jobs, worker

EARLY = datetime(2020, 1, 1, tzinfo=UTC)


def plain(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs())


def ranked(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs(Column("rank", sa.Integer)), order=Order(priority="rank"))


def at(minute: int) -> datetime:
    return EARLY + timedelta(minutes=minute)


async def pass_over(member: Member, number: int = 10) -> None:
    """Claim up to a position: everything before it is behind the watermark now."""
    await member.queue.load([{"title": "passed", "available_at": at(60 + n)} for n in range(number)])
    assert len(await member.claim(number)) == number


async def test_a_row_with_an_old_date_is_found(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await pass_over(member)
        await member.put({"title": "old", "available_at": at(0)})
        assert [lease.row.title for lease in await member.claim(5)] == ["old"]


async def test_an_old_row_is_found_though_newer_ones_come_first(database_url: str) -> None:
    """A claim that is filled by rows ahead says nothing of those behind the watermark; the next short one does."""
    async with worker(database_url, plain) as member:
        await pass_over(member)
        await member.queue.load([{"title": "old", "available_at": at(0)}])
        await member.queue.load([{"title": "new", "available_at": at(600 + n)} for n in range(4)])
        found = [lease.row.title for _ in range(3) for lease in await member.claim(2)]
        assert sorted(found) == ["new"] * 4 + ["old"]


async def test_the_watermark_is_dropped_after_a_while(pg_url: str) -> None:
    """However many rows lie ahead, so that no claim ever comes back short."""
    async with worker(pg_url, plain) as member:
        await pass_over(member)
        await member.queue.load([{"title": "old", "available_at": at(0)}])
        await member.queue.load([{"title": "new", "available_at": at(600 + n)} for n in range(50)])
        assert [lease.row.title for lease in await member.claim(2)] == ["new", "new"]
        assert isinstance(member.store, PostgresStore)
        member.store.statements(member.queue).mark(member.queue.steps[0]).since -= watermark.LONGEST + 1  # time goes by
        assert [lease.row.title for lease in await member.claim(2)] == ["old", "new"]


async def test_it_is_dropped_when_asked(pg_url: str) -> None:
    """As the keeper and operators do after a rescue or a requeue."""
    async with worker(pg_url, plain) as member:
        await pass_over(member)
        await member.queue.load([{"title": "old", "available_at": at(0)}])
        await member.queue.load([{"title": "new", "available_at": at(600 + n)} for n in range(50)])
        member.store.forget(member.queue)
        assert [lease.row.title for lease in await member.claim(2)] == ["old", "new"]


async def test_a_row_that_was_committed_late_is_found(pg_url: str) -> None:
    """It has a smaller key than those that were claimed before it could be seen."""
    async with worker(pg_url, plain) as member:
        async with member.store.engine.begin() as late:
            await late.execute(member.queue.insert({"title": "late"}))
            await member.put(*({"title": "quick"} for _ in range(10)))
            assert len(await member.claim(10)) == 10
        assert [lease.row.title for lease in await member.claim(5)] == ["late"]


async def test_a_row_that_was_locked_when_it_was_passed_is_found(pg_url: str) -> None:
    async with worker(pg_url, plain) as member:
        await member.put(*({"title": str(n)} for n in range(10)))
        async with member.store.engine.begin() as other:
            await other.execute(sa.text("UPDATE jobs SET title = 'locked' WHERE title = '0'"))
            assert len(await member.claim(9)) == 9
        assert [lease.row.title for lease in await member.claim(9)] == ["locked"]


async def test_rows_without_a_time_are_found_after_rows_with_one(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await pass_over(member)
        await member.queue.load([{"title": "at once"}, {"title": "new", "available_at": at(600)}])
        assert [lease.row.title for lease in await member.claim(1)] == ["at once"]


async def test_a_released_or_rescued_row_is_found(database_url: str) -> None:
    async with fleet(database_url, plain, size=2) as [member, other]:
        await member.put(*({"title": str(n)} for n in range(6)))
        leases = await member.claim(3)
        await member.release(leases[0])
        assert len(await member.claim(3)) == 3
        await member.sql("UPDATE jobs SET leased_until = '2020-01-01' WHERE title = '1'")
        assert (await other.rescue()).returned == 1
        assert sorted(lease.row.title for lease in await member.claim(3)) == ["0", "1"]


async def test_a_new_priority_is_noticed(database_url: str) -> None:
    async with worker(database_url, ranked) as member:
        await member.queue.load([{"title": "usual", "rank": 1} for _ in range(10)])
        assert len(await member.claim(5)) == 5
        await member.put({"title": "urgent", "rank": 99})
        found = [lease.row.title for _ in range(2) for lease in await member.claim(10)]
        assert sorted(found) == ["urgent"] + ["usual"] * 5


async def test_every_priority_has_a_watermark_of_its_own(pg_url: str) -> None:
    """Passing rows of a low priority does not pass those of a high one, whose times are older."""
    async with worker(pg_url, ranked) as member:
        await member.queue.load([{"title": "low", "rank": 1, "available_at": at(60 + n)} for n in range(10)])
        await member.queue.load([{"title": "high", "rank": 2, "available_at": at(0)}])
        assert [lease.row.title for lease in await member.claim(3)] == ["high", "low", "low"]
        await member.queue.load([{"title": "high", "rank": 2, "available_at": at(1)}])
        assert [lease.row.title for lease in await member.claim(3)] == ["high", "low", "low"]


@pytest.mark.parametrize("looks", ["cheap", "dear"])
async def test_a_drain_leaves_nothing_behind(database_url: str, looks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Handlers put in rows with older dates than those that were claimed, and short claims may not look back."""
    if looks == "dear":
        monkeypatch.setattr(watermark.Watermark, "may_look_back", lambda self, now: False)
    async with worker(database_url, plain) as member:
        await member.queue.load([{"title": "first", "available_at": at(60 + n)} for n in range(200)])

        @member.queue.handler(concurrency=4)
        async def work(lease: Any) -> None:
            if lease.row.title == "first" and lease.key % 10 == 0:
                await member.put({"title": "child", "available_at": at(lease.key % 7)})

        report = await member.bench.drain()
        assert {row.state for row in await member.rows()} == {"done"}
        assert report.done == len(await member.rows()) == 220


@pytest.mark.parametrize("by", [("customer",), ("customer", "title")])
async def test_own_columns_that_are_empty_lose_no_row(database_url: str, by: tuple[str, ...]) -> None:
    """A comparison with NULL is neither true nor false: such rows are found by the look from the start."""

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column("customer", sa.Text)), order=Order(by=by))

    async with worker(database_url, declare) as member:
        rows = [{"title": str(n), "customer": None if n % 2 else "x", "available_at": EARLY} for n in range(40)]
        await member.queue.load(rows)
        found = [lease.row.title for _ in range(20) for lease in await member.claim(3)]
        assert sorted(found, key=int) == [str(n) for n in range(40)]


async def test_a_claim_that_finds_a_row_returns_it_without_a_second_look(
    pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handler begins as soon as its row is claimed. The next claim looks for what stands before the watermark."""
    async with worker(pg_url, plain) as member:
        await member.put(*({"title": str(n), "available_at": at(60 + n)} for n in (1, 2)))
        assert len(await member.claim(1)) == 1
        await member.put({"title": "early", "available_at": at(0)})
        store: Any = member.store
        fetch, statements = store.claims.fetch, list[str]()

        async def counted(statement: str, *arguments: Any) -> Any:
            statements.append(statement)
            return await fetch(statement, *arguments)

        monkeypatch.setattr(store.claims, "fetch", counted)
        assert [lease.row.title for lease in await member.claim(5)] == ["2"]
        assert len(statements) == 1
        assert [lease.row.title for lease in await member.claim(5)] == ["early"]
