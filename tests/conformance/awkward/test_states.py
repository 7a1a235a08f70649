"""States as enum types, as codes, under a CHECK."""

import enum
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column
from sqlalchemy.dialects import postgresql

from rowmill import Dead, Mill, Queue, Stage, States
from rowmill.errors import DeclarationError
from rowmill.operator import change as operate
from rowmill.operator import counts, why
from rowmill.operator.filters import Filter
from tests.conformance.awkward.lifecycle import live
from tests.conformance.fleet import Member, jobs, worker

ROWS: list[dict[str, Any]] = [{"title": str(n)} for n in range(4)]


class Status(enum.Enum):
    WAITING_ROOM = "waiting room"
    WORKING = "working"
    OVER = "over"
    LOST = "lost"


class Code(enum.IntEnum):
    NEW = 0
    BUSY = 10
    GOOD = 20
    BAD = -1


MEMBERS = States(ready=Status.WAITING_ROOM, running=Status.WORKING, done=Status.OVER, dead=Status.LOST)
NAMES = States(ready="WAITING_ROOM", running="WORKING", done="OVER", dead="LOST")
VALUES = States(ready="waiting room", running="working", done="over", dead="lost")
CODES = States(ready=0, running=10, done=20, dead=-1)


class Small(sa.types.TypeDecorator[Status]):
    """A class of ours, stored as a letter."""

    impl = sa.CHAR(1)
    cache_ok = True

    def process_bind_param(self, value: Status | None, dialect: Any) -> str | None:
        return None if value is None else value.name[0]

    def process_result_value(self, value: str | None, dialect: Any) -> Status | None:
        return None if value is None else {"W": Status.WAITING_ROOM, "O": Status.OVER, "L": Status.LOST}[value]


def by_value(kind: type[enum.Enum]) -> list[str]:
    return [item.value for item in kind]


CASES: dict[str, tuple[Any, States]] = {
    "enum class": (sa.Enum(Status, name="status"), MEMBERS),
    "enum class by value": (sa.Enum(Status, name="status", values_callable=by_value), MEMBERS),
    "enum of text": (sa.Enum("waiting room", "working", "over", "lost", name="status"), VALUES),
    "enum without a type": (sa.Enum(Status, native_enum=False, create_constraint=True, name="status"), MEMBERS),
    "text with members": (sa.String(20), MEMBERS),
    "codes": (sa.SmallInteger(), CODES),
    "codes with members": (sa.Integer(), States(ready=Code.NEW, running=Code.BUSY, done=Code.GOOD, dead=Code.BAD)),
    "quotes": (sa.Text(), States(ready="it's", running='"run"', done="100 %", dead="a:b $1 \\ {}")),
    "unicode": (sa.Text(), States(ready="wartet", running="läuft", done="完了", dead="🪦")),
}


@pytest.mark.parametrize("case", CASES)
async def test_states_of_every_kind(database_url: str, case: str) -> None:
    kind, states = CASES[case]

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column("state", kind, nullable=False)), states=states)

    async with worker(database_url, declare) as member:
        await live(member, list(ROWS))


async def test_states_that_are_padded(pg_url: str) -> None:
    """In a CHAR(12), which PostgreSQL fills up with blanks."""

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column("state", sa.CHAR(12), nullable=False)))

    async with worker(pg_url, declare) as member:
        await member.put(ROWS[0])
        [lease] = await member.claim()
        assert (await member.settle((lease, None))).kept == 1
        assert (await member.row()).state == "done".ljust(12)


async def test_operators_understand_states_that_are_padded(pg_url: str) -> None:
    """A dead row resumes at the stage that failed, and not at the first, whose work is done."""

    def declare(mill: Mill) -> Queue[Any]:
        stages = [Stage("first", "new", "busy"), Stage("second", "half", "busier")]
        return mill.queue(jobs(Column("state", sa.CHAR(12), nullable=False)), stages=stages)

    async with worker(pg_url, declare) as member:
        sql = member.store.sql(member.queue)
        await member.put(ROWS[0])
        await member.settle(*((lease, None) for lease in await member.claim(stage="first")))
        await member.settle(*((lease, Dead("bad")) for lease in await member.claim(stage="second")))
        found = await member.mill.run(lambda connection: counts.counts(connection, sql))
        assert {count.word: count.rows for count in found if count.rows} == {"dead": 1}
        row, [hold] = await member.mill.run(lambda connection: why.why(connection, sql, "1"))
        assert (row.state, row.kind, hold.reason) == ("dead", "dead", why.Obstacle.DEAD)
        assert (await operate.requeue(member.store, member.queue, Filter())).rows == 1
        assert len(await member.claim(stage="second")) == 1


async def test_a_named_type_of_another_schema(pg_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        kind = postgresql.ENUM("waiting room", "working", "over", "lost", name="My Status", schema="Kinds")
        return mill.queue(jobs(Column("state", kind, nullable=False)), states=VALUES)

    mill = Mill(pg_url)
    await mill.run(lambda connection: connection.execute(sa.schema.CreateSchema("Kinds")).close())
    async with worker(pg_url, declare) as member:
        await live(member, list(ROWS))


async def test_names_of_an_enum_may_be_given_as_text(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column("state", sa.Enum(Status, name="status"), nullable=False)), states=NAMES)

    async with worker(database_url, declare) as member:
        await member.put({"title": "a"})
        [lease] = await member.claim()
        assert lease.row.state is Status.WORKING
        assert (await member.settle((lease, None))).kept == 1
        assert (await member.row()).state is Status.OVER


async def test_a_state_behind_a_type_of_the_user(database_url: str) -> None:
    """Its words are given as the type takes them. Two that are stored alike are two meanings of one word."""

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column("state", Small(), nullable=False)), states=MEMBERS)

    with pytest.raises(DeclarationError, match="are both stored as 'W', and mean ready of stage work and running"):
        declare(Mill(database_url))


async def test_a_check_on_the_state(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        check = sa.CheckConstraint("state IN ('waiting room', 'working', 'over', 'lost')", name="known_state")
        return mill.queue(jobs(check), states=VALUES)

    async with worker(database_url, declare) as member:
        await live(member, list(ROWS))


async def test_two_words_for_in_progress_and_for_done(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        states = States(ready=("new", "queued"), running=("working", "in progress"), done=("done", "complete"))
        return mill.queue(jobs(), states=states)

    async with worker(database_url, declare) as member:
        await member.put(*({"state": state} for state in ("new", "queued", "in progress", "complete")))
        assert len(await member.claim(10)) == 2
        assert [row.state for row in await member.rows()] == ["working", "working", "in progress", "complete"]


async def test_a_trigger_that_watches_the_state_sees_every_change(database_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(), stages=[Stage("one", "one", "one running"), Stage("two", "two", "two running")])

    async with worker(database_url, declare) as member:
        await member.sql("CREATE TABLE seen (was text, becomes text)")
        if member.postgres:
            await member.sql(
                "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "INSERT INTO seen VALUES (OLD.state, NEW.state); RETURN NEW; END $$"
            )
            await member.sql("CREATE TRIGGER see BEFORE UPDATE OF state ON jobs FOR EACH ROW EXECUTE FUNCTION see()")
        else:
            await member.sql(
                "CREATE TRIGGER see AFTER UPDATE OF state ON jobs BEGIN "
                "INSERT INTO seen VALUES (OLD.state, NEW.state); END"
            )
        for step in member.queue.steps:
            member.queue.handler(stage=step.name)(_nothing)
        await member.put({"title": "a"})
        await member.bench.drain()
        seen = await member.read(sa.select(sa.text("was, becomes FROM seen")))
        assert [tuple(change) for change in seen] == [
            ("one", "one running"),
            ("one running", "two"),
            ("two", "two running"),
            ("two running", "done"),
        ]


async def _nothing(lease: Any) -> None:
    pass


async def forbid(member: Member, state: str) -> None:
    """A trigger lets the row with title 3 not come into this state."""
    if member.postgres:
        await member.sql(
            "CREATE FUNCTION forbid() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF NEW.state = '{state}' AND NEW.title = '3' THEN RAISE EXCEPTION 'not this one'; END IF; "
            "RETURN NEW; END $$"
        )
        await member.sql("CREATE TRIGGER forbid BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION forbid()")
    else:
        await member.sql(
            f"CREATE TRIGGER forbid BEFORE UPDATE ON jobs WHEN NEW.state = '{state}' AND NEW.title = '3' "
            "BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        )


async def test_a_trigger_that_forbids_a_requeue_stops_only_that_row(database_url: str) -> None:
    async with worker(database_url, lambda mill: mill.queue(jobs())) as member:
        await member.put(*({"title": str(n), "state": "dead"} for n in range(6)))
        await forbid(member, "ready")
        assert await operate.requeue(member.store, member.queue, Filter()) == operate.ChangeResult(rows=5, refused=1)
        assert [row.state for row in await member.rows()] == ["ready"] * 3 + ["dead"] + ["ready"] * 2


async def test_a_trigger_that_forbids_a_move_stops_only_that_row(database_url: str) -> None:
    """The row that may not be done fails with a code; the rest of its batch goes on."""

    def declare(mill: Mill) -> Queue[Any]:
        queue = mill.queue(jobs(Column("result", sa.Text)))

        @queue.batch_handler(size=10)
        async def work(leases: list[Any]) -> list[Any]:
            return [{"result": lease.row.title} for lease in leases]

        return queue

    async with worker(database_url, declare) as member:
        await forbid(member, "done")
        await member.put(*({"title": str(n)} for n in range(6)))
        report = await member.bench.drain()
        rows = {row.title: row for row in await member.rows()}
        assert rows["3"].state == "dead"
        assert rows["3"].error.startswith("value_refused: ")
        assert {row.state for title, row in rows.items() if title != "3"} == {"done"}
        assert (report.done, report.refused) == (5, 1)
