"""A handler that takes too long is judged, and nothing that it does later counts."""

import asyncio
import threading
from typing import Any

import sqlalchemy as sa

from rowmill import Lease, Retry, fixed
from rowmill.errors import LeaseLost
from tests.work.shop import SECONDS, shop_on, soon, until

LATER = Retry(attempts=3, backoff=fixed(3600.0))


async def test_an_async_handler_is_cancelled_and_its_slot_goes_on(database_url: str) -> None:
    async with shop_on(database_url, retry=LATER) as shop:
        cancelled = asyncio.Event()

        @shop.jobs.handler(concurrency=1, timeout=0.05)
        async def handle(job: Lease[Any]) -> None:
            if job.key == 1:
                try:
                    await asyncio.sleep(3600)
                finally:
                    cancelled.set()

        await shop.put(2)
        report = await shop.drain()

        assert cancelled.is_set()
        assert await shop.states() == {"waiting": 1, "done": 1}
        assert await shop.failures() == [(1, "timeout")]
        assert (report.done, report.again) == (1, 1)


async def test_the_timeout_of_a_queue_holds_where_the_handler_names_none(sqlite_url: str) -> None:
    async with shop_on(sqlite_url, retry=LATER, timeout=0.05) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            await asyncio.sleep(3600)

        await shop.put(1)
        await shop.drain()

        assert await shop.failures() == [(1, "timeout")]


async def test_a_thread_that_takes_too_long_is_judged_and_refused_when_it_settles_late(database_url: str) -> None:
    async with shop_on(database_url, retry=LATER) as shop:
        late, refused = threading.Event(), threading.Event()
        others: list[int] = []

        @shop.jobs.handler(concurrency=1, timeout=0.05)
        def handle(job: Lease[Any]) -> None:
            if job.key != 1:
                others.append(job.key)
                return
            late.wait(SECONDS)
            try:
                with job.settling() as session:
                    session.execute(sa.insert(shop.effects).values(job=1))
            except LeaseLost:
                refused.set()
                raise

        await shop.put(2)
        async with shop.working() as working:
            await until(lambda: shop.named("settled"))
            assert (await shop.row()).state == "waiting"
            await asyncio.sleep(0.3)  # the slot waits for its thread: the next row's time would run in vain
            assert len(shop.named("settled")) == 1
            late.set()
            await until(refused.is_set)
            await until(lambda: others == [2])
            await working.stop()

        assert await shop.states() == {"waiting": 1, "done": 1}
        assert await shop.effected() == []
        assert await shop.failures() == [(1, "timeout")]


async def test_a_batch_that_takes_too_long_is_judged_as_one(sqlite_url: str) -> None:
    async with shop_on(sqlite_url, retry=LATER) as shop:
        calls = []

        @shop.jobs.batch_handler(size=3, timeout=0.05)
        async def handle(batch: list[Lease[Any]]) -> None:
            calls.append(len(batch))
            await asyncio.sleep(3600)

        await shop.put(3)
        await shop.drain()

        assert calls == [3]
        assert await shop.states() == {"waiting": 3}


async def test_a_row_that_takes_too_long_alone_does_not_cost_its_neighbours_their_time(sqlite_url: str) -> None:
    async with shop_on(sqlite_url, retry=LATER) as shop:

        @shop.jobs.batch_handler(size=3, timeout=0.2)
        def handle(batch: list[Lease[Any]]) -> None:
            if len(batch) > 1:
                raise ValueError("one by one, please")
            if batch[0].key == 1:
                threading.Event().wait(0.5)

        await shop.put(3)
        await shop.drain()

        assert {key: row.state for key, row in (await shop.rows()).items()} == {1: "waiting", 2: "done", 3: "done"}


async def test_a_lease_that_is_lost_just_as_the_time_is_over_leaves_the_slot_usable(database_url: str) -> None:
    async with shop_on(database_url, retry=LATER, lease=1.0) as shop:
        went_on = asyncio.Event()

        @shop.jobs.handler(concurrency=1, timeout=0.6)
        async def handle(job: Lease[Any]) -> None:
            if job.key == 1:
                await shop.rob()
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    await asyncio.sleep(0.4)  # busy with its end while the other reason to cancel it arrives
                    raise
            went_on.set()

        await shop.put(2)
        async with shop.working():
            await soon(went_on)


async def test_slots_that_wait_for_threads_that_do_not_end_are_said(sqlite_url: str) -> None:
    """With all of them waiting, nothing is claimed any more, and the worker looks alive."""
    async with shop_on(sqlite_url, retry=LATER) as shop:
        release = threading.Event()

        @shop.jobs.handler(concurrency=2, timeout=0.05)
        def handle(job: Lease[Any]) -> None:
            release.wait(SECONDS)

        await shop.put(2)
        async with shop.working() as working:
            await until(lambda: len(shop.named("settled")) == 2)
            await until(lambda: len(shop.named("overdue")) == 2)
            release.set()
            await working.stop()

        assert [(fields["threads"], fields["slots"]) for fields in shop.named("overdue")] == [(1, 2), (2, 2)]
