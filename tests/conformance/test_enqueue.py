"""To enqueue is to INSERT, by whatever means."""

import enum
import sqlite3
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import Column
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from rowmill import Mill, Queue, QueueMixin
from tests.conformance.fleet import Member, fleet, jobs, worker


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


def plain(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs(sa.UniqueConstraint("title")))


def rich(mill: Mill) -> Queue[Any]:
    """A table whose rows need more than text."""
    return mill.queue(
        jobs(
            Column("colour", sa.Enum(Colour)),
            Column("payload", sa.JSON),
            Column("token", sa.Uuid),
            Column("amount", sa.Float),
            Column("data", sa.LargeBinary),
            Column("flag", sa.Boolean),
            Column("due", sa.Date),
        )
    )


async def titles(member: Member) -> list[str]:
    """Claim everything; answers the titles, in the order of the claim."""
    return [lease.row.title for lease in await member.claim(1000)]


async def test_session_add_enqueues(database_url: str) -> None:
    class Base(DeclarativeBase):
        pass

    class Job(QueueMixin, Base):
        __tablename__ = "jobs"
        id: Mapped[int] = mapped_column(primary_key=True)
        title: Mapped[str]

    async with worker(database_url, lambda mill: mill.queue(Job)) as member:
        async with AsyncSession(member.store.engine) as session, session.begin():
            session.add(Job(title="async"))
            await session.flush()
        with Session(member.store.sync_engine) as sync, sync.begin():
            sync.add(Job(title="sync"))
        assert sorted(await titles(member)) == ["async", "sync"]


async def test_a_rolled_back_insert_enqueues_nothing(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        with Session(member.store.sync_engine) as session:
            session.execute(member.queue.insert({"title": "never"}))
            session.rollback()
        assert await titles(member) == []


async def test_core_insert_enqueues(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        insert = sa.insert(member.queue.table).values(title="core", state="ready")
        await member.mill.run(lambda connection: connection.execute(insert).close())
        assert await titles(member) == ["core"]


async def test_plain_sql_of_another_program_enqueues(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        insert = "INSERT INTO jobs (title, state) VALUES ('plain', 'ready')"
        if member.postgres:
            with psycopg.connect(database_url) as connection:
                connection.execute(insert)
        else:
            path = make_url(database_url).database
            assert path is not None
            with sqlite3.connect(path) as file:
                file.execute(insert)
            file.close()
        assert await titles(member) == ["plain"]


async def test_insert_builds_a_statement_for_any_session(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        with Session(member.store.sync_engine) as session, session.begin():
            session.execute(member.queue.insert([{"title": "a"}, {"title": "b"}]))
        async with member.store.engine.begin() as connection:
            await connection.execute(member.queue.insert({"title": "c"}))
        assert await titles(member) == ["a", "b", "c"]


async def test_insert_leaves_out_what_is_there_already(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({"title": "a"})
        again = member.queue.insert([{"title": "a"}, {"title": "b"}], unique=["title"])
        await member.mill.run(lambda connection: connection.execute(again).close())
        assert await titles(member) == ["a", "b"]


async def test_insert_leaves_out_what_is_open_already(database_url: str) -> None:
    """One open row per title: the index that says so covers only rows in some states."""

    def declare(mill: Mill) -> Queue[Any]:
        open_rows = sa.text("state IN ('ready', 'running')")
        index = sa.Index("one_open", "title", unique=True, postgresql_where=open_rows, sqlite_where=open_rows)
        return mill.queue(jobs(index))

    async with worker(database_url, declare) as member:

        async def enqueue(*names: str) -> int:
            insert = member.queue.insert([{"title": name} for name in names], unique=["title"])
            return await member.mill.run(lambda connection: connection.execute(insert).rowcount)

        assert await enqueue("a", "b") == 2
        assert await enqueue("a", "c") == 1
        leases = await member.claim(10)
        assert await enqueue("a", "b", "c") == 0
        await member.settle(*((lease, None) for lease in leases))
        assert await enqueue("a", "b") == 2
        with pytest.raises(KeyError, match="jobs has no column nmae"):
            member.queue.insert({"title": "a"}, unique=["nmae"])


async def test_insert_keeps_a_state_that_is_given(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({"title": "a", "state": "done"})
        assert await titles(member) == []


async def test_insert_names_a_column_that_is_not_there(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        with pytest.raises(KeyError, match="jobs has no column titel"):
            member.queue.insert({"titel": "a"})


async def test_insert_takes_rows_of_different_shapes(database_url: str) -> None:
    """None of what they say is dropped. What can't be in one INSERT is refused."""

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column("kind", sa.Text, nullable=False, server_default="usual")))

    async with worker(database_url, declare) as member:
        with pytest.raises(ValueError, match="some rows name column kind"):
            member.queue.insert([{"title": "a"}, {"title": "b", "kind": "special"}])
        await member.put({"title": "a"}, {"error": "kept"})
        assert [(row.kind, row.title, row.error) for row in await member.rows()] == [
            ("usual", "a", None),
            ("usual", None, "kept"),
        ]


RICH: dict[str, Any] = {
    "title": "full",
    "colour": Colour.GREEN,
    "payload": {"deep": [1, None, "ü"]},
    "token": uuid.UUID(int=7),
    "amount": 1.5,
    "data": b"\x00\xff",
    "flag": True,
    "due": datetime(2024, 5, 6, tzinfo=UTC).date(),
}
NOTHING = dict.fromkeys(RICH) | {"title": "empty"}


async def test_load_takes_every_type_and_null(database_url: str) -> None:
    async with worker(database_url, rich) as member:
        assert await member.queue.load([RICH, NOTHING]) == 2
        full, empty = await member.claim(2)
        assert {name: full.row[name] for name in RICH} == RICH
        assert {name: empty.row[name] for name in RICH} == NOTHING


async def test_load_takes_rows_of_different_shapes(database_url: str) -> None:
    """A column that a row leaves out gets the table's default, not NULL."""

    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(Column("kind", sa.Text, nullable=False, server_default="usual")))

    async with worker(database_url, declare) as member:
        assert await member.queue.load([{"title": "a"}, {"title": "b", "kind": "special"}, {"title": "c"}]) == 3
        assert [(row.title, row.kind) for row in await member.rows("title")] == [
            ("a", "usual"),
            ("b", "special"),
            ("c", "usual"),
        ]


async def test_load_makes_the_defaults_of_the_class(database_url: str) -> None:
    """Keys that the application makes (uuid4 and the like) are made for loaded rows too."""

    def declare(mill: Mill) -> Queue[Any]:
        key = Column("id", sa.Uuid, primary_key=True, default=uuid.uuid4)
        return mill.queue(jobs(Column("kind", sa.Text, nullable=False, default="usual"), key=[key]))

    async with worker(database_url, declare) as member:
        assert await member.queue.load([{"title": "a"}, {"title": "b"}]) == 2
        rows = await member.rows()
        assert len({row.id for row in rows}) == 2
        assert [row.kind for row in rows] == ["usual", "usual"]


async def test_load_reads_its_rows_as_it_goes(database_url: str) -> None:
    async with worker(database_url, plain) as member:

        def rows() -> Iterator[dict[str, str]]:
            yield from ({"title": str(n)} for n in range(25))

        assert await member.queue.load(rows(), batch=10) == 25
        assert len(await member.claim(100)) == 25


async def test_a_value_that_can_not_be_written_keeps_its_batch_out(database_url: str) -> None:
    """Values are turned into the database's while it takes those before them."""
    async with worker(database_url, rich) as member:
        rows: list[dict[str, Any]] = [{"payload": {"n": n}} for n in range(25)]
        rows[17]["payload"] = {"n": object()}
        with pytest.raises(TypeError, match="not JSON serializable"):
            await member.queue.load(rows, batch=10)
        assert [row.payload["n"] for row in await member.rows()] == list(range(10))
        assert await member.queue.load(rows[20:]) == 5


async def test_two_loads_at_once(database_url: str) -> None:
    import asyncio

    async with fleet(database_url, plain, size=1) as [member]:
        loads = [member.queue.load([{"title": f"{part}-{n}"} for n in range(500)], batch=50) for part in range(4)]
        assert await asyncio.gather(*loads) == [500] * 4
        assert len(await member.claim(5000)) == 2000


async def test_load_wakes_nobody_and_loses_nothing_when_a_row_is_refused(database_url: str) -> None:
    """The batch with the bad row is not there; the batches before it are."""
    async with worker(database_url, plain) as member:
        rows = [{"title": str(n)} for n in range(15)] + [{"title": "3"}]
        with pytest.raises(Exception, match=r"(?i)unique"):
            await member.queue.load(rows, batch=10)
        assert len(await member.claim(100)) == 10
