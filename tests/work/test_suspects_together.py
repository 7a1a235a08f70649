"""Suspects that were claimed together wait in their process for each other's trial, and not for long."""

import asyncio
import threading
from typing import Any

import pytest

from rowmill import Lease, Retry, fixed
from tests.work.shop import SECONDS, shop_on, soon, until
from tests.work.test_suspects import RETRY, crash


async def test_suspects_that_were_claimed_together_are_tried_in_one_go(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given back and claimed again for each trial, thousands of them would take minutes."""
    monkeypatch.setattr("rowmill.worker.in_flight.PATIENCE", 3600.0)
    async with shop_on(database_url, retry=RETRY) as shop:

        @shop.jobs.handler(concurrency=5)
        async def handle(job: Lease[Any]) -> None:
            states = {row.id: row.error for row in (await shop.rows()).values() if row.state == "running"}
            assert {key for key, note in states.items() if note} == {job.key}, "one is on trial, and noted as such"

        await shop.put(5)
        await crash(shop, 1, 2, 3, 4, 5, attempts=2)
        async with asyncio.timeout(SECONDS):
            report = await shop.drain()

        assert (report.done, report.claimed, report.settled) == (5, 5, {"done": 5})


async def test_suspects_do_not_wait_for_slow_ones(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may try them meanwhile."""
    monkeypatch.setattr("rowmill.worker.suspects.SESSION", 0.0)
    monkeypatch.setattr("rowmill.worker.suspects.SPREAD", 3600.0)
    async with shop_on(database_url, retry=RETRY) as shop:

        @shop.jobs.handler(concurrency=5)
        async def handle(job: Lease[Any]) -> None:
            pass

        await shop.put(5)
        await crash(shop, 1, 2, 3, 4, 5, attempts=2)
        async with shop.working() as working:
            await until(lambda: working.worker.report.settled == {"done": 1, "release": 4})
            await working.stop()

        rows = sorted((row.state, row.attempts) for row in (await shop.rows()).values())
        assert rows == [("done", 3), *[("ready", 2)] * 4]


async def test_a_suspect_does_not_begin_beside_a_thread_that_is_past_its_time(sqlite_url: str) -> None:
    async with shop_on(sqlite_url, retry=Retry(attempts=3, backoff=fixed(3600.0))) as shop:
        ended, inside, beside = threading.Event(), set[int](), set[int]()

        @shop.jobs.handler(concurrency=5, timeout=0.1)
        def handle(job: Lease[Any]) -> None:
            beside.update(inside)
            inside.add(job.key)
            ended.wait(0 if beside or len(inside) > 1 else SECONDS)
            inside.discard(job.key)

        await shop.put(2)
        await crash(shop, 1, 2, attempts=2)
        async with shop.working() as working:
            await until(lambda: working.worker.report.settled.get("release") == 1)
            ended.set()
            await until(lambda: sum(working.worker.report.settled.values()) >= 3)
            await working.stop()

        assert beside == set()


async def test_suspects_that_wait_for_their_trial_go_back_when_the_worker_stops(database_url: str) -> None:
    async with shop_on(database_url, retry=RETRY) as shop:
        begun, go = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=5)
        async def handle(job: Lease[Any]) -> None:
            begun.set()
            await soon(go)

        await shop.put(5)
        await crash(shop, 1, 2, 3, 4, 5, attempts=2)
        async with shop.working() as working:
            await soon(begun)
            working.worker.stop()
            await until(lambda: all(station.stopping for station in working.worker.stages))
            go.set()
            await working.stop()

        rows = sorted((row.state, row.attempts, row.lease) for row in (await shop.rows()).values())
        assert rows == [("done", 3, None), *[("ready", 2, None)] * 4]
