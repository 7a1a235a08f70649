"""A SQLite file that somebody else holds for a while: the worker waits and goes on."""

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from rowmill import Lease
from rowmill.store.sqlite import writer
from tests.conformance.fleet import jobs, worker
from tests.work.shop import Shop, shop_on, soon, until


async def hold(shop: Shop) -> sqlite3.Connection:
    """Somebody else's transaction."""

    def begin() -> sqlite3.Connection:
        path = str(shop.mill.url.database)
        connection = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
        connection.execute("BEGIN IMMEDIATE")
        return connection

    return await asyncio.to_thread(begin)  # on the loop, we would wait for a transaction that waits for the loop


async def test_a_locked_file_is_waited_for(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BUSY_MILLISECONDS", 50)
    async with shop_on(sqlite_url) as shop:
        calls: list[int] = []
        begun, release = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=2)
        async def handle(job: Lease[Any]) -> None:
            calls.append(job.key)
            begun.set()
            await release.wait()

        await shop.put(6)
        async with shop.working() as working:
            await soon(begun)
            other = await hold(shop)
            release.set()
            await until(lambda: shop.named("away"))
            await asyncio.sleep(0.3)  # several tries
            other.execute("ROLLBACK")
            other.close()
            await until(lambda: working.worker.report.done == 6 and shop.named("back"))
            report = await working.stop()

        assert report.lost == 0
        assert sorted(calls) == [1, 2, 3, 4, 5, 6]
        assert await shop.states() == {"done": 6}
        assert [name for name, _ in shop.events if name in ("away", "back")] == ["away", "back"]


async def test_a_worker_that_stops_while_the_file_is_locked_leaves_in_time(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rowmill.worker import worker as worker_module

    monkeypatch.setattr(writer, "BUSY_MILLISECONDS", 50)
    monkeypatch.setattr(worker_module, "FLUSH_SECONDS", 0.3)
    async with shop_on(sqlite_url) as shop:
        begun = asyncio.Event()

        @shop.jobs.handler(concurrency=2)
        async def handle(job: Lease[Any]) -> None:
            begun.set()
            await asyncio.sleep(3600)

        await shop.put(2)
        async with shop.working(grace=0.0) as working:
            await soon(begun)
            await until(lambda: working.worker.in_flight == 2)
            other = await hold(shop)
            await working.stop()
        other.execute("ROLLBACK")
        other.close()

        assert [fields["rows"] for fields in shop.named("unwritten")] == [2]
        assert await shop.states() == {"running": 2}, "they come back by their leases"


async def test_a_transaction_that_was_cut_off_keeps_no_lock(sqlite_url: str) -> None:
    """A cursor of it may be alive still, in the frames of the task that was cancelled."""
    async with worker(sqlite_url, lambda mill: mill.queue(jobs())) as member:
        cut_off = await member.store.engine.connect()
        await cut_off.exec_driver_sql("INSERT INTO jobs (title, state) VALUES ('lost', 'ready'), ('too', 'ready')")
        driver = (await cut_off.get_raw_connection()).driver_connection
        assert driver is not None
        cursor = await driver.execute("SELECT title FROM jobs")
        assert await cursor.fetchone() is not None
        await cut_off.invalidate()

        probe = sqlite3.connect(str(member.mill.url.database), timeout=0.0, isolation_level=None)
        with closing(probe):
            probe.execute("BEGIN IMMEDIATE")
        await cut_off.close()
        assert await member.rows() == []
        del cursor
