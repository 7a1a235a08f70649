"""A worker takes ahead what it will soon work off, and no more: others must not starve beside it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rowmill import Lease, Mill, Queue
from rowmill.testing import QUICK
from rowmill.worker import stage
from tests.conformance.fleet import Member, fleet, jobs


def plain(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs())


@asynccontextmanager
async def running(member: Member) -> AsyncIterator[None]:
    async with member.mill.worker(settings=QUICK) as worker:
        task = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.stop()
            await task


async def test_a_worker_with_slow_handlers_takes_only_what_it_runs(database_url: str) -> None:
    async with fleet(database_url, plain, size=2) as [member, other]:
        free, busy = asyncio.Event(), asyncio.Semaphore(0)

        @member.queue.handler(concurrency=3)
        async def work(lease: Lease[Any]) -> None:
            busy.release()
            await free.wait()

        await member.queue.load([{"title": str(n)} for n in range(20)])
        async with asyncio.timeout(60), running(member):
            for _ in range(3):
                await busy.acquire()
            assert len(await other.claim(100)) == 17
            free.set()


async def test_a_batch_handler_takes_only_its_batches(database_url: str) -> None:
    async with fleet(database_url, plain, size=2) as [member, other]:
        free, sizes = asyncio.Event(), asyncio.Queue[int]()

        @member.queue.batch_handler(size=5, concurrency=2)
        async def work(leases: list[Lease[Any]]) -> None:
            sizes.put_nowait(len(leases))
            await free.wait()

        await member.queue.load([{"title": str(n)} for n in range(30)])
        async with asyncio.timeout(60), running(member):
            assert [await sizes.get(), await sizes.get()] == [5, 5]
            assert len(await other.claim(100)) == 20
            free.set()


async def test_what_was_taken_ahead_goes_back_when_handlers_become_slow(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fast rows taught it to take many ahead; then every slot hangs: the rest is given to others."""
    monkeypatch.setattr(stage, "STALE", 0.1)
    async with fleet(database_url, plain, size=2) as [member, other]:
        free, stuck = asyncio.Event(), asyncio.Semaphore(0)

        @member.queue.handler(concurrency=2)
        async def work(lease: Lease[Any]) -> None:
            if lease.row.title == "slow":
                stuck.release()
                await free.wait()

        await member.queue.load([{"title": "fast"} for _ in range(2000)])
        await member.queue.load([{"title": "slow"} for _ in range(100)])
        async with asyncio.timeout(60), running(member):
            await stuck.acquire()
            await stuck.acquire()
            taken: list[Any] = []
            while len(taken) < 98:
                taken += await other.claim(200)
                await asyncio.sleep(0.02)
            assert {lease.row.title for lease in taken} == {"slow"}
            assert {lease.attempt for lease in taken} == {1}
            free.set()
        assert (await other.settle(*((lease, None) for lease in taken))).kept == 98
        assert {row.state for row in await other.rows()} == {"done"}
