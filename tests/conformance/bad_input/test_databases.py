"""A database that is not there, may not be written, or is not as declared: a clear error with the fix."""

import asyncio
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Column
from sqlalchemy.engine import make_url

from rowmill import Lease, Mill, Order, Queue, RowmillError
from rowmill.errors import DatabaseUnreachable, DeclarationError
from rowmill.store.sqlite import writer
from rowmill.testing import QUICK
from tests.conformance.fleet import jobs, worker

pytestmark = pytest.mark.empty_database

CUT_OFF = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name LIKE 'rowmill %' AND datname = current_database()"
)


def plain(mill: Mill) -> Queue[Any]:
    queue = mill.queue(jobs())

    @queue.handler()
    async def work(lease: Lease[Any]) -> None:
        pass

    return queue


def mill_at(url: str) -> Mill:
    mill = Mill(url)
    plain(mill)
    return mill


def test_a_url_that_is_none() -> None:
    for url in ("nonsense", "my.db"):
        with pytest.raises(DatabaseUnreachable, match=r"Write sqlite:///file\.db or postgresql://"):
            Mill(url)


def test_another_database() -> None:
    with pytest.raises(DatabaseUnreachable, match="works on PostgreSQL and SQLite, not on mysql"):
        Mill("mysql://root@localhost/db")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file::memory:?uri=true"])
def test_a_database_in_memory(url: str) -> None:
    """Each connection would have one of its own, and a worker has several."""
    with pytest.raises(DatabaseUnreachable, match=r"in memory.*Use a file: sqlite:///file\.db"):
        Mill(url)


async def test_no_server_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mill = mill_at(f"postgresql://me:secret@127.0.0.1:{port}/db")
    for attempt in (mill.drain, mill.migrate, lambda: mill.queues["jobs"].load([{"title": "a"}])):
        with pytest.raises(
            DatabaseUnreachable, match=r"does not answer.*Is it running, and is DATABASE_URL right"
        ) as caught:
            await attempt()
        assert "secret" not in str(caught.value)


async def test_no_such_database(pg_url: str) -> None:
    mill = mill_at(make_url(pg_url).set(database="nowhere").render_as_string(hide_password=False))
    with pytest.raises(DatabaseUnreachable, match='database "nowhere" does not exist'):
        await mill.drain()


async def test_no_such_user(pg_url: str) -> None:
    mill = mill_at(make_url(pg_url).set(username="nobody_here").render_as_string(hide_password=False))
    with pytest.raises(DatabaseUnreachable, match="nobody_here"):
        await mill.drain()


async def test_no_such_folder(tmp_path: Path) -> None:
    mill = mill_at(f"sqlite:///{tmp_path}/missing/jobs.db")
    with pytest.raises(DatabaseUnreachable, match=r"can't be opened.*Does its folder exist, and may we write there"):
        await mill.drain()


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, and no database at all\n" * 50)
    mill = mill_at(f"sqlite:///{path}")
    with pytest.raises(DatabaseUnreachable, match="file is not a database"):
        await mill.migrate()
    assert path.read_text().startswith("these are my notes")


async def test_a_new_file_to_which_somebody_writes_just_now(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes start at once: SQLite gives up at once, and does not wait as it does elsewhere."""
    path = make_url(sqlite_url).database
    with closing(sqlite3.connect(str(path), isolation_level=None, check_same_thread=False)) as other:
        other.execute("CREATE TABLE theirs (id INTEGER)")
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr(writer, "sleep", lambda seconds: other.execute("COMMIT"))
        await mill_at(sqlite_url).migrate(tables=True)
        assert other.execute("SELECT count(*) FROM jobs").fetchone() == (0,)


async def test_a_database_that_may_only_be_read(database_url: str) -> None:
    async with worker(database_url, plain) as member:
        await member.put({})
        if member.postgres:
            await member.sql(f"ALTER DATABASE {member.mill.url.database} SET default_transaction_read_only = on")
    if database_url.startswith("sqlite"):
        url = database_url.replace("sqlite:///", "sqlite:///file:") + "?mode=ro&uri=true"
    else:
        url = database_url
    mill = mill_at(url)
    for attempt in (mill.drain, lambda: mill.queues["jobs"].load([{"title": "a"}])):
        with pytest.raises(DatabaseUnreachable, match=r"(?i)read-?only"):
            await attempt()


async def test_a_database_that_becomes_read_only_is_waited_for(pg_url: str) -> None:
    """As a server does that has lost its place to another: the worker goes on when it may write again."""
    async with worker(pg_url, lambda mill: mill.queue(jobs())) as member:
        seen = asyncio.Event()

        @member.queue.handler()
        async def work(lease: Lease[Any]) -> None:
            seen.set()

        async with member.mill.worker(settings=QUICK) as running:
            task = asyncio.create_task(running.run())
            name = member.mill.url.database
            await member.put({"title": "before"})
            await seen.wait()
            seen.clear()
            await member.sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
            await member.sql(CUT_OFF)
            await asyncio.sleep(0.3)
            assert not task.done()
            async with member.store.engine.connect() as other:
                await other.exec_driver_sql("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
                await other.commit()
                await other.exec_driver_sql(f"ALTER DATABASE {name} SET default_transaction_read_only = off")
                await other.exec_driver_sql("INSERT INTO jobs (title, state) VALUES ('after', 'ready')")
                await other.commit()
                await other.exec_driver_sql(CUT_OFF)
                await other.commit()
            async with asyncio.timeout(60):
                await seen.wait()
            running.stop()
            await task


async def test_a_table_that_is_not_there(database_url: str) -> None:
    mill = mill_at(database_url)
    await mill.migrate()
    with pytest.raises(DeclarationError, match=r"there is no table jobs in the database\. Create it, or look whether"):
        await mill.drain()


async def test_columns_that_are_declared_but_not_there(database_url: str) -> None:
    """The class has them, the migration was forgotten: every one is named before anything is claimed."""
    async with worker(database_url, plain) as member:
        await member.put({"title": "a"})

    mill = Mill(database_url)
    table = jobs(Column("rank", sa.Integer), Column("result", sa.Text))
    mill.queue(table, order=Order(priority="rank")).handler()(_nothing)
    with pytest.raises(DeclarationError) as caught:
        await mill.drain()
    assert [problem.partition(".")[0] for problem in caught.value.problems] == [
        "table jobs lacks column rank in the database",
        "table jobs lacks column result in the database",
    ]
    assert [problem.partition(". ")[2] for problem in caught.value.problems] == [
        "Add it with a migration of yours, as: ALTER TABLE jobs ADD COLUMN rank INTEGER",
        "Add it with a migration of yours, as: ALTER TABLE jobs ADD COLUMN result TEXT",
    ]
    async with worker(database_url, plain) as member:
        assert (await member.row()).state == "ready"


async def _nothing(lease: Lease[Any]) -> None:
    pass


async def test_a_priority_that_may_be_empty_where_none_is_declared(database_url: str) -> None:
    """Priorities are looked for one after the other, and there is nothing after NULL: a row would stop the queue."""

    def ranked(*, nullable: bool) -> Mill:
        mill = Mill(database_url)
        table = jobs(Column("rank", sa.Integer, nullable=nullable))
        mill.queue(table, order=Order(priority="rank")).handler()(_nothing)
        return mill

    there = ranked(nullable=True)
    await there.migrate(tables=True)
    await there.run(
        lambda connection: connection.execute(
            there["jobs"].insert([{"title": "a", "rank": 1}, {"title": "b", "rank": None}])
        ).close()
    )
    with pytest.raises(DeclarationError, match=r"column rank \(priority\) may be NULL in the database and is declared"):
        await ranked(nullable=False).drain()
    assert (await there.drain()).done == 2


async def test_more_columns_than_are_declared_are_nobody_s_concern(database_url: str) -> None:
    async with worker(database_url, lambda mill: mill.queue(jobs(Column("more", sa.Text)))) as member:
        await member.put({"title": "a"})
        assert (await mill_at(database_url).drain()).done == 1


async def test_a_word_that_the_table_refuses_is_named_at_the_claim(database_url: str) -> None:
    """A CHECK that does not know the word for running: no row could ever be claimed."""

    def declare(mill: Mill) -> Queue[Any]:
        queue = mill.queue(jobs(sa.CheckConstraint("state IN ('ready', 'done', 'dead')", name="known_state")))
        queue.handler()(_nothing)
        return queue

    async with worker(database_url, declare) as member:
        await member.put(*({"title": "a"} for _ in range(20)))
        with pytest.raises(RowmillError, match=r"'running'.*known_state"):
            await member.bench.drain()
        assert {row.state for row in await member.rows()} == {"ready"}


async def test_an_unknown_queue(database_url: str) -> None:
    with pytest.raises(RowmillError, match=r"this mill has no queue nothing\. It has: jobs"):
        await mill_at(database_url).drain(["nothing"])


QUERIES = [
    "sslmode=prefer",
    "sslmode=disable&channel_binding=prefer",
    "ssl=prefer",
    "application_name=mine&connect_timeout=5",
    "options=-c%20search_path%3Dpublic",
    "statement_cache_size=0&prepared_statement_cache_size=0",
]


@pytest.mark.parametrize("query", QUERIES)
async def test_options_of_libpq_in_the_url(pg_url: str, query: str) -> None:
    """As hosting services hand them out: each driver gets what it understands."""
    mill = mill_at(f"{pg_url}?{query}")
    await mill.migrate(tables=True)
    await mill.queues["jobs"].load([{"title": "a"}])
    assert (await mill.drain()).done == 1
    with mill.store.sync_engine.connect() as connection:
        assert connection.scalar(sa.text("SELECT 1")) == 1
    mill.store.sync_engine.dispose()
