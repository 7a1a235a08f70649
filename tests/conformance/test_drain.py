"""A drain works until nothing is ready: also what handlers put in on the way."""

import asyncio
from typing import Any

from rowmill import Lease, Mill, Queue
from rowmill.testing import QUICK
from tests.conformance.fleet import jobs, worker


def two(mill: Mill) -> Queue[Any]:
    mill.queue(jobs(name="children"))
    return mill.queue(jobs())


async def test_rows_that_the_last_handler_puts_into_another_queue(database_url: str) -> None:
    """Every station has found its queue empty by then, and looks once more."""
    async with worker(database_url, two) as member:
        children = member.mill["children"]
        seen: list[str] = []

        @member.queue.handler()
        async def parent(lease: Lease[Any]) -> None:
            await asyncio.sleep(QUICK.poll_max * 4)  # the stations poll meanwhile, and find nothing
            await member.bench.insert(children, {"title": "late"})

        @children.handler()
        async def child(lease: Lease[Any]) -> None:
            seen.append(lease.row.title)

        await member.put({})
        report = await member.bench.drain()
        assert (seen, report.done) == (["late"], 2)


async def test_a_chain_of_rows(database_url: str) -> None:
    """Each puts in the next one."""
    async with worker(database_url, two) as member:

        @member.queue.handler(concurrency=4)
        async def work(lease: Lease[Any]) -> None:
            number = int(lease.row.title)
            if number < 20:
                await member.put({"title": str(number + 1)})

        await member.put({"title": "0"})
        assert (await member.bench.drain()).done == 21


async def test_a_drain_of_nothing_ends(database_url: str) -> None:
    async with worker(database_url, two) as member:
        assert (await member.bench.drain()).claimed == 0
        member.queue.handler()(_nothing)
        assert (await member.bench.drain()).claimed == 0


async def test_a_drain_of_chosen_queues_leaves_the_others(database_url: str) -> None:
    async with worker(database_url, two) as member:
        children = member.mill["children"]
        for queue in (member.queue, children):
            queue.handler()(_nothing)
            await member.bench.insert(queue, {"title": "a"})
        assert (await member.mill.drain(["children"], settings=QUICK)).done == 1
        assert (await member.row()).state == "ready"


async def _nothing(lease: Lease[Any]) -> None:
    pass
