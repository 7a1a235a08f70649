"""In order per key: no two rows of one key are claimed at the same time, however an earlier row gets in front."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal

import pytest
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Cancel, Dead, Lease, Mill, OrderPerKey, Queue, Retry, RetryLater, Stage, States
from rowmill.operator import change
from rowmill.operator.filters import Filter
from rowmill.operator.why import Obstacle, why
from rowmill.store import order_per_key
from tests.conformance.fleet import Declare, Member, fleet, jobs, worker

DeadHead = Literal["block", "skip"]


def ordered(on_dead: DeadHead = "block") -> Declare:
    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(
            jobs(Column("per", sa.Text)),
            order_per_key=OrderPerKey(per="per", on_dead=on_dead),
            states=States(waiting="waiting", cancelled="cancelled"),
            retry=Retry(attempts=3),
        )

    return declare


async def put(member: Member, *rows: str) -> None:
    """Rows by a short name: a1 is the first of key a, and has the key 1."""
    await member.queue.load([{"id": int(name[1:]), "per": name[0], "title": name} for name in rows])


async def taken(member: Member, limit: int = 100) -> list[str]:
    return sorted(lease.row.title for lease in await member.claim(limit))


async def running(member: Member) -> list[str]:
    return sorted(row.title for row in await member.rows() if row.state == "running")


async def test_an_earlier_row_that_comes_late_waits_for_the_running_one(database_url: str) -> None:
    async with worker(database_url, ordered()) as member:
        await put(member, "a2", "a3", "b1")
        leases = {lease.row.title: lease for lease in await member.claim(100)}
        assert sorted(leases) == ["a2", "b1"]
        await member.queue.load([{"id": 0, "per": "a", "title": "a0"}])
        assert await member.claim(100) == []
        await member.settle((leases["a2"], None))
        assert await taken(member) == ["a0"], "it goes first once nothing of its key runs"


async def test_an_earlier_row_that_is_committed_late_waits_for_the_running_one(pg_url: str) -> None:
    async with worker(pg_url, ordered()) as member:
        async with member.store.engine.begin() as late:
            await late.execute(member.queue.insert({"id": 1, "per": "a", "title": "a1"}))
            await put(member, "a2")
            [later] = await member.claim(100)
        assert await member.claim(100) == []
        await member.settle((later, None))
        assert await taken(member) == ["a1"]


@pytest.mark.parametrize("answer", [None, Dead("broken"), Cancel("not wanted")])
async def test_an_earlier_row_that_is_requeued_waits_for_the_running_one(database_url: str, answer: Any) -> None:
    async with worker(database_url, ordered("skip")) as member:
        await put(member, "a1", "a2")
        [first] = await member.claim(100)
        await member.settle((first, answer))
        [second] = await member.claim(100)
        await member.queue.requeue(first.key)
        assert await member.claim(100) == []
        await member.settle((second, RetryLater(0)))
        assert await taken(member) == ["a1"], "the later one was given back: it is behind the earlier one again"


@pytest.mark.parametrize("on_dead", ["block", "skip"])
async def test_a_row_put_back_by_hand_waits_for_the_running_one(database_url: str, on_dead: DeadHead) -> None:
    async with worker(database_url, ordered(on_dead)) as member:
        await put(member, "a1", "a2")
        await member.sql("UPDATE jobs SET state = 'done' WHERE title = 'a1'")
        [second] = await member.claim(100)
        await member.sql("UPDATE jobs SET state = 'ready' WHERE title = 'a1'")
        assert await member.claim(100) == []
        await member.settle((second, None))
        assert await taken(member) == ["a1"]


async def test_an_expired_lease_counts_until_its_row_is_rescued(database_url: str) -> None:
    async with worker(database_url, ordered()) as member:
        await put(member, "a2")
        assert await taken(member) == ["a2"]
        await put(member, "a1")
        await member.expire()
        assert await member.claim(100) == []
        await member.rescue()
        assert await taken(member) == ["a1"]


async def test_every_key_is_asked_whether_a_row_of_it_runs(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest rows are all held back, so that free rows are looked for key by key."""
    monkeypatch.setattr(order_per_key, "LEAST_DEPTH", 5)
    async with worker(database_url, ordered()) as member:
        await member.queue.load([{"id": 1000 + n, "per": "h", "title": "h"} for n in range(300)])
        await put(member, "a2002")
        assert await taken(member) == ["a2002", "h"]
        await put(member, "a2001", "b2003")
        assert await taken(member) == ["b2003"]


async def test_a_row_in_a_later_stage_counts_as_running(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        stages = [Stage("one", "one", "one running"), Stage("two", "two", "two running")]
        return mill.queue(jobs(Column("per", sa.Text)), stages=stages, order_per_key=OrderPerKey(per="per"))

    async with worker(database_url, declare) as member:
        await put(member, "a2")
        [lease] = await member.claim(10, "one")
        await member.settle((lease, None))
        [lease] = await member.claim(10, "two")
        await put(member, "a1")
        assert await member.claim(10, "one") == []
        await member.settle((lease, None))
        assert [lease.row.title for lease in await member.claim(10, "one")] == ["a1"]


async def test_why_names_the_running_row(database_url: str) -> None:
    async with worker(database_url, ordered()) as member:
        await put(member, "a2")
        assert await taken(member) == ["a2"]
        await put(member, "a1")
        sql = member.store.sql(member.queue)
        _, holds = await member.store.run(lambda connection: why(connection, sql, "1"))
        [hold] = [hold for hold in holds if hold.reason is Obstacle.ORDER]
        assert hold.facts == {"key": "2", "state": "running"}
        assert hold.text == "row 2 of the same per is running: they are worked on one at a time"


@asynccontextmanager
async def stopped_in_the_middle(member: Member, *titles: str) -> AsyncIterator[None]:
    """Claims of these rows stop after they have picked the row, and before they commit, until the block ends."""
    names = ", ".join(f"'{title}'" for title in titles)
    for statement in (
        "CREATE FUNCTION wait_in_claim() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NEW; END $$",
        "CREATE TRIGGER wait_in_claim BEFORE UPDATE ON jobs FOR EACH ROW "
        f"WHEN (OLD.state = 'ready' AND OLD.title IN ({names})) EXECUTE FUNCTION wait_in_claim()",
    ):
        await member.sql(statement)
    async with member.store.engine.begin() as gate:
        await gate.execute(sa.text("SELECT pg_advisory_xact_lock(4711)"))
        yield


async def waiting_claims(member: Member, many: int) -> None:
    """Until so many claims stand still."""
    waits = sa.text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted")
    async with asyncio.timeout(30):
        while await member.mill.run(lambda connection: connection.scalar(waits)) < many:
            await asyncio.sleep(0.01)


async def test_a_claim_that_was_overtaken_by_an_earlier_row_steps_back(pg_url: str) -> None:
    """It picked the later row when the earlier one could not be seen, and commits when that one is claimed."""
    async with fleet(pg_url, ordered(), size=2) as [one, two]:
        await put(one, "a2", "b3")
        async with stopped_in_the_middle(one, "a2"):
            claim = asyncio.create_task(taken(one))
            await waiting_claims(two, 1)
            await put(two, "a1")
            assert await taken(two) == ["a1"]
        assert await claim == ["b3"]
        assert await running(two) == ["a1", "b3"]
        row = next(row for row in await two.rows() if row.title == "a2")
        assert (row.state, row.attempts, row.lease) == ("ready", 0, None), "it costs no attempt"


async def test_a_claim_that_did_not_see_the_running_row_steps_back(pg_url: str) -> None:
    """It picked the earlier row when nothing of its key ran, and commits when the later one does."""
    async with fleet(pg_url, ordered(), size=2) as [one, two]:
        await put(one, "a2")
        async with stopped_in_the_middle(one, "a1", "a2"), one.store.engine.connect() as late:
            await late.execute(one.queue.insert({"id": 1, "per": "a", "title": "a1"}))
            later = asyncio.create_task(two.claim(100))
            await waiting_claims(two, 1)
            await late.commit()
            earlier = asyncio.create_task(taken(one))
            await waiting_claims(two, 2)
        found = sorted(lease.row.title for lease in await later) + await earlier
        assert len(found) <= 1, "both never run"
        assert await running(one) == found
        left = [lease.row.title for member in (one, two) for lease in await member.claim(100)]
        assert len(left) + len(found) == 1, "and one of them does"


async def test_rows_that_commit_late_never_run_beside_another_of_their_key(database_url: str) -> None:
    """K2: four workers claim as fast as they can; rows come in any order, many in transactions that end late."""
    keys, rounds = "abc", 60
    async with fleet(database_url, ordered(), size=4) as members:
        at_work: dict[str, str] = {}
        finished: set[str] = set()
        wanted = {f"{key}{n * 10 + place}" for key in keys for n in range(1, rounds + 1) for place in (1, 2)}

        async def insert() -> None:
            for n in range(1, rounds + 1):
                first, second = ([(n * 10 + place, key) for key in keys] for place in (1, 2))
                await late(members[0], first, partial(load, members[1], second))

        async def work(member: Member) -> None:
            while finished != wanted:
                leases = await member.claim(2)
                for lease in leases:
                    assert lease.row.per not in at_work, f"{lease.row.title} beside {at_work[lease.row.per]}"
                    at_work[lease.row.per] = lease.row.title
                await asyncio.sleep(0)
                for lease in leases:
                    await end(member, lease)

        async def end(member: Member, lease: Lease[Any]) -> None:
            del at_work[lease.row.per]
            assert (await member.settle((lease, None))).kept == 1
            finished.add(f"{lease.row.per}{lease.row.title}")

        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            group.create_task(insert())
            for member in members:
                group.create_task(work(member))


async def load(member: Member, rows: list[tuple[int, str]]) -> None:
    await member.queue.load([{"id": number * 100 + ord(key), "per": key, "title": str(number)} for number, key in rows])


async def late(member: Member, rows: list[tuple[int, str]], meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Insert rows in a transaction that ends after others have been inserted; SQLite has one writer at a time."""
    if not member.postgres:
        await meanwhile()
        await load(member, rows)
        return
    async with member.store.engine.begin() as open_still:
        for number, key in rows:
            row = {"id": number * 100 + ord(key), "per": key, "title": str(number)}
            await open_still.execute(member.queue.insert(row))
        await meanwhile()


async def test_a_requeue_of_many_rows_waits_for_the_running_ones(database_url: str) -> None:
    """An operator puts all dead rows back while others of their keys run."""
    async with worker(database_url, ordered("skip")) as member:
        await put(member, "a1", "b2")
        await member.settle(*((lease, Dead("broken")) for lease in await member.claim(100)))
        await put(member, "a3", "b4")
        leases = await member.claim(100)
        assert (await change.requeue(member.store, member.queue, Filter(states=("dead",)))).rows == 2
        assert await member.claim(100) == []
        await member.settle(*((lease, None) for lease in leases))
        assert await taken(member) == ["a1", "b2"]
