"""In order per key: a row is not claimed while an earlier one of its key is unfinished."""

import asyncio
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Dead, Lease, Mill, OrderPerKey, Queue, Retry, RetryLater, States
from rowmill.store import order_per_key, watermark
from rowmill.store.postgres.store import PostgresStore
from tests.conformance.fleet import Declare, Member, fleet, jobs, worker

EARLY = datetime(2020, 1, 1, tzinfo=UTC)


def ordered(on_dead: Literal["block", "skip"] = "block", by: tuple[str, ...] = ()) -> Declare:
    def declare(mill: Mill) -> Queue[Any]:
        table = jobs(Column("per", sa.Text), Column("turn", sa.Integer, nullable=False, server_default="0"))
        return mill.queue(
            table,
            order_per_key=OrderPerKey(per="per", by=by, on_dead=on_dead),
            states=States(waiting="waiting", cancelled="cancelled"),
            retry=Retry(attempts=2),
        )

    return declare


async def put(member: Member, *rows: str) -> None:
    """Rows by a short name: a1 is the first of key a."""
    await member.queue.load([{"per": name[0], "title": name} for name in rows])


async def block(member: Member, key: str, rows: int) -> None:
    """A long backlog of one key, all of it behind its first row, which is dead."""
    await put(member, *(f"{key}{n}" for n in range(rows)))
    [first] = await member.claim(100)
    await member.settle((first, Dead("broken")))


async def taken(member: Member, limit: int = 100) -> list[str]:
    return sorted(lease.row.title for lease in await member.claim(limit))


async def test_only_the_first_of_each_key_is_claimed(database_url: str) -> None:
    async with worker(database_url, ordered()) as member:
        await put(member, "a1", "a2", "b1", "a3", "b2")
        leases = {lease.row.title: lease for lease in await member.claim(100)}
        assert sorted(leases) == ["a1", "b1"]
        assert await member.claim(100) == []
        await member.settle((leases["a1"], None))
        assert await taken(member) == ["a2"]
        await member.settle((leases["b1"], None))
        assert await taken(member) == ["b2"]


async def test_a_claim_keeps_its_limit(database_url: str) -> None:
    async with worker(database_url, ordered()) as member:
        await member.queue.load([{"per": str(n), "title": str(n)} for n in range(50)])
        assert [len(await member.claim(20)) for _ in range(4)] == [20, 20, 10, 0]


async def test_a_retry_keeps_its_place(database_url: str) -> None:
    """The later rows wait for the failed one, whose turn comes after its backoff."""
    async with worker(database_url, ordered()) as member:
        await put(member, "a1", "a2")
        [first] = await member.claim(100)
        await member.settle((first, RetryLater(500)))
        assert await member.claim(100) == []
        await member.bench.advance(501)
        [first] = await member.claim(100)
        assert (first.row.title, first.attempt) == ("a1", 2)
        await member.settle((first, None))
        assert await taken(member) == ["a2"]


async def test_a_dead_head_blocks_its_key_and_no_other(database_url: str) -> None:
    async with worker(database_url, ordered("block")) as member:
        await put(member, "a1", "a2", "b1", "b2")
        leases = {lease.row.title: lease for lease in await member.claim(100)}
        await member.settle((leases["a1"], Dead("broken")), (leases["b1"], None))
        assert await taken(member) == ["b2"]
        await member.sql("UPDATE jobs SET state = 'done' WHERE title = 'a1'")
        assert await taken(member) == ["a2"]


async def test_a_dead_head_lets_the_next_pass_where_the_queue_says_so(database_url: str) -> None:
    async with worker(database_url, ordered("skip")) as member:
        await put(member, "a1", "a2")
        [first] = await member.claim(100)
        await member.settle((first, Dead("broken")))
        assert await taken(member) == ["a2"]


@pytest.mark.parametrize("on_dead", ["block", "skip"])
async def test_cancelled_and_done_rows_hold_nobody_back(database_url: str, on_dead: Literal["block", "skip"]) -> None:
    async with worker(database_url, ordered(on_dead)) as member:
        await put(member, "a1", "a2", "a3")
        await member.sql("UPDATE jobs SET state = 'cancelled' WHERE title = 'a1'")
        await member.sql("UPDATE jobs SET state = 'done' WHERE title = 'a2'")
        assert await taken(member) == ["a3"]


async def test_a_row_of_the_future_holds_back_the_later_ones(database_url: str) -> None:
    async with worker(database_url, ordered()) as member:
        later = datetime.now(UTC) + timedelta(hours=1)
        await member.queue.load([{"per": "a", "title": "a1", "available_at": later}, {"per": "a", "title": "a2"}])
        assert await member.claim(100) == []


async def test_the_order_is_that_of_the_columns_it_names(database_url: str) -> None:
    async with worker(database_url, ordered(by=("turn",))) as member:
        await member.queue.load([{"per": "a", "title": f"turn {turn}", "turn": turn} for turn in (3, 1, 2)])
        for turn in (1, 2, 3):
            [lease] = await member.claim(100)
            assert lease.row.title == f"turn {turn}"
            await member.settle((lease, None))


async def test_rows_without_a_key_are_in_nobody_s_way(database_url: str) -> None:
    async with worker(database_url, ordered()) as member:
        await member.queue.load([{"per": None, "title": str(n)} for n in range(3)])
        assert await taken(member) == ["0", "1", "2"]


async def test_rows_without_a_key_are_found_behind_a_long_blocked_backlog(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_per_key, "LEAST_DEPTH", 5)
    async with worker(database_url, ordered("block")) as member:
        await block(member, "a", 200)
        await member.queue.load([{"per": None, "title": "free"}, {"per": None, "title": "free too"}])
        assert await taken(member) == ["free", "free too"]


async def test_a_hot_key_at_the_head_does_not_hide_the_others(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest rows all belong to one key, many more than a claim looks at: the other keys are found all the same."""
    monkeypatch.setattr(order_per_key, "LEAST_DEPTH", 50)
    async with worker(database_url, ordered()) as member:
        await put(member, *(f"h{n}" for n in range(500)), "a1", "a2", "b1")
        assert await taken(member) == ["a1", "b1", "h0"]
        assert await member.claim(100) == []


async def test_a_walk_goes_on_behind_the_last_key_of_the_one_before(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its keys, not of its rows, which came in another order. What it has passed is ready again each time."""
    monkeypatch.setattr(order_per_key, "LEAST_DEPTH", 5)
    async with worker(database_url, ordered("block")) as member:
        await block(member, "!", 500)
        keys = [f"k{n:03}" for n in range(200)]
        await member.queue.load([{"per": key, "title": key} for key in reversed(keys)])
        seen: set[str] = set()
        for _ in range(len(keys) // 50):
            leases = await member.claim(50)
            seen |= {lease.row.per for lease in leases}
            await member.settle(*((lease, None) for lease in leases))
            await member.queue.load([{"per": lease.row.per, "title": "again"} for lease in leases])
        assert seen == set(keys)


async def test_a_row_that_was_committed_late_goes_before_those_behind_it(
    pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims begin with the oldest row that is ready, and have gone on since it was written."""
    monkeypatch.setattr(watermark, "OLDEST_EVERY", 0.0)
    async with worker(pg_url, ordered()) as member:
        async with member.store.engine.begin() as late:
            await late.execute(member.queue.insert({"per": "a", "title": "a1"}))
            for n in range(3):
                await put(member, f"b{n}")
                [lease] = await member.claim(100)
                await member.settle((lease, None))
        await put(member, "a2", "c1")
        found = [title for _ in range(2) for title in await taken(member)]
        assert sorted(found) == ["a1", "c1"]


async def test_claims_begin_with_the_oldest_row_that_is_ready(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watermark, "OLDEST_EVERY", 0.0)
    async with worker(pg_url, ordered()) as member:
        assert isinstance(member.store, PostgresStore)
        mark = member.store.statements(member.queue).mark(member.queue.steps[0])
        await put(member, "a1", "a2", "b1")
        [a1] = await member.claim(1)
        first = mark.arguments()
        assert await taken(member) == ["b1"]
        second = mark.arguments()
        await member.settle((a1, None))
        assert await taken(member) == ["a2"]
        assert [mark[-1] for mark in (first, second)] == [1, 2], "the key of the oldest that was ready"


async def test_a_row_with_an_old_date_is_found_before_a_claim_is_empty(database_url: str) -> None:
    async with worker(database_url, ordered()) as member:
        later = EARLY + timedelta(hours=1)
        await member.queue.load([{"per": key, "title": f"{key}1", "available_at": later} for key in "bc"])
        assert await taken(member, 1) == ["b1"]
        await member.queue.load([{"per": "a", "title": "a1", "available_at": EARLY}])
        assert sorted([*await taken(member), *await taken(member)]) == ["a1", "c1"]


async def test_thousands_of_keys(database_url: str) -> None:
    async with worker(database_url, ordered()) as member:
        await member.queue.load([{"per": str(n % 3000), "title": str(n)} for n in range(6000)])
        first = [lease for _ in range(30) for lease in await member.claim(100)]
        assert len({lease.row.per for lease in first}) == len(first) == 3000
        assert {int(lease.row.title) for lease in first} == set(range(3000))
        await member.settle(*((lease, None) for lease in first))
        second = [lease for _ in range(30) for lease in await member.claim(100)]
        assert {int(lease.row.title) for lease in second} == set(range(3000, 6000))


async def test_concurrent_claimers_never_break_the_order(database_url: str) -> None:
    """Four workers, a few keys, some failures: for every key, attempts never overlap and go in order."""
    async with fleet(database_url, ordered("skip"), size=4) as members:
        keys = "abcdefg"
        names = [f"{key}{n:03}" for n in range(40) for key in keys]
        await put(members[0], *names)
        running: dict[str, str] = {}
        finished: defaultdict[str, list[str]] = defaultdict(list)

        async def work(member: Member) -> None:
            idle = 0
            while idle < 20:
                leases = await member.claim(3)
                idle = 0 if leases else idle + 1
                for lease in leases:
                    key, title = lease.row.per, lease.row.title
                    assert key not in running, f"{title} beside {running[key]}"
                    running[key] = title
                for lease in leases:
                    await asyncio.sleep(0)
                    await settle(member, lease)
                if not leases:
                    await asyncio.sleep(0.01)

        async def settle(member: Member, lease: Lease[Any]) -> None:
            key, title = lease.row.per, lease.row.title
            number = int(title[1:])
            answer: Any = (
                Dead("bad") if number % 11 == 5 else RetryLater(0) if number % 7 == 3 and lease.attempt == 1 else None
            )
            del running[key]
            if not isinstance(answer, RetryLater):
                finished[key].append(title)
            assert (await member.settle((lease, answer))).kept == 1

        await asyncio.gather(*(work(member) for member in members))
        assert finished == {key: [f"{key}{n:03}" for n in range(40)] for key in keys}


async def test_a_rescued_row_keeps_its_place(database_url: str) -> None:
    async with worker(database_url, ordered()) as member:
        await put(member, "a1", "a2")
        await member.claim(100)
        await member.expire()
        await member.rescue()
        assert await taken(member) == ["a1"]


async def test_a_drain_goes_through_every_key_in_order(database_url: str) -> None:
    async with worker(database_url, ordered()) as member:
        seen: defaultdict[str, list[str]] = defaultdict(list)

        @member.queue.handler(concurrency=5)
        async def work(lease: Lease[Any]) -> None:
            await asyncio.sleep(0)
            seen[lease.row.per].append(lease.row.title)

        await put(member, *(f"{key}{n}" for n in range(9) for key in "abc"))
        report = await member.bench.drain()
        assert report.done == 27
        assert seen == {key: [f"{key}{n}" for n in range(9)] for key in "abc"}


async def test_stages_keep_the_order_of_a_key_too(database_url: str) -> None:
    """The next row of a key begins its first stage when the one before it has left the last."""
    from rowmill import Stage

    def declare(mill: Mill) -> Queue[Any]:
        stages = [Stage("one", "one", "one running"), Stage("two", "two", "two running")]
        return mill.queue(jobs(Column("per", sa.Text)), stages=stages, order_per_key=OrderPerKey(per="per"))

    async with worker(database_url, declare) as member:
        await put(member, "a1", "a2")
        [lease] = await member.claim(10, "one")
        await member.settle((lease, None))
        assert await member.claim(10, "one") == []
        [lease] = await member.claim(10, "two")
        assert lease.row.title == "a1"
        await member.settle((lease, None))
        assert [lease.row.title for lease in await member.claim(10, "one")] == ["a2"]


async def test_composite_keys(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        key = [
            Column("tenant", sa.Text, primary_key=True),
            Column("number", sa.Integer, primary_key=True, autoincrement=False),
        ]
        return mill.queue(jobs(key=key), order_per_key=OrderPerKey(per="tenant"))

    async with worker(database_url, declare) as member:
        await member.queue.load([{"tenant": key, "number": n} for n in (2, 1) for key in ("x", "y")])
        leases = await member.claim(10)
        assert sorted(lease.key for lease in leases) == [("x", 1), ("y", 1)]
        await member.settle(*((lease, None) for lease in leases))
        assert sorted(lease.key for lease in await member.claim(10)) == [("x", 2), ("y", 2)]
