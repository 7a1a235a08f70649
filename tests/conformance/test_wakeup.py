"""Wake-up: an idle worker hears of new rows at once, whoever inserts them. Polling alone would take ten minutes."""

import asyncio
import contextlib
import gc
import sqlite3
import subprocess
import sys
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from rowmill import Lease, Mill, Queue
from rowmill.store.postgres import wakeup
from rowmill.worker import WorkerSettings
from tests.conformance.fleet import Member, jobs, until, worker

NEVER = WorkerSettings(poll_base=600.0, poll_max=600.0, heartbeat=600.0, rescue_every=600.0, grace=5.0)
"""A worker that looks for itself only at the start."""


def plain(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs())


class Idle:
    """A worker that has looked once, found nothing, and sleeps."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.seen: asyncio.Queue[str] = asyncio.Queue()

    async def next(self) -> str:
        async with asyncio.timeout(30):
            return await self.seen.get()

    async def asleep(self) -> None:
        """Wait until it sleeps: on PostgreSQL it holds the lock that makes producers call."""
        store: Any = self.member.store
        if self.member.postgres:
            await until(lambda: bool(store.listener._asleep))
        else:
            await until(lambda: store.data_version._seen is not None)


@asynccontextmanager
async def idle(url: str, settings: WorkerSettings = NEVER) -> AsyncIterator[Idle]:
    async with worker(url, plain) as member:
        sleeper = Idle(member)

        @member.queue.handler()
        async def work(lease: Lease[Any]) -> None:
            sleeper.seen.put_nowait(lease.row.title)

        async with member.mill.worker(settings=settings) as running:
            task = asyncio.create_task(running.run())
            await sleeper.asleep()
            yield sleeper
            running.stop()
            await task


def insert_elsewhere(url: str, title: str) -> None:
    """INSERT by another process, which knows nothing of Rowmill."""
    if url.startswith("postgresql"):
        code = "import psycopg, sys; c = psycopg.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()"
        target = url
    else:
        code = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()"
        target = str(make_url(url).database)
    insert = f"INSERT INTO jobs (title, state) VALUES ('{title}', 'ready')"
    subprocess.run([sys.executable, "-c", code, target, insert], check=True, timeout=60)


async def test_a_row_of_another_process_wakes_an_idle_worker(database_url: str) -> None:
    async with idle(database_url) as sleeper:
        for title in ("first", "second"):
            await asyncio.to_thread(insert_elsewhere, database_url, title)
            assert await sleeper.next() == title


async def test_a_row_of_this_process_wakes_an_idle_worker(database_url: str) -> None:
    async with idle(database_url) as sleeper:
        await sleeper.member.put({"title": "here"})
        assert await sleeper.next() == "here"
        await sleeper.member.queue.load([{"title": "loaded"}])
        assert await sleeper.next() == "loaded"


async def test_rows_that_wait_for_a_time_wake_nobody_too_early_and_come_when_due(database_url: str) -> None:
    """A retry of a second is taken up by the worker that gave it, long before its next look."""
    from rowmill import RetryLater

    async with worker(database_url, plain) as member:
        seen: asyncio.Queue[int] = asyncio.Queue()

        @member.queue.handler()
        async def work(lease: Lease[Any]) -> Any:
            seen.put_nowait(lease.attempt)
            return RetryLater(1.0) if lease.attempt == 1 else None

        await member.put({"title": "twice"})
        async with member.mill.worker(settings=NEVER) as running:
            task = asyncio.create_task(running.run())
            async with asyncio.timeout(30):
                assert [await seen.get(), await seen.get()] == [1, 2]
            running.stop()
            await task


async def test_nobody_is_called_while_nobody_sleeps(pg_url: str) -> None:
    """NOTIFY makes commits wait for each other: only a sleeping worker is worth one."""
    async with worker(pg_url, plain) as member:
        heard: list[str] = []
        connection = await member.store.renewals.connect()  # type: ignore[attr-defined]
        await connection.add_listener("rowmill", lambda *message: heard.append(message[-1]))
        await member.put({"title": "nobody sleeps"})
        await connection.fetch("SELECT 1")
        assert heard == []
        sleep = asyncio.create_task(member.store.wait([member.queue], 30.0))
        store: Any = member.store
        await until(lambda: bool(store.listener._asleep))
        await member.put({"title": "somebody sleeps"})
        async with asyncio.timeout(30):
            await sleep
        await until(lambda: len(heard) == 1)
        await member.store.busy([member.queue])
        await member.put({"title": "busy again"})
        await connection.fetch("SELECT 1")
        assert len(heard) == 1


async def test_a_dropped_listener_is_made_again(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that listens is cut: the worker notices at its next look and hears again."""
    monkeypatch.setattr(wakeup, "CHECK_SECONDS", 0.0)
    often = WorkerSettings(poll_base=0.05, poll_max=0.2, heartbeat=600.0, rescue_every=600.0, grace=5.0)
    async with idle(pg_url, often) as sleeper:
        store: Any = sleeper.member.store
        before = store.listener._listening
        await sleeper.member.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name = 'rowmill listen' AND datname = current_database()"
        )
        await until(lambda: store.listener._listening is not before and bool(store.listener._asleep))
        await sleeper.member.put({"title": "after"})
        assert await sleeper.next() == "after"


async def test_rouse_wakes_sleepers_of_other_workers(database_url: str) -> None:
    """As after a requeue, which is an UPDATE and calls nobody by itself."""
    async with idle(database_url) as sleeper:
        await sleeper.member.put({"title": "dead", "state": "dead"})
        other = Mill(database_url)
        queue = plain(other)
        async with other.opened() as store:
            with contextlib.suppress(sqlite3.Error):
                await store.run(lambda c: c.exec_driver_sql("UPDATE jobs SET state = 'ready'").close())
            await store.notify_workers([queue])
            assert await sleeper.next() == "dead"


async def test_a_sleeper_that_is_gone_is_forgotten(database_url: str) -> None:
    """An application that drains now and then makes new ones each time."""

    class Sleeper: ...

    async with worker(database_url, plain) as member:
        sleeper = Sleeper()
        gone = weakref.ref(sleeper)
        for _ in range(2):
            await member.store.notify_workers([member.queue])
            await asyncio.create_task(member.store.wait([member.queue], 0.1, sleeper))
        del sleeper
        gc.collect()
        assert gone() is None
