"""Rescue: rows of dead workers go back, or are buried; nothing else is touched."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Columns, CrashCodes, Mill, OrderPerKey, Queue, Retry, RetryLater, Stage, States
from rowmill.maintenance import upkeep
from rowmill.maintenance.upkeep import Upkeep
from rowmill.store import rescue
from rowmill.store.postgres.store import PostgresStore
from rowmill.store.sqlite.store import SqliteStore
from rowmill.worker.settings import WorkerSettings
from tests.conformance.fleet import MOMENT, Declare, Member, fleet, jobs, worker


def plain(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs(), retry=Retry(attempts=3), lease=100.0)


def coded(mill: Mill) -> Queue[Any]:
    columns = Columns(error_code="code")
    return mill.queue(
        jobs(Column("code", sa.Text)), columns=columns, crash_codes=CrashCodes("went away", "gone for good")
    )


async def test_a_row_whose_lease_ran_out_goes_back(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({})
        await member.claim()
        assert await member.rescue() == rescue.Rescued(0, 0)
        await member.expire()
        assert await member.rescue() == rescue.Rescued(returned=1, buried=0)
        row = await member.row()
        assert (row.state, row.attempts, row.lease, row.leased_until) == ("ready", 1, None, None)
        assert (row.error, row.finished_at) == ("lease_expired", None)
        assert len(await member.claim()) == 1


async def test_a_sweep_may_leave_out_what_ran_out_long_ago(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({}, {})
        await member.claim()
        await member.bench.advance(80)
        await member.claim()
        await member.bench.advance(105)  # the first lease ran out 85 seconds ago, the second 5
        assert await member.rescue(back=60.0) == rescue.Rescued(returned=1)
        assert [row.state for row in await member.rows()] == ["running", "ready"]
        assert await member.rescue() == rescue.Rescued(returned=1)


async def test_a_crash_counts_so_that_poison_ends_dead(database_url: str) -> None:
    """Claimed and never settled, over and over: three attempts, then buried, and never claimed again."""
    async with worker(database_url, plain) as member:
        await member.put({})
        rounds = 0
        while await member.claim():
            rounds += 1
            assert rounds <= 3
            await member.expire()
            await member.rescue()
        row = await member.row()
        assert (rounds, row.state, row.attempts) == (3, "dead", 3)
        assert row.error == "lease_expired_max_attempts"
        assert row.finished_at is not None
        await member.expire()
        assert await member.rescue() == rescue.Rescued(0, 0)


async def test_every_crash_is_in_the_history(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({})
        for _ in range(3):
            await member.claim()
            await member.expire()
            await member.rescue()
        found = [(entry.attempt, entry.code, entry.worker) for entry in await member.own("attempt")]
        ours = member.store.worker
        assert found == [
            (1, "lease_expired", ours),
            (2, "lease_expired", ours),
            (3, "lease_expired_max_attempts", ours),
        ]


async def test_crash_words_of_the_queue(database_url: str) -> None:
    async with worker(database_url, coded) as member:
        await member.put({"title": "back", "attempts": 0}, {"title": "dead", "attempts": 2})
        await member.claim(2)
        await member.expire()
        assert await member.rescue() == rescue.Rescued(returned=1, buried=1)
        back, dead = await member.rows()
        assert (back.state, back.error, back.code) == ("ready", "went away", "went away")
        assert (dead.state, dead.error, dead.code) == ("dead", "gone for good", "gone for good")


async def test_a_sweep_is_bounded(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put(*({"attempts": n % 3} for n in range(10)))
        await member.claim(10)
        await member.expire()
        sweeps = [await member.rescue(most=4) for _ in range(4)]
        assert [sweep.returned + sweep.buried for sweep in sweeps] == [4, 4, 2, 0]


async def test_the_longest_dead_come_first(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({"title": "first"})
        await member.claim()
        await member.bench.advance(10)
        await member.put({"title": "second"})
        await member.claim()
        await member.expire()
        await member.rescue(most=1)
        assert [(row.title, row.state) for row in await member.rows()] == [("first", "ready"), ("second", "running")]


async def test_a_row_that_was_renewed_after_it_was_looked_at_is_not_touched(database_url: str) -> None:
    """The guard is in the UPDATE: it does not believe what the sweep read before."""
    async with worker(database_url, plain) as member:
        await member.put(*({"title": title} for title in ("renewed", "settled", "crashed", "by hand")))
        renewed, settled, _, _ = await member.claim(4)
        await member.expire()
        sql, step = member.store.sql(member.queue), member.queue.step()

        def sweep(connection: sa.Connection) -> rescue.Rescued:
            return rescue.rescue(Meddled(connection, meddle), sql, step, 100)  # type: ignore[arg-type]

        def meddle(connection: sa.Connection) -> None:
            """Between the look and the write, as if the workers had been faster."""
            until, lease = sql.later("leased_until", "100.0"), sql.lease
            connection.exec_driver_sql(
                f"UPDATE jobs SET leased_until = {until} WHERE {lease} = {renewed.token} AND title = 'renewed'"
            )
            connection.exec_driver_sql(
                f"UPDATE jobs SET state = 'done', {lease} = NULL, leased_until = NULL "
                f"WHERE {lease} = {settled.token} AND title = 'settled'"
            )
            connection.exec_driver_sql("UPDATE jobs SET state = 'done' WHERE title = 'by hand'")

        assert await member.store.run(sweep) == rescue.Rescued(returned=1, buried=0)
        rows = {row.title: row.state for row in await member.rows()}
        assert rows == {"renewed": "running", "settled": "done", "crashed": "ready", "by hand": "done"}
        assert (await member.settle((renewed, None))).kept == 1


class Meddled:
    """A connection on which something happens right after the sweep has looked for expired rows."""

    def __init__(self, connection: sa.Connection, meddle: Any) -> None:
        self._connection = connection
        self._meddle = meddle
        self._done = False

    def execute(self, statement: Any, *given: Any) -> Any:
        if isinstance(statement, sa.Update) and not self._done:
            self._done = True
            self._meddle(self._connection)
        return self._connection.execute(statement, *given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


async def test_two_sweeps_at_once_return_each_row_once(database_url: str) -> None:
    async with fleet(database_url, plain, size=3) as members:
        await members[0].put(*({"attempts": n % 3} for n in range(60)))
        await members[0].claim(60)
        await members[0].expire()

        async def sweep(member: Member) -> int:
            total = 0
            for _ in range(10):
                found = await member.rescue(most=10)
                total += found.returned + found.buried
            return total

        assert sum(await asyncio.gather(*map(sweep, members))) == 60
        assert len(await members[0].own("attempt")) == 60


async def test_a_running_row_without_a_lease_gets_one_first(database_url: str) -> None:
    """Somebody else wrote the word, or the table was adopted: it has the time of a lease before it is stale."""

    def declare(mill: Mill) -> Queue[Any]:
        columns = Columns(updated_at="updated_at")
        return mill.queue(jobs(Column("updated_at", MOMENT)), columns=columns, lease=100.0)

    async with worker(database_url, declare) as member:
        await member.put({"state": "running", "attempts": 1})
        assert await member.rescue() == rescue.Rescued(0, 0)
        row = await member.row()
        assert (row.state, row.attempts, row.lease) == ("running", 1, None)
        assert row.leased_until is not None
        await member.bench.advance(99)
        assert await member.rescue() == rescue.Rescued(0, 0)
        await member.bench.advance(2)
        assert await member.rescue() == rescue.Rescued(returned=1, buried=0)


async def test_missing_leases_are_given_in_bounded_numbers_too(database_url: str) -> None:
    """As after the adoption of a table with a million rows in progress."""
    async with worker(database_url, plain) as member:
        await member.put(*({"state": "running"} for _ in range(5)))
        left = []
        for _ in range(3):
            await member.rescue(most=2)
            left.append(len([row for row in await member.rows() if row.leased_until is None]))
        assert left == [3, 1, 0]


async def test_rows_of_a_stage_are_rescued_to_that_stage(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        stages = [
            Stage("fetch", "to fetch", "fetching", waiting="fetch later", lease=100.0),
            Stage("parse", "to parse", "parsing", lease=50.0, retry=Retry(attempts=1)),
        ]
        return mill.queue(jobs(), stages=stages)

    async with worker(database_url, declare) as member:
        await member.put({"title": "a", "state": "to fetch"}, {"title": "b", "state": "to parse"})
        await member.claim(stage="fetch")
        await member.claim(stage="parse")
        await member.expire()
        assert await member.rescue(stage="fetch") == rescue.Rescued(returned=1)
        assert await member.rescue(stage="parse") == rescue.Rescued(buried=1)
        assert [row.state for row in await member.rows()] == ["to fetch", "dead"]


async def test_two_words_for_running_are_both_rescued(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(), states=States(running=("running", "in progress")))

    async with worker(database_url, declare) as member:
        await member.put({"state": "in progress"}, {"state": "running"})
        await member.rescue()
        await member.expire()
        assert await member.rescue() == rescue.Rescued(returned=2)


async def test_a_waiting_row_is_not_rescued(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(), states=States(waiting="waiting"))

    async with worker(database_url, declare) as member:
        await member.put({})
        [lease] = await member.claim()
        await member.settle((lease, RetryLater(500)))
        await member.bench.advance(400)
        assert await member.rescue() == rescue.Rescued(0, 0)
        assert (await member.row()).state == "waiting"


@pytest.mark.parametrize("attempts", [None, 7])
async def test_attempts_that_are_missing_or_too_many(database_url: str, attempts: int | None) -> None:
    """NULL counts as none; more than are allowed (the policy was changed while it ran) as the last."""

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column("attempts", sa.Integer)))

    async with worker(database_url, declare) as member:
        await member.put({"attempts": None})
        [lease] = await member.claim()
        assert lease.attempt == 1
        await member.sql(f"UPDATE jobs SET attempts = {'NULL' if attempts is None else attempts}")
        await member.expire()
        found = await member.rescue()
        assert found == (rescue.Rescued(returned=1) if attempts is None else rescue.Rescued(buried=1))


async def test_the_lease_is_measured_by_the_database_s_clock(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({})
        [lease] = await member.claim()
        lease.claimed_at -= timedelta(days=1)
        assert await member.rescue() == rescue.Rescued(0, 0)


async def test_a_row_that_may_not_go_back_is_buried_and_keeps_no_other(database_url: str) -> None:
    """One open row per title: while this one ran, another was put in. It must not stall the sweep for ever."""

    def declare(mill: Mill) -> Queue[Any]:
        one_open = sa.text("state = 'ready'")
        unique = sa.Index("one_open", "title", unique=True, postgresql_where=one_open, sqlite_where=one_open)
        return mill.queue(jobs(unique))

    async with worker(database_url, declare) as member:
        await member.put({"title": "taken"}, {"title": "free"})
        await member.claim(2)
        await member.put({"title": "taken"})
        await member.expire()
        assert await member.rescue() == rescue.Rescued(returned=1, buried=1)
        assert [(row.title, row.state) for row in await member.rows()] == [
            ("taken", "dead"),
            ("free", "ready"),
            ("taken", "ready"),
        ]


async def hold(member: Member) -> None:
    """A trigger of somebody's: a row that is called held can't be changed."""
    if member.postgres:
        await member.sql(
            "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "IF OLD.title = 'held' THEN RAISE EXCEPTION 'mine'; END IF; RETURN NEW; END $$"
        )
        await member.sql("CREATE TRIGGER hold BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION hold()")
    else:
        await member.sql(
            "CREATE TRIGGER hold BEFORE UPDATE ON jobs WHEN OLD.title = 'held' BEGIN SELECT RAISE(ABORT, 'mine'); END"
        )


async def test_a_row_that_may_not_be_given_a_lease_keeps_no_other(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put(*({"title": title} for title in ("held", "free", "crashed")))
        await member.sql("UPDATE jobs SET state = 'running' WHERE title <> 'crashed'")
        await member.claim()
        await member.expire()
        await hold(member)
        assert await member.rescue() == rescue.Rescued(returned=1)
        rows = [(row.title, row.state, row.leased_until is not None) for row in await member.rows()]
        assert rows == [("held", "running", False), ("free", "running", True), ("crashed", "ready", False)]


async def test_a_row_that_nobody_may_change_is_reported_and_keeps_no_other(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a trigger, say: the others are rescued, and an event tells of the rest."""
    monkeypatch.setattr(upkeep, "GRACE", 0.0)
    async with worker(database_url, plain) as member:
        await member.put({"title": "held"}, {"title": "free"})
        await member.claim(2)
        await member.expire()
        await hold(member)
        heard: list[tuple[str, int]] = []
        member.mill.observe(lambda event, fields: heard.append((event, fields.get("rows", 0))))
        keeper = Upkeep(
            member.store, member.store.worker, [member.queue], member.mill.events,
            WorkerSettings(heartbeat=1, rescue_every=1, rescue_most=100, keep_history=1),
        )  # fmt: skip
        await keeper.rescue()
        assert heard == [], "its worker has not signed off, and may renew it yet"
        await keeper.rescue()
        assert heard == [("rescued", 1), ("unrescued", 1)]
        assert [(row.title, row.state) for row in await member.rows()] == [("held", "running"), ("free", "ready")]


def in_order(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs(), lease=100.0, retry=Retry(attempts=9), order_per_key=OrderPerKey(per="title"))


def guarded(mill: Mill) -> Queue[Any]:
    """Its table does not let every row be claimed."""
    forbidden = sa.CheckConstraint("title <> 'stays' OR state <> 'running'")
    return mill.queue(jobs(forbidden), lease=100.0, retry=Retry(attempts=9))


def frozen_often(member: Member, monkeypatch: pytest.MonkeyPatch) -> list[rescue.Rescued]:
    """After each of its statements the claimer stands still for so long that all it had is rescued."""
    store = member.store
    assert isinstance(store, PostgresStore | SqliteStore)
    line: Any = store.claims if isinstance(store, PostgresStore) else store.writer
    name = "fetch" if isinstance(store, PostgresStore) else "write"
    go_on, rescued = getattr(line, name), []

    async def frozen(*given: Any) -> Any:
        found = await go_on(*given)
        await member.expire()
        rescued.append(await member.rescue())
        return found

    monkeypatch.setattr(line, name, frozen)
    return rescued


@pytest.mark.parametrize("declare", [plain, in_order, guarded])
async def test_a_claim_that_is_frozen_between_its_statements_takes_no_row_twice_under_one_token(
    database_url: str, declare: Declare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it took has been rescued by the time that it wakes. Its next statement may take that again, as anybody else
    might, but not under a token that is lost."""
    async with worker(database_url, declare) as member:
        await member.put({"title": "a"}, {"title": "b"})
        await member.settle(*[(lease, None) for lease in await member.claim(2)])
        await member.put({"title": "a"}, {"title": "stays"}, {"title": "b"})
        rescued = frozen_often(member, monkeypatch)
        leases = await member.claim(10)
        assert sum(sweep.returned for sweep in rescued) > 1
        assert len({(lease.key, lease.token) for lease in leases}) == len(leases)
        settled = await member.settle(*[(lease, None) for lease in leases])
        assert (settled.kept, len(settled.lost)) == (0, len(leases))
