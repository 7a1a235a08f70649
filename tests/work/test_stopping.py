"""Stopping: finish within the grace period, release the rest, write all; then leave, whatever happens."""

import asyncio
import threading
from typing import Any

import pytest

from rowmill import Lease
from rowmill.store.own.schema import own_tables
from rowmill.store.port import Disconnected
from rowmill.worker import worker as worker_module
from tests.work.shop import SECONDS, shop_on, soon, until


async def test_running_handlers_finish_and_rows_not_begun_go_back_with_their_attempt(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        begun, release = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=2)
        async def handle(job: Lease[Any]) -> None:
            if job.key > 100:
                begun.set()
                await release.wait()

        await shop.put(400)
        async with shop.working(grace=SECONDS) as working:
            await soon(begun)
            await until(lambda: working.worker.in_flight > 2)
            stopping = asyncio.create_task(working.stop())
            await until(lambda: working.worker.in_flight == 2)
            release.set()
            report = await stopping

        rows = await shop.rows()
        assert report.done == 102
        assert report.settled["release"] > 0
        assert report.claimed == report.done + report.settled["release"]
        assert await shop.states() == {"done": 102, "ready": 298}
        assert {row.attempts for row in rows.values() if row.state == "ready"} == {0}
        assert {row.lease for row in rows.values()} == {None}


@pytest.mark.parametrize("grace", [0.0, 0.2])
async def test_handlers_that_outlive_the_grace_are_cut_and_their_rows_released(database_url: str, grace: float) -> None:
    async with shop_on(database_url) as shop:
        begun, cut = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> None:
            begun.set()
            try:
                await asyncio.sleep(3600)
            finally:
                cut.set()

        await shop.put(1)
        async with shop.working(grace=grace) as working:
            await soon(begun)
            report = await working.stop()

        row = await shop.row()
        assert cut.is_set()
        assert (row.state, row.attempts, row.lease) == ("ready", 0, None)
        assert report.settled == {"release": 1}
        assert working.worker.left_behind == 0


async def test_a_thread_that_outlives_the_grace_is_left_and_its_row_released(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        begun, release = threading.Event(), threading.Event()

        @shop.jobs.handler(concurrency=1)
        def handle(job: Lease[Any]) -> None:
            begun.set()
            release.wait(SECONDS)

        await shop.put(1)
        async with shop.working(grace=0.1) as working:
            await until(begun.is_set)
            await working.stop()
        left = working.worker.left_behind
        release.set()

        row = await shop.row()
        assert (row.state, row.attempts, row.lease) == ("ready", 0, None)
        assert left == 1


async def test_a_handler_that_ignores_its_cancellation_does_not_keep_the_worker(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "CANCEL_SECONDS", 0.2)
    async with shop_on(database_url) as shop:
        begun, release = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> None:
            begun.set()
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        await shop.put(1)
        async with shop.working(grace=0.0) as working:
            await soon(begun)
            await working.stop()

        assert working.worker.left_behind == 1
        row = await shop.row()
        assert (row.state, row.attempts) == ("ready", 0)
        release.set()
        await until(lambda: working.worker.left_behind == 0)


async def test_stopping_twice_and_before_the_start_is_fine(database_url: str) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        async with shop.working() as working:
            working.worker.stop()
            working.worker.stop()
            await working.task
            working.worker.stop()
        async with shop.mill.worker() as worker:
            worker.stop()
            async with asyncio.timeout(SECONDS):
                await worker.run()


async def test_an_idle_worker_stops_at_once_however_long_it_would_sleep(database_url: str) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        async with shop.working(poll_base=3600.0, poll_max=3600.0) as working:
            await asyncio.sleep(0.2)
            await working.stop()


async def test_cancelling_the_task_of_a_worker_releases_its_rows(database_url: str) -> None:
    """An application that embeds a worker may cancel it, as frameworks do at their end."""
    async with shop_on(database_url) as shop:
        begun = asyncio.Event()

        @shop.jobs.handler(concurrency=2)
        async def handle(job: Lease[Any]) -> None:
            begun.set()
            await asyncio.sleep(3600)

        await shop.put(5)
        async with shop.mill.worker() as worker:
            task = asyncio.create_task(worker.run())
            await soon(begun)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                async with asyncio.timeout(SECONDS):
                    await task

        assert await shop.states() == {"ready": 5}
        assert {(row.attempts, row.lease) for row in (await shop.rows()).values()} == {(0, None)}


async def test_cancelling_a_worker_that_is_stopping_releases_its_rows_at_once(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        begun = asyncio.Event()

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> None:
            begun.set()
            await asyncio.sleep(3600)

        await shop.put(1)
        async with shop.working(grace=3600.0) as working:
            await soon(begun)
            working.worker.stop()
            await asyncio.sleep(0)
            working.task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working.task

        row = await shop.row()
        assert (row.state, row.attempts, row.lease) == ("ready", 0, None)


async def test_a_worker_in_a_task_group_beside_an_application(database_url: str) -> None:
    """The lifespan of a web application: start, serve, stop."""
    async with shop_on(database_url) as shop:
        served = asyncio.Event()

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            served.set()

        async with shop.mill.worker() as worker, asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            await shop.put(1)
            await soon(served)
            worker.stop()

        assert await shop.states() == {"done": 1}


async def test_the_end_of_a_worker_is_signed_off(database_url: str) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        async with shop.working() as working:
            await until(lambda: working.worker.report is not None)
        own = own_tables(shop.mill.store.dialect.name)
        [row] = await shop.run(lambda connection: connection.execute(own.worker.select()).all())
        leaders = await shop.run(lambda connection: connection.execute(own.leader.select()).all())

        assert row.stopped_at is not None
        assert leaders == []


async def test_a_worker_leaves_without_a_database_after_a_while_and_says_what_it_could_not_write(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "FLUSH_SECONDS", 0.3)
    async with shop_on(database_url) as shop:
        begun, release = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=3)
        async def handle(job: Lease[Any]) -> None:
            begun.set()
            await release.wait()

        async def gone(*_: Any, **__: Any) -> Any:
            raise Disconnected("gone")

        async def hang(*_: Any, **__: Any) -> Any:
            await asyncio.sleep(3600)

        await shop.put(3)
        async with shop.working() as working:
            await soon(begun)
            await until(lambda: working.worker.in_flight == 3)
            with monkeypatch.context() as patch:
                store = shop.mill.store
                patch.setattr(store, "settle", hang)
                for name in ("claim", "renew", "run"):
                    patch.setattr(store, name, gone)
                release.set()
                await working.stop()

        assert [fields["rows"] for fields in shop.named("unwritten")] == [3]
        assert {row.lease for row in (await shop.rows()).values()} != {None}, "they come back when their leases end"


async def test_a_row_that_is_released_at_shutdown_has_not_failed(database_url: str) -> None:
    async with shop_on(database_url, counts="failures") as shop:
        begun = asyncio.Event()

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            begun.set()
            await asyncio.Event().wait()

        await shop.put(1)
        async with shop.working(grace=0.0) as working:
            await soon(begun)
            assert (await shop.row()).attempts == 1
            await working.stop()

        row = await shop.row()
        assert (row.state, row.attempts) == ("ready", 0)
