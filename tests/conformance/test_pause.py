"""Paused queues and stages: nobody claims from them."""

import asyncio
from typing import Any

from rowmill import Lease, Mill, Queue, Stage
from rowmill.store.own.fleet import pause, resume
from rowmill.testing import QUICK
from tests.conformance.fleet import jobs, until, worker


def staged(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs(), stages=[Stage("one", "one", "one running"), Stage("two", "two", "two running")])


def handle(queue: Queue[Any], seen: list[str]) -> None:
    async def work(lease: Lease[Any]) -> None:
        seen.append(lease.stage)

    for step in queue.steps:
        queue.handler(stage=step.name)(work)


async def test_a_paused_queue_is_not_worked_on_and_a_drain_still_ends(database_url: str) -> None:
    async with worker(database_url, staged) as member:
        seen: list[str] = []
        handle(member.queue, seen)
        await member.put({})
        assert await member.mill.run(lambda connection: pause(connection, member.queue))
        assert (await member.bench.drain()).claimed == 0
        await member.mill.run(lambda connection: resume(connection, member.queue))
        assert (await member.bench.drain()).claimed == 2
        assert seen == ["one", "two"]


async def test_a_paused_stage_holds_rows_at_that_stage(database_url: str) -> None:
    async with worker(database_url, staged) as member:
        seen: list[str] = []
        handle(member.queue, seen)
        await member.put({})
        await member.mill.run(lambda connection: pause(connection, member.queue, "two"))
        await member.bench.drain()
        assert (seen, (await member.row()).state) == (["one"], "two")


async def test_a_running_worker_takes_notice(database_url: str) -> None:
    """Paused while it runs: what comes in later stays, until somebody resumes it."""
    async with worker(database_url, staged) as member:
        seen: list[str] = []
        done = asyncio.Event()

        @member.queue.handler(stage="one")
        async def work(lease: Lease[Any]) -> None:
            seen.append(lease.row.title)
            done.set()

        async with member.mill.worker(settings=QUICK) as running:
            task = asyncio.create_task(running.run())
            await member.put({"title": "before"})
            await done.wait()
            done.clear()
            await member.mill.run(lambda connection: pause(connection, member.queue))
            await until(running.stages[0].paused)
            await member.put({"title": "meanwhile"})
            await asyncio.sleep(QUICK.poll_max * 3)
            assert seen == ["before"]
            await member.mill.run(lambda connection: resume(connection, member.queue))
            await done.wait()
            assert seen == ["before", "meanwhile"]
            running.stop()
            await task
