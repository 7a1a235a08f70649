"""Rows that can't be read: each fails alone, with a code; nobody else is held up, and no worker dies of it."""

import enum
import uuid
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column

from rowmill import Lease, Mill, Queue
from tests.conformance.fleet import Member, jobs, worker


class Mood(enum.Enum):
    GLAD = "glad"


def rich(mill: Mill) -> Queue[Any]:
    return mill.queue(
        jobs(
            Column("data", sa.JSON),
            Column("moment", sa.DateTime),
            Column("day", sa.Date),
            Column("token", sa.Uuid),
            Column("mood", sa.Enum(Mood, native_enum=False, length=20)),
            Column("note", sa.Text),
            Column("result", sa.Text),
            Column("amount", sa.Numeric(10, 2, asdecimal=False)),
        )
    )


def reading(queue: Queue[Any], *, batch: bool = False) -> None:
    """A handler that looks at its row, as handlers do."""
    if batch:

        @queue.batch_handler(size=10)
        async def work(leases: list[Lease[Any]]) -> list[Any]:
            return [{"result": f"read {lease.row.title}"} for lease in leases]

    else:

        @queue.handler()
        async def work_one(lease: Lease[Any]) -> Any:
            return {"result": f"read {lease.row.title}"}


async def raw(member: Member) -> list[Any]:
    """Rows as far as they can be read."""
    names: list[Any] = [sa.literal_column(name) for name in ("title", "state", "result", "error", "attempts", "id")]
    return await member.read(sa.select(*names).select_from(sa.text("jobs")).order_by(sa.literal_column("id")))


async def good_and_bad(member: Member, column: str, value: str) -> Any:
    """A bad row between two good ones; answers what became of it."""
    for title, given in (("good 1", "NULL"), ("bad", value), ("good 2", "NULL")):
        await member.sql(f"INSERT INTO jobs (title, state, {column}) VALUES ('{title}', 'ready', {given})")
    report = await member.bench.drain()
    first, bad, second = await raw(member)
    for good in (first, second):
        assert (good.state, good.result, good.attempts) == ("done", f"read {good.title}", 1)
    assert report.lost == 0
    return bad


SQLITE = {
    "broken json": ("data", "'{broken'"),
    "a blob for json": ("data", "x'ff'"),
    "no time": ("moment", "'yesterday'"),
    "no day": ("day", "'2024-13-99'"),
    "no uuid": ("token", "'nonsense'"),
    "no mood": ("mood", "'furious'"),
    "a number for a uuid": ("token", "7"),
}
POSTGRES = {
    "no mood": ("mood", "'furious'"),
    "a number that Python does not read": ("data", f"'{'9' * 5000}'"),
    "json that is too deep": ("data", f"'{'[' * 6000}{']' * 6000}'"),
}


@pytest.mark.parametrize("batch", [False, True], ids=["one", "batch"])
@pytest.mark.parametrize("case", SQLITE)
async def test_a_row_of_sqlite_that_can_t_be_read_fails_alone(sqlite_url: str, case: str, batch: bool) -> None:
    column, value = SQLITE[case]
    async with worker(sqlite_url, rich) as member:
        reading(member.queue, batch=batch)
        bad = await good_and_bad(member, column, value)
        assert (bad.state, bad.attempts) == ("dead", 1)
        assert bad.error.startswith(f"unreadable: column {column} can't be read as ")


@pytest.mark.parametrize("case", POSTGRES)
async def test_a_row_of_postgres_that_can_t_be_read_fails_alone(pg_url: str, case: str) -> None:
    column, value = POSTGRES[case]
    async with worker(pg_url, rich) as member:
        reading(member.queue)
        bad = await good_and_bad(member, column, value)
        assert (bad.state, bad.attempts) == ("dead", 1)
        assert bad.error.startswith(f"unreadable: column {column} can't be read as ")


BEYOND = {
    "a time after Python's last year": ("moment", "'20000-01-01'"),
    "a time before Christ": ("moment", "'0044-03-15 BC'"),
    "a day after Python's last year": ("day", "'20000-01-01'"),
}


@pytest.mark.parametrize("case", BEYOND)
async def test_a_value_that_the_driver_can_t_read_fails_its_row_alone(pg_url: str, case: str) -> None:
    """The driver fails on the whole answer of a claim, rows of others and all."""
    column, value = BEYOND[case]
    async with worker(pg_url, rich) as member:
        reading(member.queue)
        heard: list[Any] = []
        member.mill.observe(lambda event, fields: heard.append((event, fields.get("key"), fields.get("code"))))
        bad = await good_and_bad(member, column, value)
        assert (bad.state, bad.attempts) == ("dead", 1)
        assert bad.error.startswith("unreadable: ")
        assert ("settled", str(bad.id), "unreadable") in heard
        [entry] = await member.own("attempt")
        assert (entry.key, entry.code) == (str(bad.id), "unreadable")


async def test_text_that_is_no_text_fails_its_row_alone(sqlite_url: str) -> None:
    """Bytes that are not UTF-8, in a column of text."""
    async with worker(sqlite_url, rich) as member:
        reading(member.queue)
        bad = await good_and_bad(member, "note", "CAST(x'ff00fe' AS TEXT)")
        assert (bad.state, bad.attempts) == ("dead", 1)
        assert bad.error.startswith("unreadable: column note can't be read as Text")


async def test_a_handler_that_does_not_look_at_its_row_is_not_bothered(sqlite_url: str) -> None:
    async with worker(sqlite_url, rich) as member:

        @member.queue.handler()
        async def work(lease: Lease[Any]) -> None:
            pass

        await member.sql("INSERT INTO jobs (title, state, data) VALUES ('bad', 'ready', '{broken')")
        await member.bench.drain()
        [bad] = await raw(member)
        assert bad.state == "done"


async def test_a_key_that_can_t_be_read(sqlite_url: str) -> None:
    """The row is settled by its key as the database has it."""

    def declare(mill: Mill) -> Queue[Any]:
        key = [Column("id", sa.Uuid, primary_key=True), Column("day", sa.Date, primary_key=True)]
        queue = mill.queue(jobs(Column("result", sa.Text), key=key))
        reading(queue)
        return queue

    async with worker(sqlite_url, declare) as member:
        good = uuid.UUID(int=5).hex
        for title, key, day in (
            ("good", good, "2024-01-01"),
            ("bad", "nonsense", "2024-01-01"),
            ("bad", good, "never"),
        ):
            await member.sql(f"INSERT INTO jobs (title, state, id, day) VALUES ('{title}', 'ready', '{key}', '{day}')")
        await member.bench.drain()
        names: list[Any] = [sa.literal_column(name) for name in ("title", "state", "error")]
        rows = await member.read(sa.select(*names).select_from(sa.text("jobs")).order_by(sa.text("title, id")))
        assert [(row.title, row.state) for row in rows] == [("bad", "dead"), ("bad", "dead"), ("good", "done")]
        assert {row.error.partition(":")[0] for row in rows if row.error} == {"unreadable"}


async def test_a_crashed_row_whose_key_can_t_be_read_is_rescued(sqlite_url: str) -> None:
    def declare(mill: Mill) -> Queue[Any]:
        return mill.queue(jobs(key=[Column("id", sa.Uuid, primary_key=True)]))

    async with worker(sqlite_url, declare) as member:
        await member.sql("INSERT INTO jobs (state, id) VALUES ('ready', 'nonsense')")
        await member.claim()
        await member.expire()
        assert (await member.rescue()).returned == 1
        [entry] = await member.own("attempt")
        assert entry.key == "nonsense"
