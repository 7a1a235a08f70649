"""Leases live as long as their handlers; a handler whose lease is gone is told, and stopped."""

import asyncio
import contextlib
import threading
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill import Lease
from rowmill.observe.events import Events
from rowmill.store.port import Disconnected
from rowmill.worker.byte_budget import ByteBudget
from rowmill.worker.in_flight import InFlight
from rowmill.worker.renewer import Renewer
from tests.work.shop import SECONDS, shop_on, soon, until


async def test_a_lease_is_renewed_while_its_handler_runs(database_url: str) -> None:
    async with shop_on(database_url, lease=1.0) as shop:
        claims = []

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            claims.append(job.attempt)
            first = (await shop.row()).leased_until
            async with asyncio.timeout(SECONDS):
                while (renewed := (await shop.row()).leased_until) == first:
                    await asyncio.sleep(0.05)
            assert renewed > first
            await asyncio.sleep(1.2)  # past the end of the lease that it was claimed with

        await shop.put(1)
        async with shop.working() as working:
            await until(lambda: shop.named("settled"))
            report = await working.stop()

        assert claims == [1]
        assert report.lost == 0
        assert (await shop.row()).state == "done"


async def test_rows_that_wait_their_turn_are_renewed_too(sqlite_url: str) -> None:
    async with shop_on(sqlite_url, lease=1.0) as shop:
        first = asyncio.Event()

        @shop.jobs.batch_handler(size=1, concurrency=1)
        async def handle(batch: list[Lease[Any]]) -> None:
            if not first.is_set():
                first.set()
                await asyncio.sleep(1.5)

        await shop.put(3)
        report = await shop.drain(rescue_every=0.1)

        assert report.lost == 0
        assert {row.attempts for row in (await shop.rows()).values()} == {1}


async def test_a_worker_does_not_rescue_what_it_holds_itself(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was frozen, or cut off, finds its own leases expired, and their handlers alive."""
    async with shop_on(database_url, lease=1.0) as shop:
        swept = asyncio.Event()

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            await soon(swept)

        async def gone(*_: Any) -> Any:
            raise Disconnected("gone")

        await shop.put(1)
        monkeypatch.setattr(shop.mill.store, "renew", gone)
        async with shop.working(rescue_every=0.1, heartbeat=0.1) as working:
            await asyncio.sleep(1.6)
            swept.set()
            await until(lambda: working.worker.report.done == 1)
            report = await working.stop()

        assert shop.named("rescued") == []
        assert report.lost == 0
        assert (await shop.row()).attempts == 1


async def test_a_lost_lease_cancels_the_async_handler_and_is_reported_once(database_url: str) -> None:
    async with shop_on(database_url, lease=1.0) as shop:
        told = asyncio.Event()
        went_on: list[int] = []

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> None:
            if job.key == 1:
                await shop.rob()
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    assert job.lost
                    told.set()
                    raise
            went_on.append(job.key)

        await shop.put(2)
        async with shop.working() as working:
            await soon(told)
            await until(lambda: went_on == [2])
            report = await working.stop()

        assert report.lost == 1
        assert [fields["key"] for fields in shop.named("lost")] == ["1"]
        row = await shop.row()
        assert (row.state, row.lease) == ("running", 77), "the other worker's claim is untouched"


async def test_a_row_that_is_settled_while_its_lease_is_renewed_is_not_cut(sqlite_url: str) -> None:
    """The renewal finds no lease, and the answer of the settlement is on its way: only a second look tells."""
    async with shop_on(sqlite_url, lease=1.0) as shop:
        await shop.put(2)
        store, in_flight = shop.mill.store, InFlight(ByteBudget(1 << 20))
        cut: list[Lease[Any]] = []
        store.worker = 1
        settled, lost = await store.claim(shop.jobs, shop.jobs.step(), 2)
        in_flight.take([settled, lost])
        renewer = Renewer(store, in_flight, Events(), cut.append)
        await shop.sql("UPDATE job SET lease = NULL")
        await renewer.tick(0.0)
        await renewer.tick(1.0)
        assert cut == []
        in_flight.remove(settled)
        await renewer.tick(1.1)

        assert cut == [lost]
        assert (settled.lost, lost.lost) == (False, True)


async def test_a_handler_that_goes_on_after_its_cancellation_writes_nothing(database_url: str) -> None:
    async with shop_on(database_url, lease=1.0) as shop:

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> dict[str, str]:
            if job.key == 1:
                await shop.rob()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(3600)
            return {"result": "written"}

        await shop.put(2)
        async with shop.working() as working:
            await until(lambda: shop.named("lost") and shop.named("settled"))
            report = await working.stop()

        rows = await shop.rows()
        assert (rows[1].result, rows[2].result) == (None, "written")
        assert (report.lost, report.done) == (1, 1)


async def test_a_thread_sees_that_its_lease_is_lost(database_url: str) -> None:
    async with shop_on(database_url, lease=1.0) as shop:
        running, saw = threading.Event(), threading.Event()

        @shop.jobs.handler()
        def handle(job: Lease[Any]) -> dict[str, str]:
            running.set()
            done = threading.Event()
            for _ in range(600):
                if job.lost:
                    saw.set()
                    break
                done.wait(0.05)
            return {"result": "written"}

        await shop.put(1)
        async with shop.working() as working:
            await until(running.is_set)
            await shop.rob()
            await until(saw.is_set)
            report = await working.stop()

        assert (await shop.row()).result is None
        assert report.lost == 1


async def test_a_row_that_its_own_settling_block_locks_does_not_hold_up_other_renewals(pg_url: str) -> None:
    """A user's transaction on one row may last longer than a lease. The other leases must live on."""
    async with shop_on(pg_url, lease=1.0) as shop:
        locked, release = asyncio.Event(), asyncio.Event()
        alive, lasts = [], "leased_until > now()"

        @shop.jobs.handler(concurrency=2)
        async def handle(job: Lease[Any]) -> None:
            if job.key == 1:
                async with job.settling() as session:
                    await session.execute(sa.update(shop.jobs.table).where(shop.jobs.table.c.id == 1).values(title="x"))
                    locked.set()
                    await release.wait()
            else:
                await locked.wait()
                await asyncio.sleep(2.0)
                alive.append(await shop.run(lambda c: c.scalar(sa.text(f"SELECT {lasts} FROM job WHERE id = 2"))))
                release.set()

        await shop.put(2)
        async with shop.working(rescue_every=0.1, heartbeat=0.1) as working:
            await until(lambda: len(shop.named("settled")) == 2)
            report = await working.stop()

        assert alive == [True]
        assert report.lost == 0
        assert {row.attempts for row in (await shop.rows()).values()} == {1}
        assert await shop.states() == {"done": 2}
