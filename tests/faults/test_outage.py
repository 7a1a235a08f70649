"""PostgreSQL goes away and comes back: the worker waits, reconnects and goes on; nothing is lost or written twice."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowmill import Lease
from rowmill.worker import worker as worker_module
from tests.faults.processes import yard_on
from tests.support.databases import fresh_database
from tests.support.postgres import TemporaryPostgres
from tests.support.waiting import until as until_soon
from tests.work.shop import quick, shop_on, soon, until


@pytest.fixture
def server() -> Iterator[TemporaryPostgres]:
    """A server of our own, to be stopped and started."""
    with TemporaryPostgres() as server:
        yield server


@pytest.fixture
def own_url(server: TemporaryPostgres) -> Iterator[str]:
    with fresh_database(server.url) as url:
        yield url


async def test_an_outage_is_waited_out(server: TemporaryPostgres, own_url: str) -> None:
    async with shop_on(own_url, lease=30.0) as shop:
        calls: Counter[int] = Counter()
        half = asyncio.Event()

        @shop.jobs.handler(concurrency=10)
        async def handle(job: Lease[Any]) -> dict[str, str]:
            calls[job.key] += 1
            if len(calls) == 300:
                half.set()
            await asyncio.sleep(0.005)
            return {"result": str(job.attempt)}

        await shop.put(600)
        async with shop.working() as working:
            await soon(half)
            for _ in range(2):
                await asyncio.to_thread(server.down)
                outages = len(shop.named("away"))
                await until(lambda outages=outages: len(shop.named("away")) > outages or not_back(shop))  # type: ignore[misc]
                await asyncio.sleep(0.5)
                await asyncio.to_thread(server.up)
                await until(lambda: not not_back(shop))
            await until(lambda: working.worker.report.done == 600)
            report = await working.stop()

        assert (report.done, report.lost) == (600, 0)
        assert await shop.states() == {"done": 600}
        assert calls == dict.fromkeys(range(1, 601), 1), "no handler ran twice"
        assert {row.result for row in (await shop.rows()).values()} == {"1"}
        said = [name for name, _ in shop.events if name in ("away", "back")]
        assert said == ["away", "back"] * 2, "once per outage"


def not_back(shop: Any) -> bool:
    return len(shop.named("away")) > len(shop.named("back"))


async def test_rows_whose_leases_ran_out_during_the_outage_are_not_taken_from_their_living_worker(
    server: TemporaryPostgres, own_url: str
) -> None:
    """An outage longer than a lease: the rescue waits until those who live have renewed."""
    async with shop_on(own_url, lease=1.0) as shop:
        begun, release = asyncio.Event(), asyncio.Event()
        calls = []

        @shop.jobs.handler(concurrency=3)
        async def handle(job: Lease[Any]) -> None:
            calls.append(job.key)
            if len(calls) == 3:
                begun.set()
            await release.wait()

        await shop.put(3)
        async with shop_on(own_url, fresh=False, lease=1.0) as leader, shop.working(heartbeat=60.0) as working:
            await soon(begun)

            @leader.jobs.handler()
            async def take_over(job: Lease[Any]) -> None: ...

            async with leader.working(rescue_every=0.5, heartbeat=0.1):
                await until(lambda: leader.mill.store.worker)
                await asyncio.to_thread(server.down)
                await asyncio.sleep(1.5)
                await asyncio.to_thread(server.up)
                await until(lambda: leader.named("back"))
                await asyncio.sleep(1.0)  # a sweep has passed
                release.set()
                await until(lambda: working.worker.report.done == 3)
            report = await working.stop()

        assert report.lost == 0
        assert leader.named("rescued") == []
        assert sorted(calls) == [1, 2, 3]


async def test_a_worker_that_stops_during_an_outage_leaves_in_time(
    server: TemporaryPostgres, own_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "FLUSH_SECONDS", 0.5)
    async with shop_on(own_url, lease=1.0) as shop:
        begun = asyncio.Event()

        @shop.jobs.handler(concurrency=3)
        async def handle(job: Lease[Any]) -> None:
            begun.set()
            await asyncio.sleep(3600)

        await shop.put(3)
        async with shop.working(grace=0.1) as working:
            await soon(begun)
            await until(lambda: working.worker.in_flight == 3)
            await asyncio.to_thread(server.down)
            await working.stop()
        assert [fields["rows"] for fields in shop.named("unwritten")] == [3]
        await asyncio.to_thread(server.up)


async def test_backends_that_are_terminated_all_the_time_lose_nothing(pg_url: str) -> None:
    async with shop_on(pg_url, lease=30.0) as shop:
        calls: Counter[int] = Counter()

        @shop.jobs.handler(concurrency=10)
        async def handle(job: Lease[Any]) -> dict[str, str]:
            calls[job.key] += 1
            await asyncio.sleep(0.005)
            return {"result": str(job.attempt)}

        await shop.put(2000)
        terminated = 0
        over = threading.Event()

        def terminate() -> None:
            nonlocal terminated
            with psycopg.connect(pg_url, autocommit=True) as connection:
                while not over.is_set():
                    rows = connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    ).fetchall()
                    terminated += len(rows)
                    over.wait(0.2)

        async with shop.mill.worker(settings=quick()) as worker:
            terminating = asyncio.create_task(asyncio.to_thread(terminate))
            try:
                async with asyncio.timeout(60):
                    report = await worker.drain()
            finally:
                over.set()
                await terminating

        assert terminated > 10
        assert (report.done, report.lost) == (2000, 0)
        assert calls == dict.fromkeys(range(1, 2001), 1)
        assert await shop.states() == {"done": 2000}
        assert {row.result for row in (await shop.rows()).values()} == {"1"}


def test_processes_live_through_an_outage_and_one_that_starts_in_it_says_why_it_can_not(
    server: TemporaryPostgres, own_url: str, tmp_path: Path
) -> None:
    with yard_on(own_url, tmp_path, lease=30.0) as yard:
        yard.put(*["effect"] * 20, "hold")
        worker = yard.work("--log-format", "json")
        yard.until_begun(*range(1, 22))
        server.down()
        until_soon(lambda: '"event": "away"' in worker.said())
        late = yard.work()
        assert late.wait() == 3
        assert "does not answer" in late.said()
        assert "Traceback" not in late.said()
        server.up()
        until_soon(lambda: '"event": "back"' in worker.said())
        yard.go()
        until_soon(yard.finished)

        assert worker.process.poll() is None
        assert yard.states() == {"done": 21}
        assert yard.effects() == list(range(1, 21))
