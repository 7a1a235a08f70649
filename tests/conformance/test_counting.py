"""What the attempts column and `finished_at` say at rest: all tries or the failed ones, every end or success alone."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Cancel, Dead, Done, Mill, Queue, RateLimited, Retry, RetryLater, Stage, States, days
from rowmill.maintenance.retention import sweep
from rowmill.model.errors import DeclarationError
from rowmill.model.lifecycle import StateKind
from rowmill.model.queue import Columns, Retention
from rowmill.observe.events import Events
from rowmill.operator import change
from rowmill.operator.change import ChangeResult
from rowmill.operator.filters import Filter
from tests.conformance.fleet import MOMENT, Declare, Member, jobs, worker

STAGES = (
    Stage("first", ready="new", running="first_running"),
    Stage("second", ready="halfway", running="second_running"),
)
WORDS = States(ready="ready", running="running", waiting="waiting", done="done", dead="dead", cancelled="cancelled")


def failures(**options: Any) -> Declare:
    return lambda mill: mill.queue(jobs(), states=WORDS, retry=Retry(attempts=3), counts="failures", **options)


async def tried(member: Member, *answers: Any, stage: str | None = None) -> list[int]:
    """Run the row once per answer, without waiting in between; answers the attempt that each try was."""
    made = []
    for answer in answers:
        [lease] = await member.claim(stage=stage)
        made.append(lease.attempt)
        assert (await member.settle((lease, answer))).kept == 1
        await member.sql("UPDATE jobs SET available_at = NULL")
        member.store.forget(member.queue)
    return made


@pytest.mark.parametrize(
    ("answers", "state", "count"),
    [
        ([None], "done", 0),
        ([Done({"title": "written"})], "done", 0),
        ([ValueError(), None], "done", 1),
        ([ValueError(), ValueError(), {"title": "written"}], "done", 2),
        ([ValueError(), ValueError(), ValueError()], "dead", 3),
        ([ValueError(), Dead("hopeless")], "dead", 2),
        ([RateLimited(retry_after=1), RetryLater(count_attempt=False), None], "done", 0),
        ([ValueError(), Cancel("unwanted")], "cancelled", 1),
    ],
)
async def test_the_column_holds_failed_tries(database_url: str, answers: list[Any], state: str, count: int) -> None:
    async with worker(database_url, failures()) as member:
        await member.put({})
        await tried(member, *answers)
        row = await member.row()
        assert (row.state, row.attempts) == (state, count)


async def test_a_lease_counts_from_one_whatever_the_column_counts(database_url: str) -> None:
    async with worker(database_url, failures()) as member:
        await member.put({})
        assert await tried(member, ValueError(), ValueError(), None) == [1, 2, 3]


async def test_many_successes_of_one_flush_give_their_try_back(database_url: str) -> None:
    """Written by one statement, with and without values of their own."""
    async with worker(database_url, failures()) as member:
        await member.put(*({"title": str(n)} for n in range(6)))
        leases = await member.claim(6)
        answers = [None, None, None, {"title": "a"}, {"title": "b"}, ValueError()]
        settled = await member.settle(*zip(leases, answers, strict=True))
        assert settled.kept == 6
        assert [row.attempts for row in await member.rows()] == [0, 0, 0, 0, 0, 1]


async def test_a_crash_is_a_failed_try(database_url: str) -> None:
    async with worker(database_url, failures()) as member:
        await member.put({})
        await member.claim()
        assert (await member.row()).attempts == 1
        await member.expire()
        assert (await member.rescue()).returned == 1
        await tried(member, None)
        row = await member.row()
        assert (row.state, row.attempts) == ("done", 1)


async def test_a_row_that_crashes_every_worker_has_as_many_failures_as_tries(database_url: str) -> None:
    async with worker(database_url, failures()) as member:
        await member.put({})
        for _ in range(3):
            await member.claim()
            await member.expire()
            await member.rescue()
            member.store.forget(member.queue)
        row = await member.row()
        assert (row.state, row.attempts) == ("dead", 3)


async def test_a_release_is_no_try(database_url: str) -> None:
    async with worker(database_url, failures()) as member:
        await member.put({})
        await member.release(*await member.claim())
        assert (await member.row()).attempts == 0
        await tried(member, ValueError())
        await member.release(*await member.claim())
        assert (await member.row()).attempts == 1


async def test_each_stage_counts_its_own_failures(database_url: str) -> None:
    """The count decides how often the row is tried at its stage: a failure of the first must not cost the second a
    try."""
    async with worker(database_url, failures(stages=STAGES)) as member:
        await member.put({})
        await tried(member, ValueError(), ValueError(), None, stage="first")
        row = await member.row()
        assert (row.state, row.attempts) == ("halfway", 0)
        assert await tried(member, ValueError(), None, stage="second") == [1, 2]
        row = await member.row()
        assert (row.state, row.attempts) == ("done", 1)


async def test_a_requeue_begins_at_zero_and_a_cancel_leaves_the_count(database_url: str) -> None:
    async with worker(database_url, failures()) as member:
        await member.put({})
        await tried(member, ValueError(), Dead())
        await change.requeue(member.store, member.queue, Filter(states=("dead",)))
        assert (await member.row()).attempts == 0
        await tried(member, ValueError())
        await change.cancel(member.store, member.queue, Filter())
        row = await member.row()
        assert (row.state, row.attempts) == ("cancelled", 1)


async def test_all_tries_are_counted_unless_the_queue_says_otherwise(database_url: str) -> None:
    async with worker(database_url, lambda mill: mill.queue(jobs(), states=WORDS)) as member:
        await member.put({})
        await tried(member, ValueError(), None)
        assert (await member.row()).attempts == 2


@pytest.mark.parametrize("answer", [Dead("hopeless"), Cancel("unwanted")])
@pytest.mark.parametrize("finished_on", ["final", "done"])
async def test_finished_at_is_the_time_of_success_alone_if_the_queue_says_so(
    database_url: str, finished_on: Any, answer: Any
) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(), states=WORDS, finished_on=finished_on)

    async with worker(database_url, declare) as member:
        await member.put({"title": "fails"})
        await tried(member, answer)
        assert ((await member.row()).finished_at is not None) == (finished_on == "final")
        await member.put({"title": "works"})
        await tried(member, None)
        assert (await member.rows())[1].finished_at is not None


async def test_a_time_of_success_does_not_outlive_a_later_failure(database_url: str) -> None:
    """Somebody put a finished row back by hand, and did not clear the time."""
    async with worker(database_url, lambda mill: mill.queue(jobs(), finished_on="done")) as member:
        await member.put({})
        await tried(member, None)
        await member.sql("UPDATE jobs SET state = 'ready'")
        await tried(member, Dead())
        row = await member.row()
        assert (row.state, row.finished_at) == ("dead", None)


async def test_a_rescued_row_that_is_buried_has_no_time_of_success(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(), retry=Retry(attempts=1), finished_on="done")

    async with worker(database_url, declare) as member:
        await member.put({})
        await member.claim()
        await member.expire()
        assert (await member.rescue()).buried == 1
        assert (await member.row()).finished_at is None


@pytest.mark.parametrize("role", ["updated_at", "created_at"])
async def test_dead_rows_without_a_time_of_their_end_are_kept_by_another(database_url: str, role: str) -> None:
    columns: Callable[..., Columns] = Columns

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(
            jobs(Column(role, MOMENT)),
            columns=columns(**{role: role}),
            retention=Retention(done=days(7), dead=days(30)),
            finished_on="done",
        )

    async with worker(database_url, declare) as member:
        sql = member.store.sql(member.queue)
        for key, age in enumerate([29, 31]):
            at: sa.ColumnElement[Any] = sa.literal_column(sql.later(role, repr(-age * 86400.0)))
            new = sa.insert(member.queue.table).values({"id": key, "state": "dead", role: at})
            await member.mill.run(partial(sa.Connection.execute, statement=new))
        found = await sweep(member.store, member.queue, Events())
        assert found == {StateKind.DONE: ChangeResult(), StateKind.DEAD: ChangeResult(1)}
        assert [row.id for row in await member.rows()] == [0]


def test_an_age_that_nothing_tells_is_refused_when_it_is_declared() -> None:
    mill = Mill("sqlite:///nowhere.db")
    with pytest.raises(DeclarationError, match="Map a time that it has"):
        mill.queue(jobs(), retention=Retention(dead=days(30)), finished_on="done")
    mill.queue(jobs(), retention=Retention(done=days(30)), finished_on="done")


def test_a_meaning_that_there_is_not_is_refused() -> None:
    mill = Mill("sqlite:///nowhere.db")
    wrong: Any = "retries"
    with pytest.raises(DeclarationError, match=r"counts=... is 'attempts' or 'failures', not 'retries'"):
        mill.queue(jobs(), counts=wrong)
    with pytest.raises(DeclarationError, match=r"finished_on=... is 'final' or 'done', not 'retries'"):
        mill.queue(jobs(), finished_on=wrong)
