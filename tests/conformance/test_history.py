"""What is kept beside the rows: failed attempts, throughput, workers."""

from datetime import UTC
from functools import partial
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill import Cancel, Dead, Lease, Mill, PermanentError, Queue, Retry, RetryLater, States
from rowmill.maintenance import cleanup
from rowmill.maintenance.upkeep import Upkeep
from rowmill.observe.events import Events
from rowmill.store.clock import moment
from rowmill.store.own import fleet
from rowmill.store.own.schema import own_tables
from rowmill.store.port import Heartbeat
from rowmill.worker.settings import WorkerSettings
from tests.conformance.fleet import Member, jobs, worker
from tests.conformance.fleet import fleet as fleet_of


def plain(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs(), states=States(waiting="waiting", cancelled="cancelled"), retry=Retry(attempts=3))


def run(statement: Any, connection: sa.Connection) -> None:
    connection.execute(statement)


async def age(member: Member, table: str, column: str, seconds: float) -> None:
    """Make rows of one of Rowmill's own tables older."""
    found = getattr(own_tables(member.store.dialect.name), table)
    then = moment(member.store.dialect.name, -seconds)
    await member.mill.run(lambda connection: connection.execute(sa.update(found).values({column: then})).close())


async def test_every_failed_attempt_is_kept(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({})
        for answer in (
            RetryLater(0, "busy", "one"),
            RetryLater(0, "busy", "two", count_attempt=False),
            ValueError("three"),
            Dead("bad"),
        ):
            [lease] = await member.claim()
            await member.settle((lease, answer))
            await member.bench.advance(10_000)
        entries = await member.own("attempt")
        assert [(entry.attempt, entry.code, entry.message) for entry in entries] == [
            (1, "busy", "one"),
            (2, "busy", "two"),
            (2, "ValueError", "three"),
            (3, "bad", ""),
        ]
        row = await member.row()
        assert {(entry.queue, entry.key, entry.stage, entry.worker) for entry in entries} == {
            ("jobs", str(row.id), "work", member.store.worker)
        }
        for entry in entries:
            assert entry.started_at.replace(tzinfo=UTC) <= entry.ended_at.replace(tzinfo=UTC)


async def test_successes_and_releases_are_not_failures(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({}, {})
        first, second = await member.claim(2)
        await member.settle((first, None))
        await member.release(second)
        assert await member.own("attempt") == []


async def test_a_refused_settle_leaves_no_history(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({})
        [lease] = await member.claim()
        await member.sql("UPDATE jobs SET lease = NULL")
        await member.settle((lease, Dead("late")))
        assert await member.own("attempt") == []


async def test_a_cancellation_is_in_the_history(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({})
        [lease] = await member.claim()
        await member.settle((lease, Cancel("not wanted")))
        [entry] = await member.own("attempt")
        assert (entry.code, entry.message) == ("cancelled", "not wanted")


async def test_throughput_is_added_up_by_the_minute(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put(*({} for _ in range(6)))
        leases = await member.claim(6)
        await member.settle((leases[0], None), (leases[1], None), (leases[2], Dead("x")))
        await member.settle((leases[3], None))
        assert await member.mill.run(cleanup.roll_up) == 0
        assert await member.own("throughput") == []
        await age(member, "receipt", "at", 3600)
        assert await member.mill.run(cleanup.roll_up) == 0, "the worker may not have heard of them"
        await member.mill.run(lambda connection: fleet.sign_off(connection, member.store.worker))
        assert await member.mill.run(cleanup.roll_up) == 3
        assert await member.own("receipt") == []
        found = {(entry.queue, entry.stage, entry.move): entry.rows for entry in await member.own("throughput")}
        assert found == {("jobs", "work", "done"): 3, ("jobs", "work", "dead"): 1}


@pytest.mark.parametrize("column", ["stopped_at", "seen_at"])
async def test_the_last_receipts_of_a_worker_stay_until_it_is_gone(database_url: str, column: str) -> None:
    """One that was cut off asks for them when it is back: whatever it sent last may have been carried out."""
    async with worker(database_url, plain) as member:
        number = cleanup.UNANSWERED + 3
        await member.put(*({} for _ in range(number)))
        for lease in await member.claim(number):
            await member.settle((lease, None))
        receipt = own_tables(member.store.dialect.name).receipt
        old = [entry.flush for entry in sorted(await member.own("receipt"), key=lambda entry: entry.flush)]
        for place, flush in enumerate(old):
            aged = sa.update(receipt).where(receipt.c.flush == flush)
            at = moment(member.store.dialect.name, -3600 + place)
            await member.mill.run(partial(run, aged.values(at=at)))
        await age(member, "worker", "seen_at", 3600)
        assert await member.mill.run(cleanup.roll_up) == 3
        assert sorted(entry.flush for entry in await member.own("receipt")) == old[3:]
        assert await member.mill.run(cleanup.roll_up) == 0
        await age(member, "worker", column, cleanup.KNOWN_SECONDS + 1)
        assert await member.mill.run(cleanup.roll_up) == cleanup.UNANSWERED
        assert sum(entry.rows for entry in await member.own("throughput")) == number


async def test_a_second_roll_up_adds_to_the_first(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({}, {})
        minute = None
        for _ in range(2):
            [lease] = await member.claim()
            await member.settle((lease, None))
            own = own_tables(member.store.dialect.name).receipt
            old = sa.update(own).values(at=minute or moment(member.store.dialect.name, -3600))
            await member.mill.run(partial(run, old))
            await age(member, "worker", "stopped_at", 0)
            await member.mill.run(cleanup.roll_up)
            [entry] = await member.own("throughput")
            minute = entry.minute
        assert entry.rows == 2


async def test_old_history_is_tidied_away_in_bounded_batches(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put(*({} for _ in range(5)))
        await member.settle(*((lease, Dead("x")) for lease in await member.claim(5)))
        assert await member.mill.run(lambda c: cleanup.tidy(c, 1000.0)) == 0
        await age(member, "attempt", "ended_at", 2000)
        assert await member.mill.run(lambda c: cleanup.tidy(c, 1000.0, most=3)) == 3
        assert await member.mill.run(lambda c: cleanup.tidy(c, 1000.0, most=3)) == 2


async def test_history_that_grows_fast_is_tidied_away_as_fast(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full batch says that more is left: the next one goes with the next sign of life, not a minute later."""
    monkeypatch.setattr(cleanup, "TIDY_MOST", 3)
    monkeypatch.setattr(cleanup.tidy, "__defaults__", (3,))
    async with worker(database_url, plain) as member:
        await member.put(*({} for _ in range(8)))
        await member.settle(*((lease, Dead("x")) for lease in await member.claim(8)))
        await age(member, "attempt", "ended_at", 2000)
        keeper = keeper_of(member, keep_history=1000.0)
        left = []
        for beat in range(4):
            await keeper.tick(1000.0 + beat)
            left.append(len(await member.own("attempt")))
        assert left == [5, 2, 0, 0]


async def test_a_living_worker_stays_known_however_short_history_is_kept(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await age(member, "worker", "seen_at", 20)
        await member.mill.run(lambda connection: cleanup.tidy(connection, 0.0))
        [known] = await member.own("worker")
        assert known.id == member.store.worker


def keeper_of(member: Member, *, keep_history: float) -> Upkeep:
    return Upkeep(
        member.store, member.store.worker, [member.queue], Events(),
        WorkerSettings(heartbeat=1.0, rescue_every=10.0, rescue_most=10, keep_history=keep_history),
    )  # fmt: skip


async def test_workers_are_known_with_their_last_sign_of_life(database_url: str) -> None:
    async with worker(database_url, plain) as member:

        @member.queue.handler()
        async def work(lease: Lease[Any]) -> None:
            raise PermanentError("no")

        await member.put({})
        await member.bench.drain()
        workers = await member.own("worker")
        ran = max(workers, key=lambda entry: entry.id)
        assert (ran.queues, ran.stopped_at is not None) == ("jobs", True)
        assert ran.seen_at >= ran.started_at
        assert len({entry.id for entry in workers}) == len(workers) == 2
        [entry] = await member.own("attempt")
        assert entry.worker == ran.id


async def test_a_worker_s_number_is_never_used_twice(database_url: str) -> None:
    """Tokens are made of it: not even after the rows of old workers are gone."""
    async with worker(database_url, plain) as member:
        first = member.store.worker
        own = own_tables(member.store.dialect.name).worker
        await member.mill.run(lambda connection: connection.execute(sa.delete(own)).close())
        second = await member.mill.run(lambda connection: fleet.register(connection, [member.queue]))
        assert second > first


async def test_one_leads_and_another_takes_over(database_url: str) -> None:
    async with worker(database_url, plain) as member:

        async def lead(number: int) -> bool:
            return await member.mill.run(lambda connection: fleet.lead(connection, number, 30.0))

        assert [await lead(1), await lead(2), await lead(1)] == [True, False, True]
        await age(member, "leader", "until", 1)
        assert [await lead(2), await lead(1)] == [True, False]
        await member.mill.run(lambda connection: fleet.sign_off(connection, 2))
        assert await lead(1)


async def test_whoever_is_frozen_as_it_takes_the_lead_keeps_nobody_else_from_it(
    pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would rescue any more, for as long as it stands still."""
    lead, seen = fleet.lead, []

    def frozen(connection: Connection, number: int, seconds: float, leadership: str) -> bool:
        took = lead(connection, number, seconds, leadership)
        with psycopg.connect(pg_url) as other:
            seen.append(other.execute("SELECT worker FROM rowmill.leader FOR UPDATE NOWAIT").fetchall())
        return took

    async with worker(pg_url, plain) as member:
        monkeypatch.setattr(fleet, "lead", frozen)
        keeper = keeper_of(member, keep_history=1.0)
        await keeper.tick(0.0)  # it is the first
        assert keeper.leading
        assert seen == [[(member.store.worker,)]]


async def test_a_leader_s_row_that_is_locked_keeps_nobody_s_sign_of_life(pg_url: str) -> None:
    """A process that is frozen with the row locked: the others live on, and one of them leads when it is gone."""
    async with worker(pg_url, plain) as member:
        keeper, leads = keeper_of(member, keep_history=1.0), []

        async def tick() -> None:
            await keeper.tick(0.0)
            leads.append(keeper.leading)

        await tick()
        [before] = await member.own("worker")
        with psycopg.connect(pg_url) as frozen:
            frozen.execute("SELECT worker FROM rowmill.leader FOR UPDATE")
            await tick()
        [after] = await member.own("worker")
        assert after.seen_at > before.seen_at
        await tick()
        assert leads == [True, False, True]


async def test_a_heartbeat_says_what_is_paused_and_who_leads(database_url: str) -> None:
    async with fleet_of(database_url, plain, size=2) as [first, second]:
        beats = [await one.store.heartbeat(one.store.worker, "upkeep", 30.0) for one in (first, second, first)]
        assert beats == [Heartbeat(set(), leading) for leading in (True, False, True)]
        await age(first, "leader", "until", 1)
        await first.mill.run(lambda connection: fleet.pause(connection, first.queue))
        assert await second.store.heartbeat(second.store.worker, "upkeep", 30.0) == Heartbeat({("jobs", "")}, True)
        assert await second.store.heartbeat(2**40, "upkeep", 30.0) is None
        assert await second.store.heartbeat(second.store.worker, "another", 30.0) == Heartbeat({("jobs", "")}, True)


async def test_a_frozen_process_keeps_its_locks_for_a_minute_at_the_most(pg_url: str) -> None:
    async with worker(pg_url, plain) as member:
        patience = sa.text("SHOW idle_in_transaction_session_timeout")
        assert await member.mill.run(lambda connection: connection.scalar(patience)) == "1min"
