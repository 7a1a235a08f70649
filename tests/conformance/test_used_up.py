"""A row that is put back by hand with its attempts used up is buried by its next claim, and not run once more."""

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Columns, Dead, Mill, Order, OrderPerKey, Queue, Retry, Stage, States
from rowmill.model.dead_rows import DeadRow, DeadRowListener
from rowmill.operator import change
from rowmill.operator.filters import Filter
from rowmill.operator.why import Obstacle, why
from tests.conformance.fleet import MOMENT, Declare, Member, jobs, worker

STAGES = (
    Stage("first", ready="new", running="first_running", retry=Retry(attempts=2)),
    Stage("second", ready="halfway", running="second_running", retry=Retry(attempts=4)),
)


def queue_of(*more: Any, attempts: int = 3, **options: Any) -> Declare:
    return lambda mill: mill.queue(jobs(*more), retry=Retry(attempts=attempts), **options)


def deaths_of(member: Member) -> list[DeadRow]:
    """What the store reports from now on."""
    found: list[DeadRow] = []
    member.store.on_buried = lambda queue, step, death: found.append(death)
    return found


async def put(member: Member, *rows: dict[str, Any]) -> None:
    await member.put(*({"attempts": 0} | row for row in rows))


async def states(member: Member) -> list[tuple[str, int]]:
    return [(row.state, row.attempts) for row in await member.rows()]


async def test_a_claim_buries_it_with_a_code(database_url: str) -> None:
    async with worker(database_url, queue_of()) as member:
        told = deaths_of(member)
        await put(member, {"title": "put back", "attempts": 3})
        assert await member.claim(10) == []
        row = await member.row()
        assert (row.state, row.attempts, row.lease, row.leased_until) == ("dead", 3, None, None)
        assert row.error.startswith("attempts_used_up: ")
        assert row.finished_at is not None
        [entry] = await member.own("attempt")
        assert (entry.key, entry.stage, entry.attempt, entry.code) == (str(row.id), "work", 3, "attempts_used_up")
        assert (entry.worker, entry.started_at) == (member.store.worker, None)
        assert [(death.key, death.attempt, death.code) for death in told] == [(row.id, 3, "attempts_used_up")]


async def test_one_attempt_less_is_run(database_url: str) -> None:
    async with worker(database_url, queue_of()) as member:
        await put(member, {"attempts": 2})
        [lease] = await member.claim()
        assert (lease.attempt, lease.last_attempt) == (3, True)


async def test_the_others_of_the_claim_are_taken_in_their_order(database_url: str) -> None:
    async with worker(database_url, queue_of()) as member:
        await put(member, *({"title": str(n), "attempts": 3 * (n % 2)} for n in range(8)))
        assert [lease.row.title for lease in await member.claim(8)] == ["0", "2", "4", "6"]
        assert [state for state, _ in await states(member)] == ["running", "dead"] * 4


async def test_a_claim_that_meets_only_such_rows_goes_on(database_url: str) -> None:
    """An empty answer means that nothing is ready: whoever drains the queue would leave."""
    async with worker(database_url, queue_of()) as member:
        await put(member, *({"attempts": 7} for _ in range(9)), {"title": "good"})
        assert [lease.row.title for lease in await member.claim(2)] == ["good"]


async def test_with_priorities_and_times_too(database_url: str) -> None:
    columns = Columns(created_at="created_at", updated_at="updated_at", started_at="started_at", error_code="code")
    more = [Column(name, MOMENT) for name in ("created_at", "updated_at", "started_at")]
    declare = queue_of(*more, Column("rank", sa.Integer), Column("code", sa.String(4)), columns=columns,
                       order=Order(priority="rank"))  # fmt: skip
    async with worker(database_url, declare) as member:
        await put(member, {"rank": 5, "attempts": 3}, {"rank": 1, "title": "low"})
        assert [lease.row.title for lease in await member.claim(5)] == ["low"]
        row = (await member.rows())[0]
        assert (row.state, row.started_at, row.code) == ("dead", None, "atte")
        assert row.updated_at is not None


async def test_a_state_of_an_enum_type(database_url: str) -> None:
    kind = sa.Enum("queued", "busy", "ok", "bad", name="progress")
    words = States(ready="queued", running="busy", done="ok", dead="bad")
    async with worker(database_url, queue_of(Column("state", kind, nullable=False), states=words)) as member:
        await put(member, {"attempts": 3}, {"title": "good"})
        assert [lease.row.title for lease in await member.claim(5)] == ["good"]
        assert [row.state for row in await member.rows()] == ["bad", "busy"]


async def test_states_and_times_that_are_numbers(database_url: str) -> None:
    numbers = [Column("state", sa.SmallInteger, nullable=False)]
    numbers += [Column(name, sa.Integer) for name in ("available_at", "leased_until", "finished_at")]
    words = States(ready=0, running=1, done=2, dead=3)
    async with worker(database_url, queue_of(*numbers, states=words)) as member:
        await put(member, {"attempts": 3}, {"title": "good"})
        assert [lease.row.title for lease in await member.claim(5)] == ["good"]
        buried, taken = await member.rows()
        assert (buried.state, buried.finished_at is None) == (3, False)
        assert (taken.state, taken.finished_at) == (1, None)


async def test_a_key_of_several_parts(database_url: str) -> None:
    key = [Column("tenant", sa.String(8), primary_key=True), Column("n", sa.Integer, primary_key=True)]
    declare: Declare = lambda mill: mill.queue(jobs(key=key))  # noqa: E731
    async with worker(database_url, declare) as member:
        told = deaths_of(member)
        await put(member, {"tenant": "a", "n": 1, "attempts": 3}, {"tenant": "a", "n": 2})
        assert [lease.key for lease in await member.claim(5)] == [("a", 2)]
        assert [entry.key for entry in await member.own("attempt")] == ["a|1"]
        assert [death.key for death in told] == [("a", 1)]


async def test_a_requeued_row_has_all_attempts_again(database_url: str) -> None:
    async with worker(database_url, queue_of()) as member:
        await put(member, {"attempts": 3})
        await member.claim()
        await change.requeue(member.store, member.queue, Filter(states=("dead",)))
        [lease] = await member.claim()
        assert lease.attempt == 1


async def test_a_requeue_gives_attempts_to_ready_rows_that_have_none(database_url: str) -> None:
    """And leaves those alone that have: they need nothing."""
    async with worker(database_url, queue_of()) as member:
        await put(member, {"attempts": 3}, {"attempts": 2})
        assert (await change.requeue(member.store, member.queue, Filter(states=("ready",)))).rows == 1
        assert await states(member) == [("ready", 0), ("ready", 2)]
        assert sorted(lease.attempt for lease in await member.claim(5)) == [1, 3]


async def test_each_stage_has_attempts_of_its_own(database_url: str) -> None:
    """A row on the last attempt of the first stage moves on with none made at the second."""
    async with worker(database_url, lambda mill: mill.queue(jobs(), stages=STAGES)) as member:
        await put(member, {"attempts": 1})
        await member.settle(*((lease, None) for lease in await member.claim(stage="first")))
        assert await states(member) == [("halfway", 0)]
        [lease] = await member.claim(stage="second")
        assert lease.attempt == 1


async def test_the_limit_is_that_of_the_stage(database_url: str) -> None:
    """Whoever moves a row to another stage by hand and leaves the count gets what the count says there."""
    async with worker(database_url, lambda mill: mill.queue(jobs(), stages=STAGES)) as member:
        await put(member, {"state": "new", "attempts": 3}, {"state": "halfway", "attempts": 3})
        assert await member.claim(5, stage="first") == []
        [lease] = await member.claim(5, stage="second")
        assert lease.attempt == 4
        assert [entry.stage for entry in await member.own("attempt")] == ["first"]


async def test_where_failures_are_counted_the_same_number_is_the_end(database_url: str) -> None:
    async with worker(database_url, queue_of(counts="failures", finished_on="done")) as member:
        await put(member, {"attempts": 3}, {"attempts": 2})
        [lease] = await member.claim(5)
        await member.settle((lease, None))
        assert await states(member) == [("dead", 3), ("done", 2)]
        assert [row.finished_at is None for row in await member.rows()] == [True, False]


async def test_without_a_limit_nothing_is_buried(database_url: str) -> None:
    async with worker(database_url, queue_of(attempts=2**40)) as member:
        await put(member, {"attempts": 1_000_000})
        [lease] = await member.claim()
        assert lease.attempt == 1_000_001


async def test_a_null_is_no_attempt(database_url: str) -> None:
    async with worker(database_url, queue_of(Column("attempts", sa.Integer))) as member:
        await put(member, {"title": "a"})
        await member.sql("UPDATE jobs SET attempts = NULL")
        [lease] = await member.claim()
        assert lease.attempt == 1


@pytest.mark.parametrize(("on_dead", "taken"), [("skip", ["second"]), ("block", [])])
async def test_in_a_queue_in_order_it_counts_as_any_dead_row(database_url: str, on_dead: Any, taken: list[str]) -> None:
    declare = queue_of(Column("account", sa.Integer), order_per_key=OrderPerKey(per="account", on_dead=on_dead))
    async with worker(database_url, declare) as member:
        await put(member, {"account": 1, "attempts": 3}, {"account": 1, "title": "second"})
        assert [lease.row.title for lease in await member.claim(5)] == taken
        assert [state for state, _ in await states(member)] == ["dead", "running" if taken else "ready"]


async def test_a_listener_hears_of_it_with_the_columns_that_it_asked_for(database_url: str) -> None:
    async with worker(database_url, queue_of()) as member:
        heard: list[DeadRow] = []
        member.queue.dead_row_listener = DeadRowListener((member.queue.table.c.title,), heard.append)
        await put(member, {"title": "put back", "attempts": 3})
        await member.claim()
        [death] = heard
        assert (death.code, dict(death.facts)) == ("attempts_used_up", {"title": "put back"})
        assert death.error == (await member.row()).error


async def test_a_table_that_does_not_let_it_die_keeps_no_other_row(database_url: str) -> None:
    table_check = sa.CheckConstraint("state <> 'dead' OR title = 'may die'")
    async with worker(database_url, queue_of(table_check)) as member:
        await put(
            member, {"title": "must not die", "attempts": 3}, {"title": "good"}, {"title": "may die", "attempts": 3}
        )
        assert [lease.row.title for lease in await member.claim(5)] == ["good"]
        assert [state for state, _ in await states(member)] == ["ready", "running", "dead"]
        assert {entry.code for entry in await member.own("attempt")} == {"claim_refused", "attempts_used_up"}


async def test_why_says_so_before_the_claim_and_after_it(database_url: str) -> None:
    async with worker(database_url, queue_of()) as member:
        sql = member.store.sql(member.queue)
        await put(member, {"attempts": 4})
        _, holds = await member.mill.run(lambda connection: why(connection, sql, "1"))
        hold = holds[0]
        assert hold.reason is Obstacle.ATTEMPTS_USED_UP
        assert "rowmill requeue jobs --key 1" in hold.text
        assert hold.facts == {"attempts": 4, "limit": 3}
        await member.claim()
        _, holds = await member.mill.run(lambda connection: why(connection, sql, "1"))
        [hold] = holds
        assert hold.reason is Obstacle.DEAD
        assert "rowmill requeue jobs --key 1" in hold.text


async def test_a_row_that_failed_for_good_and_was_put_back_by_hand(database_url: str) -> None:
    """As an operator writes it who knows nothing of the attempts."""
    async with worker(database_url, queue_of(attempts=1)) as member:
        await put(member, {})
        await member.settle(*((lease, Dead("broken")) for lease in await member.claim()))
        await member.sql("UPDATE jobs SET state = 'ready'")
        member.store.forget(member.queue)
        assert await member.claim() == []
        assert [entry.code for entry in await member.own("attempt")] == ["broken", "attempts_used_up"]


async def test_the_worker_reports_it_as_dead(database_url: str) -> None:
    async with worker(database_url, queue_of()) as member:
        events: list[tuple[str, Any]] = []
        member.mill.observe(lambda name, fields: events.append((name, fields)))

        @member.queue.handler()
        async def work(lease: Any) -> None: ...

        await put(member, {"attempts": 3}, {"attempts": 2}, {"attempts": 9})
        report = await member.mill.drain()
        assert (report.done, report.dead, report.buried, report.claimed) == (1, 2, 2, 1)
        told = [fields for name, fields in events if name == "settled" and fields["move"] == "dead"]
        assert [(fields["key"], fields["code"], fields["attempt"]) for fields in told] == [
            ("1", "attempts_used_up", 3),
            ("3", "attempts_used_up", 9),
        ]


def test_a_queue_says_what_it_would_write(tmp_path: Any) -> None:
    """Words stand in the claim as literals, whatever the type of their column."""
    mill = Mill(f"sqlite:///{tmp_path}/x.db")
    queue: Queue[Any] = mill.queue(jobs())
    pairs = dict(mill.store.sql(queue).claim_assignments(queue.steps[0], wait="1", token="2"))
    assert pairs["state"] == "CASE WHEN coalesce(attempts, 0) >= 3 THEN 'dead' WHEN true THEN 'running' ELSE state END"
    assert pairs["lease"] == "CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN 2 ELSE lease END"
