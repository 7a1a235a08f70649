"""A pause holds for rows that are in a worker's hands already, and have not begun."""

import asyncio
from typing import Any

import pytest

from rowmill import Lease
from rowmill.store.own.fleet import pause, resume
from rowmill.worker.stage import StageWorker
from tests.work.shop import shop_on, until


async def test_rows_taken_ahead_go_back_when_their_queue_is_paused(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        StageWorker, "_return_stale", lambda station, now: None
    )  # or they would go back for being stale
    async with shop_on(database_url) as shop:
        release, begun = asyncio.Event(), set()

        @shop.jobs.handler(concurrency=2)
        async def handle(job: Lease[Any]) -> None:
            begun.add(job.key)
            if job.key > 100:
                await release.wait()

        await shop.put(400)
        async with shop.working() as working:
            await until(lambda: len([key for key in begun if key > 100]) == 2 and working.worker.in_flight > 2)
            await shop.run(lambda connection: pause(connection, shop.jobs))
            await until(lambda: working.worker.in_flight == 2)

            rows = await shop.rows()
            not_begun = [row for key, row in rows.items() if key not in begun]
            assert {(row.state, row.attempts) for row in not_begun} == {("ready", 0)}
            ran = len(begun)
            release.set()
            await until(lambda: working.worker.in_flight == 0)
            assert len(begun) == ran, "what had begun may finish, and nothing else begins"
            await shop.run(lambda connection: resume(connection, shop.jobs))
            await until(lambda: working.worker.report.done == 400)

        assert {row.attempts for row in (await shop.rows()).values()} == {1}


async def test_rows_of_a_claim_that_was_under_way_go_back_when_their_queue_is_paused(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shop_on(database_url) as shop:
        claim, begun = shop.mill.store.claim, []

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            begun.append(job.key)

        await shop.put(3)
        async with shop.working() as working:
            [station] = working.worker.stages

            async def slow(*given: Any) -> list[Lease[Any]]:
                leases = await claim(*given)
                if leases:
                    await shop.run(lambda connection: pause(connection, shop.jobs))
                    await until(station.paused)
                return leases

            monkeypatch.setattr(shop.mill.store, "claim", slow)
            await until(lambda: begun or [fields["move"] for fields in shop.named("settled")] == ["release"] * 3)

        assert begun == []
        assert {(row.state, row.attempts) for row in (await shop.rows()).values()} == {("ready", 0)}
