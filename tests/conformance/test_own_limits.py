"""Rows with a limit of attempts of their own, in a column that the queue maps."""

import asyncio
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Columns, Done, Mill, Queue, Retry, RetryLater, Stage, States, fixed
from rowmill.model.errors import DeclarationError
from rowmill.model.lease import Lease
from rowmill.operator import change
from rowmill.operator.browse import find_row
from rowmill.operator.filters import Filter
from rowmill.operator.why import Obstacle, why
from rowmill.store import rescue
from rowmill.store.own import privileges
from tests.conformance.fleet import Declare, Member, jobs, worker

COLUMNS = Columns(max_attempts="max_retries")
STAGES = (
    Stage("first", ready="new", running="first_running"),
    Stage("second", ready="halfway", running="second_running"),
)


def limited(attempts: int = 3, kind: Any = sa.Integer, **options: Any) -> Declare:
    table = jobs(Column("max_retries", kind))
    retry = Retry(attempts=attempts, backoff=fixed(0.0))
    return lambda mill: mill.queue(table, columns=COLUMNS, retry=retry, **options)


async def put(member: Member, *rows: dict[str, Any]) -> None:
    await member.put(*({"attempts": 0, "max_retries": None} | row for row in rows))


async def fail(member: Member, times: int) -> None:
    for _ in range(times):
        [lease] = await member.claim()
        assert (await member.settle((lease, ValueError()))).kept == 1


@pytest.mark.parametrize(
    ("limit", "made", "taken", "last"),
    [
        (5, 3, True, False),
        (5, 4, True, True),
        (5, 5, False, False),
        (2, 1, True, True),
        (2, 2, False, False),
        (None, 2, True, True),
        (None, 3, False, False),
        (1, 0, True, True),
        (0, 0, True, True),
        (0, 1, False, False),
        (-4, 0, True, True),
        (-4, 1, False, False),
    ],
)
async def test_the_row_decides_and_a_row_without_a_limit_goes_by_the_queue(
    database_url: str, limit: int | None, made: int, taken: bool, last: bool
) -> None:
    async with worker(database_url, limited()) as member:
        await put(member, {"max_retries": limit, "attempts": made})
        found = await member.claim()
        assert [lease.last_attempt for lease in found] == ([last] if taken else [])
        assert (await member.row()).state == ("running" if taken else "dead")


async def test_what_a_buried_row_is_told_names_its_own_limit(database_url: str) -> None:
    async with worker(database_url, limited()) as member:
        told = []
        member.store.on_buried = lambda queue, step, death: told.append(death)
        await put(member, {"max_retries": 5, "attempts": 6}, {"attempts": 3})
        assert await member.claim(10) == []
        texts = [f"it was ready for one more attempt, with all of its {number} used up" for number in (5, 3)]
        assert [row.error for row in await member.rows()] == [f"attempts_used_up: {text}" for text in texts]
        assert sorted(entry.message for entry in await member.own("attempt")) == sorted(texts)
        assert sorted(death.message for death in told) == sorted(texts)


async def test_a_limit_in_a_small_column_with_a_short_error(database_url: str) -> None:
    table = jobs(Column("max_retries", sa.SmallInteger), Column("error", sa.String(20)))
    async with worker(database_url, lambda mill: mill.queue(table, columns=COLUMNS)) as member:
        await put(member, {"max_retries": 2, "attempts": 2})
        assert await member.claim() == []
        assert (await member.row()).error == "attempts_used_up: it"


@pytest.mark.parametrize("counts", ["attempts", "failures"])
@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_the_row_is_dead_after_so_many_failures(database_url: str, limit: int, counts: Any) -> None:
    async with worker(database_url, limited(counts=counts)) as member:
        await put(member, {"max_retries": limit})
        await fail(member, limit - 1)
        assert ((await member.row()).state, (await member.row()).attempts) == ("ready", limit - 1)
        await fail(member, 1)
        assert ((await member.row()).state, (await member.row()).attempts) == ("dead", limit)


async def test_an_outcome_that_asks_for_one_more_try_gets_it_within_the_limit(database_url: str) -> None:
    async with worker(database_url, limited()) as member:
        await put(member, {"max_retries": 4, "attempts": 2}, {"max_retries": 3, "attempts": 2})
        leases = await member.claim(2)
        await member.settle(*((lease, RetryLater(after=0)) for lease in leases))
        assert [row.state for row in await member.rows()] == ["ready", "dead"]


async def test_a_queue_without_a_limit_keeps_to_those_of_its_rows(database_url: str) -> None:
    async with worker(database_url, limited(attempts=2**70)) as member:
        await put(member, {"max_retries": 2, "attempts": 2}, {"attempts": 100_000})
        [lease] = await member.claim(5)
        assert (lease.attempt, lease.last_attempt) == (100_001, False)
        assert [row.state for row in await member.rows()] == ["dead", "running"]
        sql = member.store.sql(member.queue)
        assert (await member.mill.run(lambda c: find_row(c, sql, "2"))).max_attempts is None


async def test_the_limit_holds_at_each_stage(database_url: str) -> None:
    async with worker(database_url, limited(stages=STAGES)) as member:
        await put(member, {"max_retries": 2, "attempts": 1})
        [lease] = await member.claim(stage="first")
        assert lease.last_attempt
        await member.settle((lease, None))
        for last, answer in ((False, ValueError()), (True, ValueError())):
            [lease] = await member.claim(stage="second")
            assert lease.last_attempt is last
            await member.settle((lease, answer))
        assert (await member.row()).state == "dead"


async def test_a_crash_counts_towards_the_limit_of_the_row(database_url: str) -> None:
    async with worker(database_url, limited()) as member:
        await put(member, {"max_retries": 1}, {"max_retries": 5, "attempts": 3}, {"attempts": 2}, {"max_retries": 0})
        assert len(await member.claim(10)) == 4
        await member.expire()
        assert await member.rescue() == rescue.Rescued(returned=1, buried=3)
        assert [row.state for row in await member.rows()] == ["dead", "ready", "dead", "dead"]


async def test_only_a_row_with_several_attempts_gets_its_last_one_back(database_url: str) -> None:
    """A row whose worker died may not be to blame; one with a single attempt has had it."""
    async with worker(database_url, limited()) as member:
        await put(member, {"max_retries": 1}, {"max_retries": 5, "attempts": 4})
        await member.claim(10)
        await member.expire()
        sql, step = member.store.sql(member.queue), member.queue.step()
        found = await member.store.run(lambda c: rescue.rescue(c, sql, step, 100, retry_alone=True))
        assert found == rescue.Rescued(returned=1, buried=1)
        assert [(row.state, row.attempts) for row in await member.rows()] == [("dead", 1), ("ready", 4)]


async def test_a_row_that_may_have_killed_its_worker_gets_the_last_attempt_of_its_own_limit_alone(
    database_url: str,
) -> None:
    async with worker(database_url, limited(attempts=1)) as member:
        await put(member, {"max_retries": 2})
        assert len(await member.claim()) == 1
        await member.expire()
        assert await member.rescue() == rescue.Rescued(returned=1)
        await put(member, *({"max_retries": 2} for _ in range(5)))
        inside: set[int] = set()
        beside: dict[int, set[int]] = {}
        queue: Queue[Any] = member.queue

        @queue.handler(concurrency=6)
        async def handle(job: Lease[Any]) -> None:
            inside.add(job.key)
            await asyncio.sleep(0.01)  # for company, if there is any
            for key in inside:
                beside.setdefault(key, set()).update(inside)
            inside.discard(job.key)

        await member.bench.drain()
        assert [row.state for row in await member.rows()] == ["done"] * 6
        assert beside[1] == {1}


async def test_why_names_the_limit_of_the_row(database_url: str) -> None:
    async with worker(database_url, limited()) as member:
        await put(member, {"max_retries": 2, "attempts": 2}, {"max_retries": 9, "attempts": 3})
        sql = member.store.sql(member.queue)
        row, holds = await member.mill.run(lambda c: why(c, sql, "1"))
        assert (row.max_attempts, holds[0].reason) == (2, Obstacle.ATTEMPTS_USED_UP)
        assert holds[0].text.startswith("its 2 attempts are used up (2 made)")
        assert holds[0].facts == {"attempts": 2, "limit": 2}
        row, holds = await member.mill.run(lambda c: why(c, sql, "2"))
        assert row.max_attempts == 9
        assert Obstacle.ATTEMPTS_USED_UP not in {hold.reason for hold in holds}


async def test_requeue_takes_the_ready_rows_that_have_no_attempts_left(database_url: str) -> None:
    async with worker(database_url, limited()) as member:
        await put(member, {"max_retries": 2, "attempts": 2}, {"max_retries": 9, "attempts": 3})
        changed = await change.requeue(member.store, member.queue, Filter(states=("ready",)))
        assert changed.rows == 1
        assert [(row.attempts, row.max_retries) for row in await member.rows()] == [(0, 2), (3, 9)]


async def test_a_handler_may_change_the_limit_and_the_next_claim_goes_by_it(database_url: str) -> None:
    async with worker(database_url, limited()) as member:
        await put(member, {"max_retries": 2})
        [lease] = await member.claim()
        await member.settle((lease, RetryLater(after=0, values={"max_retries": 7})))
        [lease] = await member.claim()
        assert (lease.attempt, lease.last_attempt, lease.row.max_retries) == (2, False, 7)
        await member.settle((lease, Done()))


async def test_a_worker_needs_no_right_to_write_it(database_url: str) -> None:
    async with worker(database_url, limited()) as member:
        assert "max_retries" not in privileges.written(member.store.sql(member.queue))


async def test_text_in_a_column_of_sqlite_is_no_limit(sqlite_url: str) -> None:
    async with worker(sqlite_url, limited()) as member:
        await put(member, {"attempts": 2}, {"attempts": 3})
        await member.sql("UPDATE jobs SET max_retries = 'many'")
        found: list[Lease[Any]] = await member.claim(5)
        assert [(lease.attempt, lease.last_attempt) for lease in found] == [(3, True)]
        assert [row.state for row in await member.rows()] == ["running", "dead"]


@pytest.mark.parametrize(
    ("column", "columns", "problem"),
    [
        (Column("max_retries", sa.Text), COLUMNS, "column max_retries (max_attempts) must be an integer"),
        (Column("other", sa.Integer), COLUMNS, "Columns(max_attempts=...) names column max_retries, which table jobs"),
        (Column("other", sa.Integer), Columns(max_attempts="attempts"), "column attempts is mapped twice, as attempts"),
    ],
)
def test_a_column_that_can_not_be_a_limit_is_refused(column: Any, columns: Columns, problem: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        Mill("sqlite:///never-opened.db").queue(jobs(column), columns=columns, states=States())
    assert problem in str(caught.value)


def test_a_column_that_the_database_computes_can_be_a_limit() -> None:
    table = jobs(Column("max_retries", sa.Integer, sa.Computed("id % 3")))
    queue = Mill("sqlite:///never-opened.db").queue(table, columns=COLUMNS)
    assert queue.columns["max_attempts"].name == "max_retries"
