"""What is wrong with a declaration is said at declaration: all of it at once, each with its fix."""

import enum
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column, MetaData, Table
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from rowmill import Columns, Mill, Order, OrderPerKey, Retry, Stage, States
from rowmill.errors import DeclarationError
from tests.conformance.fleet import jobs


@pytest.fixture
def mill(sqlite_url: str) -> Mill:
    """A declaration is checked without a database."""
    return Mill(sqlite_url)


def problems(mill: Mill, source: Any, **options: Any) -> tuple[str, ...]:
    with pytest.raises(DeclarationError) as caught:
        mill.queue(source, **options)
    assert all(problem in str(caught.value) for problem in caught.value.problems)
    assert mill.queues == {}
    return caught.value.problems


def test_a_table_without_a_primary_key(mill: Mill) -> None:
    [problem] = problems(mill, jobs(key=[Column("id", sa.Integer)]))
    assert problem == "table jobs has no primary key: a row could not be told from another. Add one"


def test_every_missing_column_is_named_with_the_way_to_add_it(mill: Mill) -> None:
    table = Table("files", MetaData(), Column("id", sa.Integer, primary_key=True), Column("status", sa.Text))
    found = problems(mill, table, columns=Columns(state="status", started_at="began"), order=Order(priority="rank"))
    for name, kind in (
        ("attempts", "integer"),
        ("available_at", "timestamp with time zone"),
        ("lease", "bigint"),
        ("leased_until", "timestamp with time zone"),
        ("error", "text"),
        ("finished_at", "timestamp with time zone"),
    ):
        assert any(f"lacks column {name} ({kind}). Add it with: rowmill adopt files" in problem for problem in found)
    assert any("Columns(started_at=...) names column began" in problem for problem in found)
    assert any("Order(priority=...) names column rank, which table files does not have" in problem for problem in found)
    assert len(found) == 8


def test_something_that_is_neither_a_class_nor_a_table(mill: Mill) -> None:
    for source in (object(), dict, "jobs", None, 5):
        [problem] = problems(mill, source)
        assert "neither an ORM class nor a Table" in problem


def test_a_class_that_is_not_mapped_yet(mill: Mill) -> None:
    class Base(DeclarativeBase):
        pass

    class Mixin:
        id: Mapped[int] = mapped_column(primary_key=True)

    for source in (Base, Mixin):
        [problem] = problems(mill, source)
        assert "neither an ORM class nor a Table" in problem


class Mood(enum.Enum):
    GLAD = "glad"


WORDS: dict[str, tuple[Any, States, str]] = {
    "unknown to the enum": (
        sa.Enum("ready", "running", "done", name="s"),
        States(),
        "column state does not take the word 'dead'. It takes: ready, running, done",
    ),
    "of another enum": (sa.Enum("ready", "running", "done", "dead", name="s"), States(ready=Mood.GLAD), "Mood.GLAD"),
    "too long": (sa.String(4), States(ready="new"), "the word 'running' does not fit column state, which takes 4"),
    "too long as a member": (sa.String(3), States("a", "b", "c", Mood.GLAD), "does not fit column state"),
    "text for numbers": (sa.Integer(), States(0, 1, 2, "dead"), "holds numbers, and the word 'dead' is none"),
    "numbers for text": (sa.Text(), States(ready=1), "holds text, and the word 1 is none"),
    "empty": (sa.Text(), States(ready=""), "a state can't be an empty word"),
    "twice": (sa.Text(), States(ready="x", dead="x"), "the word 'x' means both ready of stage work and dead"),
    "missing": (sa.Text(), States(done=()), "States needs a word for done and one for dead"),
    "none": (sa.Text(), States(ready=None), "stage work needs a word for ready"),  # type: ignore[arg-type]
    "in no literal": (sa.JSON(), States(), "does not take the word"),
    "no words at all": (sa.Text(), States(ready=1.5), "1.5"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", WORDS)
def test_words_that_the_state_column_does_not_take(mill: Mill, case: str) -> None:
    kind, states, expected = WORDS[case]
    found = problems(mill, jobs(Column("state", kind)), states=states)
    assert any(expected in problem for problem in found), found


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no attempts": ({"retry": Retry(attempts=0)}, "Retry(attempts=...) must be 1 or more, not 0"),
    "negative jitter": ({"retry": Retry(jitter=-1)}, "Retry(jitter=...) can't be negative"),
    "no lease": ({"lease": 0}, "a lease of 0 s is too short to be renewed; use 1 s or more"),
    "no time": ({"timeout": 0}, "a timeout must be positive, not 0"),
    "a name for names": ({"order": Order(by="title")}, 'takes a tuple of names, as in ("title",)'),  # type: ignore[arg-type]
    "unknown order": ({"order": Order(by=("nothing",))}, "Order(by=...) names column nothing"),
    "priority of text": ({"order": Order(priority="title")}, "column title (priority) must be a number"),
    "unknown key": ({"order_per_key": OrderPerKey(per="nobody")}, "OrderPerKey(per=...) names column nobody"),
    "order by what may be empty": ({"order_per_key": OrderPerKey(per="title", by=("error",))}, "may be NULL"),
    "a dead head that sleeps": (
        {"order_per_key": OrderPerKey(per="title", on_dead="sleep")},  # type: ignore[arg-type]
        'is "block" or "skip", not \'sleep\'',
    ),
    "an unknown unit": ({"epoch": "hours"}, 'epoch=... is "s" or "ms"'),
    "two stages of one name": (
        {"stages": [Stage("a", "1", "2"), Stage("a", "3", "4")]},
        "two stages are called a: give each its own name",
    ),
    "stages that share a word": (
        {"stages": [Stage("a", "1", "2"), Stage("b", "1", "4")]},
        "the word '1' means both ready of stage a and ready of stage b",
    ),
    "a column twice": (
        {"columns": Columns(error_code="error")},
        "column error is mapped twice, as error and as error_code",
    ),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_that_make_no_sense(mill: Mill, case: str) -> None:
    options, expected = OPTIONS[case]
    found = problems(mill, jobs(), **options)
    assert any(expected in problem for problem in found), found


COLUMNS: dict[str, tuple[Any, str]] = {
    "a lease of text": (Column("lease", sa.Text), "column lease (lease) must be an integer"),
    "a lease that is too small": (Column("lease", sa.Integer), "must be a BigInteger: tokens do not fit"),
    "a lease that is never empty": (Column("lease", sa.BigInteger, nullable=False), "must allow NULL"),
    "attempts of text": (Column("attempts", sa.Text), "column attempts (attempts) must be an integer"),
    "a time of text": (Column("available_at", sa.Text), "must be a DateTime or an epoch number, not Text"),
    "a day for a time": (Column("leased_until", sa.Date), "must be a DateTime or an epoch number"),
    "an error that is a number": (Column("error", sa.Integer), "column error (error) must be text"),
    "an error that is never empty": (Column("error", sa.Text, nullable=False), "must allow NULL"),
    "a state that is computed": (Column("state", sa.Text, sa.Computed("title")), "computed by the database"),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_of_the_wrong_kind(mill: Mill, case: str) -> None:
    column, expected = COLUMNS[case]
    found = problems(mill, jobs(column._copy()))
    assert any(expected in problem for problem in found), found


def test_milliseconds_do_not_fit_an_integer(mill: Mill) -> None:
    [problem] = problems(mill, jobs(Column("available_at", sa.Integer)), epoch="ms")
    assert "column available_at (available_at) must be a BigInteger: milliseconds do not fit" in problem


def test_all_problems_of_all_kinds_at_once(mill: Mill) -> None:
    table = jobs(Column("lease", sa.Text), key=[Column("id", sa.Integer)])
    found = problems(mill, table, states=States(ready=""), retry=Retry(attempts=0), order=Order(by=("x", "y")))
    assert len(found) == 6


def test_a_declaration_that_failed_leaves_nothing_behind(mill: Mill) -> None:
    """The corrected one of the same name works, and has the words of the second."""
    problems(mill, jobs(), retry=Retry(attempts=0))
    queue = mill.queue(jobs(), states=States(ready="queued"))
    assert "'queued'" in mill.store.sql(queue).is_in(queue.step().claimable)


def test_one_table_twice(mill: Mill) -> None:
    table = jobs()
    mill.queue(table)
    for again in (table, jobs(), jobs(schema="main")):
        with pytest.raises(DeclarationError, match="declared already, as queue jobs: one set of words per table"):
            mill.queue(again, name="other")
    with pytest.raises(DeclarationError, match="a queue of that name already"):
        mill.queue(jobs(name="more"), name="jobs")


def test_handlers_are_checked_too(mill: Mill) -> None:
    queue = mill.queue(jobs(), stages=[Stage("a", "1", "2"), Stage("b", "3", "4")])
    with pytest.raises(DeclarationError) as caught:
        queue.batch_handler(size=0, concurrency=0)(lambda leases: None)
    assert caught.value.problems == (
        "concurrency must be 1 or more, not 0",
        "a batch must hold 1 row or more, not 0",
        "say which stage: a, b",
    )
    with pytest.raises(DeclarationError, match="has no stage c; it has: a, b"):
        queue.handler(stage="c")(lambda lease: None)


def test_a_second_handler_does_not_replace_the_first(mill: Mill) -> None:
    queue = mill.queue(jobs())

    @queue.handler()
    async def first(lease: Any) -> None: ...

    with pytest.raises(DeclarationError, match=r"stage work has a handler already, .*first: a stage has one"):

        @queue.handler()
        async def second(lease: Any) -> None: ...

    queue.handler()(first)


def test_an_unknown_option_is_not_swallowed(mill: Mill) -> None:
    with pytest.raises(TypeError, match="retries"):
        mill.queue(jobs(), retries=3)  # type: ignore[call-overload]
