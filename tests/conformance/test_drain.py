"""A drain works until nothing is ready: also what handlers put in on the way."""

import asyncio
from typing import Any

import pytest

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
            await asyncio.sleep(QUICK.poll_max * 4)  # the stages poll meanwhile, and find nothing
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


async def test_what_a_claim_takes_at_the_very_end_is_worked_on(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was ready, so the drain could end; but one more claim is under way, and takes a row. It must not be given
    back: another drain may have ended because it could not see it."""
    async with worker(database_url, two) as member:
        member.queue.handler()(_nothing)
        claim, look, looked = member.store.claim, member.store.drop_watermarks, asyncio.Event()

        def drop_watermarks(queue: Queue[Any]) -> None:
            look(queue)
            looked.set()

        async def slow_claim(*asked: Any) -> list[Lease[Any]]:
            last = looked.is_set()
            leases = await claim(*asked)
            if last and await member.rows() == []:
                await member.put({})  # which wakes the worker
            elif leases:
                await asyncio.sleep(QUICK.poll_max * 4)  # long enough for a drain that looks no further
            return leases

        monkeypatch.setattr(member.store, "drop_watermarks", drop_watermarks)
        monkeypatch.setattr(member.store, "claim", slow_claim)
        assert "release" not in (await member.bench.drain()).settled


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
