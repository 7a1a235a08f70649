"""Handlers that answer nonsense, or values that the database refuses: that row fails, with a code; the rest goes on."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column, MetaData, Table

from rowmill import Cancel, Dead, Done, Lease, Mill, Queue, RateLimited, RetryLater, States
from rowmill.errors import ProviderDown
from tests.conformance.fleet import Declare, Member, jobs, worker


def strict(*, deferred: bool = False) -> Declare:
    """A table that refuses all it can."""

    def declare(mill: Mill) -> Queue[Any]:
        metadata = MetaData()
        Table("owners", metadata, Column("id", sa.Integer, primary_key=True))
        owner = sa.ForeignKey("owners.id", deferrable=deferred, initially="DEFERRED" if deferred else None)
        table = Table(
            "jobs",
            metadata,
            *(column._copy() for column in jobs().columns),
            Column("short", sa.String(5)),
            Column("needed", sa.Text, nullable=False, server_default="there"),
            Column("small", sa.Integer, sa.CheckConstraint("small < 100", name="small_enough")),
            Column("owner", sa.Integer, owner),
            Column("one", sa.Text, unique=True),
            Column("moment", sa.DateTime),
            Column("colour", sa.Enum("red", "green", name="colour", create_constraint=True)),
            Column("data", sa.JSON),
            Column("token", sa.Uuid),
            Column("loud", sa.Text, sa.Computed("title || '!'", persisted=True)),
        )
        return mill.queue(table, states=States(waiting="waiting", cancelled="cancelled"))

    return declare


async def answered(member: Member, answers: dict[str, Any], *, batch: bool) -> dict[str, Any]:
    """A row for each of these answers, and a good one after each. Answers the rows with a bad one, by title."""

    def answer(lease: Lease[Any]) -> Any:
        name = lease.row.title
        found = answers.get(name, {"needed": f"by {name}"})
        if isinstance(found, Exception) and not batch:
            raise found
        return found

    if batch:

        @member.queue.batch_handler(size=100)
        async def work(leases: list[Lease[Any]]) -> list[Any]:
            return [answer(lease) for lease in leases]

    else:

        @member.queue.handler(concurrency=5)
        async def work_one(lease: Lease[Any]) -> Any:
            return answer(lease)

    await member.put(*({"title": title} for name in answers for title in (name, f"good after {name}")))
    report = await member.bench.drain()
    assert (report.lost, report.done) == (0, len(answers))
    rows = {row.title: row for row in await member.rows()}
    good = [row for title, row in rows.items() if title.startswith("good after ")]
    assert [(row.state, row.needed, row.attempts) for row in good] == [("done", f"by {row.title}", 1) for row in good]
    return {name: rows[name] for name in answers}


ANSWERS: dict[str, tuple[Any, str, str]] = {
    "text": ("done", "bad_answer", "the handler returned str; it may return None, column values, Done"),
    "a number": (42, "bad_answer", "the handler returned int"),
    "true": (True, "bad_answer", "the handler returned bool"),
    "a list": ([1], "bad_answer", "the handler returned list"),
    "a class": (Done, "bad_answer", "the handler returned type"),
    "unknown column": ({"needed": "x", "resutl": 1}, "unknown_column", "table jobs has no column resutl"),
    "unknown column in done": (Done({"resutl": 1}), "unknown_column", "resutl"),
    "not a name": ({5: 1}, "unknown_column", "5"),
    "the state": ({"state": "done"}, "reserved_column", "column state belongs to the queue"),
    "the key": ({"id": 7}, "reserved_column", "column id belongs to the queue"),
    "the lease": (Done({"lease": None}), "reserved_column", "lease"),
    "values that are none": (Done(["a"]), "bad_values", "values must be a mapping of columns, not list"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
async def test_answers_that_are_none(database_url: str, batch: bool) -> None:
    async with worker(database_url, strict()) as member:
        rows = await answered(member, {name: bad for name, (bad, _, _) in ANSWERS.items()}, batch=batch)
        for name, (_, code, message) in ANSWERS.items():
            row = rows[name]
            assert (row.state, row.attempts) == ("dead", 1), name
            assert row.error.startswith(f"{code}: "), name
            assert message in row.error, name
        codes = {entry.key: entry.code for entry in await member.own("attempt")}
        assert codes == {str(rows[name].id): code for name, (_, code, _) in ANSWERS.items()}


class Unreadable(Exception):
    """As a library raises it that formats its text only when asked, and fails at it."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


SOON = datetime.now(UTC) + timedelta(hours=1)
RAISED: dict[str, tuple[Callable[[], Exception], str, int]] = {
    "without a text": (Unreadable, "Unreadable: (its text can't be read: RuntimeError)", 1),
    "limited until a date": (lambda: RateLimited(retry_after=format_datetime(SOON)), "rate_limited", 0),
    "limited for so many": (lambda: RateLimited(retry_after="3600"), "rate_limited", 0),
    "limited, who knows": (lambda: RateLimited(retry_after="a while"), "rate_limited", 0),
    "down for long": (lambda: ProviderDown(retry_after=timedelta(days=99_999)), "provider_down", 0),
}


@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
async def test_errors_that_are_odd_are_judged_by_their_type(database_url: str, batch: bool) -> None:
    """The row waits for its next attempt, which the odd error did not cost it."""
    async with worker(database_url, strict()) as member:
        again = {
            "text": RetryLater(after="3600"),
            "a time": RetryLater(after=SOON),
            "for ever": RetryLater(after=float("inf")),
        }
        rows = await answered(member, again | {name: raised() for name, (raised, _, _) in RAISED.items()}, batch=batch)
        expected = {name: (error, attempts) for name, (_, error, attempts) in RAISED.items()}
        for name, row in rows.items():
            error, attempts = expected.get(name, ("again", 1))
            assert (row.state, row.error, row.attempts) == ("waiting", error, attempts), name
            assert row.available_at is not None, name


REFUSED: dict[str, dict[str, Any]] = {
    "nothing where something is needed": {"needed": None},
    "against a check": {"small": 100},
    "of nobody": {"owner": 7},
    "taken": {"one": "taken"},
    "a wrong type for a time": {"moment": "yesterday"},
    "a colour that is none": {"colour": "blue"},
    "not json": {"data": {1, 2}},
    "not a uuid": {"token": "no uuid"},
    "a lone surrogate": {"title": "\ud800"},
    "too large a number": {"small": 2**70},
    "an object": {"title": object()},
    "a list for text": {"title": ["a", "b"]},
    "a column that is computed": {"loud": "x"},
}
REFUSED_BY_POSTGRES: dict[str, dict[str, Any]] = {
    "too long": {"short": "123456"},
    "a nul byte": {"title": "a\x00b"},
    "text for a number": {"small": "many"},
    "a number for text": {"title": 5},
    "out of range": {"small": 2**31},
}


@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
async def test_values_that_the_database_refuses(database_url: str, batch: bool) -> None:
    """Each row fails for good, with a code; nothing of it is written, and the good rows between them are done."""
    async with worker(database_url, strict()) as member:
        await member.put({"title": "holder", "one": "taken", "state": "cancelled"})
        values = REFUSED | (REFUSED_BY_POSTGRES if member.postgres else {})
        rows = await answered(member, dict(values), batch=batch)
        for name, row in rows.items():
            assert (row.state, row.attempts, row.needed, row.small, row.owner) == ("dead", 1, "there", None, None), name
            assert row.error.startswith("value_refused: the database refused the values: "), name
            assert all(column in row.error for column in values[name]), row.error
            assert row.finished_at is not None
        assert {entry.code for entry in await member.own("attempt")} == {"value_refused"}


@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
async def test_a_constraint_that_is_checked_at_the_end_of_the_transaction(database_url: str, batch: bool) -> None:
    """It fails the commit, not the statement: the rows beside it must not be lost with it."""
    async with worker(database_url, strict(deferred=True)) as member:
        row = (await answered(member, {"bad": {"owner": 7}}, batch=batch))["bad"]
        assert (row.state, row.owner) == ("dead", None)
        assert row.error.startswith("value_refused: ")


@pytest.mark.parametrize("outcome", [RetryLater, Dead, Cancel])
async def test_values_of_failures_may_be_refused_too(database_url: str, outcome: Any) -> None:
    async with worker(database_url, strict()) as member:
        row = (await answered(member, {"bad": outcome(values={"needed": None})}, batch=True))["bad"]
        assert (row.state, row.needed) == ("dead", "there")
        assert row.error.startswith("value_refused: ")


@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
async def test_values_that_are_refused_inside_a_transaction_of_the_handler(database_url: str, sync: bool) -> None:
    """Everything in it is rolled back, and the row fails for good."""
    async with worker(database_url, strict()) as member:
        owners = member.queue.table.metadata.tables["owners"]

        if sync:

            @member.queue.handler()
            def work(lease: Lease[Any]) -> None:
                with lease.settling(Done({"needed": None})) as session:
                    session.execute(sa.insert(owners).values(id=1))

        else:

            @member.queue.handler()
            async def work_async(lease: Lease[Any]) -> None:
                async with lease.settling(Done({"needed": None})) as session:
                    await session.execute(sa.insert(owners).values(id=1))

        await member.put({})
        await member.bench.drain()
        row = await member.row()
        assert row.state == "dead"
        assert row.error.startswith("value_refused: ")
        assert await member.read(sa.select(owners)) == []


async def test_a_move_that_the_table_refuses(database_url: str) -> None:
    """One open row per title, and another came in meanwhile: the row can't wait, so it is dead, and says why."""

    def declare(mill: Mill) -> Queue[Any]:
        one_open = sa.text("state = 'ready'")
        unique = sa.Index("one_open", "title", unique=True, postgresql_where=one_open, sqlite_where=one_open)
        return mill.queue(jobs(unique))

    async with worker(database_url, declare) as member:

        @member.queue.handler()
        async def work(lease: Lease[Any]) -> RetryLater | None:
            if lease.row.title == "taken":
                await member.put({"title": "taken", "available_at": datetime.now(UTC) + timedelta(hours=1)})
                return RetryLater(0)
            return None

        await member.put({"title": "taken"}, {"title": "free"})
        await member.bench.drain()
        rows = await member.rows()
        assert [(row.title, row.state) for row in rows] == [("taken", "dead"), ("free", "done"), ("taken", "ready")]
        assert rows[0].error.startswith("move_refused: ")


BATCHES: dict[str, tuple[Any, str]] = {
    "too few": ([None], "the batch handler gave 1 answers for 3 rows"),
    "too many": ([None] * 4, "the batch handler gave 4 answers for 3 rows"),
    "a number": (7, "a batch handler returns a list of answers or a mapping by key, not int"),
    "text": ("abc", "a batch handler returns a list of answers or a mapping by key, not str"),
    "another mapping": ({"unknown": None}, "the batch handler gave no answer for this row"),
}


@pytest.mark.parametrize("case", BATCHES)
async def test_a_batch_handler_that_answers_for_other_rows(database_url: str, case: str) -> None:
    answers, message = BATCHES[case]
    async with worker(database_url, strict()) as member:

        @member.queue.batch_handler(size=3)
        async def work(leases: list[Lease[Any]]) -> Any:
            return answers

        await member.put(*({} for _ in range(3)))
        await member.bench.drain()
        for row in await member.rows():
            assert (row.state, row.error) == ("dead", f"bad_answer: {message}")


async def test_one_bad_row_of_a_batch_that_raises_fails_alone(database_url: str) -> None:
    async with worker(database_url, strict()) as member:

        @member.queue.batch_handler(size=5)
        async def work(leases: list[Lease[Any]]) -> None:
            if any(lease.row.title == "bad" for lease in leases):
                raise ValueError("cannot read this")

        await member.put(*({"title": title} for title in ("a", "bad", "c")))
        await member.bench.drain()
        assert [(row.title, row.state) for row in await member.rows()] == [
            ("a", "done"),
            ("bad", "waiting"),
            ("c", "done"),
        ]


async def test_a_trigger_that_rolls_everything_back_takes_no_neighbour_with_it(sqlite_url: str) -> None:
    """SQLite's RAISE(ROLLBACK) undoes the whole transaction, with the outcomes of other rows in it."""
    async with worker(sqlite_url, strict()) as member:
        await member.sql(
            "CREATE TRIGGER undo BEFORE UPDATE ON jobs WHEN NEW.needed = 'bad' "
            "BEGIN SELECT RAISE(ROLLBACK, 'not with me'); END"
        )
        row = (await answered(member, {"bad": {"needed": "bad"}}, batch=True))["bad"]
        assert (row.state, row.needed) == ("dead", "there")
        assert row.error.startswith("value_refused: ")


async def test_the_reason_names_the_constraint_and_not_the_value(database_url: str) -> None:
    async with worker(database_url, strict()) as member:
        row = (await answered(member, {"bad": {"small": 4711}}, batch=False))["bad"]
        assert "small_enough" in row.error
        assert "small" in row.error.split("columns written: ")[1]
        assert "4711" not in row.error


@pytest.mark.parametrize("way", ["returned", "settling"])
async def test_the_log_names_constraint_and_columns_and_not_the_value(database_url: str, way: str) -> None:
    async with worker(database_url, strict()) as member:
        heard: list[dict[str, Any]] = []
        member.bench.mill.observe(lambda name, fields: heard.append(dict(fields)) if name == "settled" else None)

        @member.queue.handler()
        async def work(lease: Lease[Any]) -> Any:
            if way == "returned":
                return {"small": 4711, "short": "abc"}
            async with lease.settling(Done({"small": 4711, "short": "abc"})):
                return None

        await member.put({})
        await member.bench.drain()
        [told] = heard
        assert told["code"] == "value_refused"
        assert "small_enough" in told["reason"]
        assert told["reason"].endswith("columns written: short, small")
        assert "4711" not in str(told)
