"""Claims: who goes first, how many, and what a claim writes."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Columns, Mill, Order, Queue
from rowmill.model.lease import worker_of
from tests.conformance.fleet import MOMENT, Member, fleet, jobs, worker

EARLY = datetime(2020, 1, 1, tzinfo=UTC)


def plain(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs())


def ranked(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs(Column("rank", sa.Integer)), order=Order(priority="rank"))


def timed(mill: Mill) -> Queue[Any]:
    """With every time that a claim may write."""
    extra = [Column(name, MOMENT) for name in ("created_at", "updated_at", "started_at")]
    columns = Columns(created_at="created_at", updated_at="updated_at", started_at="started_at")
    return mill.queue(jobs(*extra), columns=columns)


async def in_turn(member: Member, number: int) -> list[str]:
    """Titles as they come, one claim at a time."""
    found = []
    for _ in range(number):
        found += [lease.row.title for lease in await member.claim(1)]
    return found


async def test_a_claim_takes_no_more_than_its_limit(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put(*({"title": str(n)} for n in range(10)))
        assert [len(await member.claim(4)) for _ in range(4)] == [4, 4, 2, 0]


async def test_a_claim_takes_no_more_than_its_limit_over_all_lanes(database_url: str) -> None:
    """Rows of several priorities, with and without a time: each is a scan of its own, the limit is one."""
    async with worker(database_url, ranked) as member:
        rows = [{"rank": rank, "available_at": at} for rank in range(5) for at in (None, EARLY) for _ in range(4)]
        await member.put(*rows)
        sizes = []
        while leases := await member.claim(7):
            sizes.append(len(leases))
        assert sizes == [7, 7, 7, 7, 7, 5]


async def test_concurrent_claimers_take_every_row_once_and_keep_their_limits(database_url: str) -> None:
    async with fleet(database_url, ranked, size=4) as members:
        await members[0].queue.load([{"title": str(n), "rank": n % 3} for n in range(1200)])
        taken: Counter[str] = Counter()

        async def work(member: Member) -> None:
            while leases := await member.claim(20):
                assert len(leases) <= 20
                taken.update(lease.row.title for lease in leases)

        await asyncio.gather(*(work(member) for member in members))
        assert taken == Counter({str(n): 1 for n in range(1200)})


async def test_every_claim_has_a_token_of_its_own(database_url: str) -> None:
    async with fleet(database_url, plain, size=3) as members:
        await members[0].put(*({} for _ in range(6)))
        leases = [lease for member in members for _ in range(2) for lease in await member.claim(1)]
        assert len({lease.token for lease in leases}) == 6
        assert {worker_of(lease.token) for lease in leases} == {member.store.worker for member in members}
        assert {row.lease for row in await members[0].rows()} == {lease.token for lease in leases}


async def test_rows_without_a_time_come_first_then_by_time_then_by_key(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({"title": "later", "available_at": EARLY + timedelta(hours=1)})
        await member.put({"title": "early", "available_at": EARLY}, {"title": "early too", "available_at": EARLY})
        await member.put({"title": "at once", "available_at": None}, {"title": "at once too", "available_at": None})
        expected = ["at once", "at once too", "early", "early too", "later"]
        assert [lease.row.title for lease in await member.claim(10)] == expected
        await member.release(*await member.claim(10))


async def test_one_at_a_time_keeps_the_same_order(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put(
            {"title": "b", "available_at": EARLY + timedelta(hours=1)}, {"title": "a", "available_at": EARLY}
        )
        assert await in_turn(member, 3) == ["a", "b"]


async def test_rows_of_the_future_are_left_alone(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({"title": "a", "available_at": datetime.now(UTC) + timedelta(hours=1)})
        assert await member.claim(10) == []
        await member.bench.advance(3601)
        member.store.forget(member.queue)
        assert len(await member.claim(10)) == 1


async def test_higher_priority_first(database_url: str) -> None:
    async with worker(database_url, ranked) as member:
        await member.put({"title": "low", "rank": 1}, {"title": "high", "rank": 9}, {"title": "none", "rank": None})
        await member.put({"title": "below", "rank": -1}, {"title": "high too", "rank": 9, "available_at": EARLY})
        assert await in_turn(member, 6) == ["high", "high too", "low", "none", "below"]


async def test_lower_first_where_the_queue_says_so(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column("rank", sa.Integer)), order=Order(priority="rank", lower_first=True))

    async with worker(database_url, declare) as member:
        await member.put({"title": "9", "rank": 9}, {"title": "1", "rank": 1}, {"title": "none", "rank": None})
        await member.put({"title": "0", "rank": 0}, {"title": "-1", "rank": -1})
        assert [lease.row.title for lease in await member.claim(10)] == ["-1", "none", "0", "1", "9"]


async def test_a_batch_comes_in_the_order_of_priority_with_rows_that_have_none(database_url: str) -> None:
    async with worker(database_url, ranked) as member:
        ranks = [3, None, 7, 0, -2, None, 5]
        await member.put(*({"title": str(rank), "rank": rank} for rank in ranks))
        found = [lease.row.rank or 0 for lease in await member.claim(10)]
        assert found == sorted(found, reverse=True)


async def test_more_priorities_than_are_worth_a_scan_each(database_url: str) -> None:
    async with worker(database_url, ranked) as member:
        ranks = [*range(40), None, -3]
        await member.put(*({"title": str(rank), "rank": rank} for rank in ranks))
        expected = sorted((rank or 0 for rank in ranks), reverse=True)
        assert [lease.row.rank or 0 for lease in await member.claim(21)] == expected[:21]
        assert [lease.row.rank or 0 for lease in await member.claim(100)] == expected[21:]


async def test_own_columns_order_rows_of_the_same_time(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column("customer", sa.Text)), order=Order(by=("customer", "title")))

    async with worker(database_url, declare) as member:
        for customer, title in (("b", "1"), ("a", "2"), ("a", "1")):
            await member.put({"customer": customer, "title": title, "available_at": EARLY})
        found = [(lease.row.customer, lease.row.title) for lease in await member.claim(10)]
        assert found == [("a", "1"), ("a", "2"), ("b", "1")]


async def test_a_claim_counts_clears_the_error_and_stamps(database_url: str) -> None:
    async with worker(database_url, timed) as member:
        old = {"updated_at": EARLY, "created_at": EARLY}
        await member.put({"title": "a", "attempts": 1, "error": "before", **old})
        [lease] = await member.claim()
        row = await member.row()
        assert (row.state, row.attempts, row.error, row.lease) == ("running", 2, None, lease.token)
        assert row.started_at == row.updated_at
        assert row.updated_at.replace(tzinfo=UTC) > EARLY
        assert row.created_at.replace(tzinfo=UTC) == EARLY
        assert row.leased_until - row.started_at == timedelta(seconds=60)
        assert (lease.attempt, lease.stage, lease.key) == (2, "work", row.id)


async def test_the_lease_lasts_as_long_as_its_stage_says(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        columns = Columns(started_at="started_at")
        return mill.queue(jobs(Column("started_at", MOMENT)), columns=columns, lease=900.0)

    async with worker(database_url, declare) as member:
        await member.put({})
        await member.claim()
        row = await member.row()
        assert row.leased_until - row.started_at == timedelta(minutes=15)


async def test_every_row_of_a_claim_knows_when_it_was_claimed(database_url: str) -> None:
    def timed(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column("started_at", MOMENT)), columns=Columns(started_at="started_at"))

    async with worker(database_url, timed) as member:
        await member.put(*({} for _ in range(5)))
        leases = await member.claim(2) + await member.claim(5)  # the second from where the first left off, then anew
        assert len(leases) == 5
        for lease in leases:
            assert abs(lease.claimed_at - lease.row.started_at.replace(tzinfo=UTC)) < timedelta(seconds=5)


async def test_only_rows_in_a_claimable_state_are_taken(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put(*({"state": state} for state in ("running", "done", "dead", "READY", "other", "")))
        assert await member.claim(10) == []


async def test_a_locked_row_holds_up_nobody(pg_url: str) -> None:
    """SKIP LOCKED: somebody else's transaction on the first row does not stop the claim of the others."""
    async with worker(pg_url, plain) as member:
        await member.put({"title": "a"}, {"title": "b"})
        async with member.store.engine.begin() as other:
            await other.execute(sa.text("UPDATE jobs SET title = title WHERE title = 'a'"))
            assert [lease.row.title for lease in await member.claim(10)] == ["b"]
        assert [lease.row.title for lease in await member.claim(10)] == ["a"]


async def test_two_words_for_ready_are_both_claimed(database_url: str) -> None:
    from rowmill import States

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(), states=States(ready=("new", "queued"), running=("busy", "working")))

    async with worker(database_url, declare) as member:
        await member.put({"state": "queued"}, {"state": "new"})
        assert len(await member.claim(10)) == 2
        assert [row.state for row in await member.rows()] == ["busy", "busy"]
