"""No more handlers at once than a stage allows, and no fewer when there is work."""

import asyncio
import sqlite3
import threading
from collections import Counter
from typing import Any

import pytest

from rowmill import Lease
from tests.work.shop import SECONDS, TWO_STAGES, job_table, shop_on, soon


class Gauge:
    """How many are inside at once. Each stays inside until the expected number has met there, at the start."""

    def __init__(self, expected: int) -> None:
        self.inside = 0
        self.most = 0
        self.met = asyncio.Event()
        self._expected = expected

    async def stay(self) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.inside == self._expected:
            self.met.set()
        try:
            async with asyncio.timeout(SECONDS):
                await self.met.wait()
                await asyncio.sleep(0)
        finally:
            self.inside -= 1


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_as_many_async_handlers_at_once_as_allowed(database_url: str, concurrency: int) -> None:
    async with shop_on(database_url) as shop:
        gauge = Gauge(concurrency)

        @shop.jobs.handler(concurrency=concurrency)
        async def handle(job: Lease[Any]) -> None:
            await gauge.stay()

        await shop.put(20)
        report = await shop.drain()

        assert report.done == 20
        assert gauge.most == concurrency


async def test_as_many_threads_at_once_as_allowed(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        barrier, lock, inside, most = threading.Barrier(3), threading.Lock(), 0, 0

        @shop.jobs.handler(concurrency=3)
        def handle(job: Lease[Any]) -> None:
            nonlocal inside, most
            with lock:
                inside += 1
                most = max(most, inside)
            barrier.wait(SECONDS)
            with lock:
                inside -= 1

        await shop.put(12)
        report = await shop.drain()

        assert report.done == 12
        assert most == 3


async def test_each_stage_has_slots_of_its_own(database_url: str) -> None:
    async with shop_on(database_url, stages=TWO_STAGES) as shop:
        first, second = Gauge(4), Gauge(2)

        @shop.jobs.handler(stage="first", concurrency=4)
        async def begin(job: Lease[Any]) -> None:
            await first.stay()

        @shop.jobs.handler(stage="second", concurrency=2)
        async def end(job: Lease[Any]) -> None:
            await second.stay()

        await shop.put(12)
        report = await shop.drain()

        assert report.settled == {"advance": 12, "done": 12}
        assert (first.most, second.most) == (4, 2)


async def test_a_queue_whose_handlers_hang_does_not_hold_up_another(database_url: str) -> None:
    async with shop_on(database_url) as shop:
        others = shop.mill.queue(job_table("other"), name="others", states=None)
        await shop.mill.migrate(tables=True)
        done = asyncio.Event()
        seen: Counter[str] = Counter()

        @shop.jobs.handler(concurrency=2)
        async def hang(job: Lease[Any]) -> None:
            await done.wait()

        @others.handler(concurrency=1)
        async def go_on(job: Lease[Any]) -> None:
            seen["others"] += 1
            if seen["others"] == 5:
                done.set()

        await shop.put(4)
        await shop.run(lambda connection: connection.execute(others.insert([{"id": n} for n in range(5)])).close())
        report = await shop.drain()

        assert report.done == 9


async def test_two_stages_that_claim_at_once_do_not_take_each_others_rows(pg_url: str) -> None:
    """A claim that another stage has under way is not one whose answer was lost."""
    async with shop_on(pg_url, stages=TWO_STAGES) as shop:

        @shop.jobs.handler(stage="first", concurrency=5)
        async def begin(job: Lease[Any]) -> None: ...

        @shop.jobs.handler(stage="second", concurrency=5)
        async def end(job: Lease[Any]) -> None: ...

        await shop.put(500)
        report = await shop.drain()

        assert report.lost == 0
        assert report.settled["done"] == 500
        assert {row.attempts for row in (await shop.rows()).values()} == {1}


async def test_every_queue_is_woken_by_what_another_process_writes(sqlite_url: str) -> None:
    """One look at the file serves all stages: none may take the news from another."""
    async with shop_on(sqlite_url) as shop:
        came: dict[str, asyncio.Event] = {"job": asyncio.Event()}
        queues = [shop.mill.queue(job_table(f"other_{n}")) for n in range(4)]
        for queue in queues:
            came[queue.name] = asyncio.Event()

            @queue.handler()
            async def handle(job: Lease[Any]) -> None:
                came[job.queue.name].set()

        await shop.mill.migrate(tables=True)
        async with shop.working(poll_base=3600.0, poll_max=3600.0):
            await asyncio.sleep(0.1)  # all asleep
            for queue in queues:
                await insert_elsewhere(sqlite_url, queue.table.name)
                await soon(came[queue.name])


async def insert_elsewhere(url: str, table: str) -> None:
    def insert() -> None:
        with sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30) as connection:
            connection.execute(f"INSERT INTO {table} (id, state) VALUES (1, 'ready')")
        connection.close()

    await asyncio.to_thread(insert)
