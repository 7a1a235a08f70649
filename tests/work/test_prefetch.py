"""Prefetch follows the pace of the handlers, never starves other workers, and waits for the database."""

import asyncio
from typing import Any

import pytest

from rowmill import Lease
from rowmill.worker import WorkerSettings, settler, stage
from rowmill.worker.prefetch import Prefetch
from tests.work.shop import shop_on, soon, until


def test_a_batch_handler_gets_ahead_no_more_than_its_slots_work_off() -> None:
    """Rows of a batch share its time: 100 rows a second, whatever the size of the batch."""
    pace = Prefetch(concurrency=1, batch=100)
    pace.ran(1.0 / 100)
    assert pace.prefetch == 10


async def test_claims_grow_with_fast_handlers(database_url: str) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.handler(concurrency=2)
        async def handle(job: Lease[Any]) -> None: ...

        await shop.put(500)
        report = await shop.drain()

        claims = [fields["rows"] for fields in shop.named("claimed")]
        assert report.done == 500
        assert claims[0] == 2, "nothing is known of the pace yet"
        assert max(claims) > 50


async def test_slow_handlers_take_nothing_ahead(database_url: str) -> None:
    """What lies ready in one process can't be taken by another."""
    async with shop_on(database_url) as shop:
        held: list[int] = []

        @shop.jobs.handler(concurrency=2)
        async def handle(job: Lease[Any]) -> None:
            await asyncio.sleep(0.15)
            held.append(worker.in_flight)

        await shop.put(8)
        async with shop.mill.worker(settings=WorkerSettings(poll_base=0.01, poll_max=0.05)) as worker:
            report = await worker.drain()

        assert report.done == 8
        assert max(held) <= 4, "two run, two wait to be written at the most"


async def test_rows_that_lie_ready_behind_slow_ones_are_given_back(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "STALE", 0.2)
    async with shop_on(database_url) as shop:
        blocked, release = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=2)
        async def handle(job: Lease[Any]) -> None:
            if job.key > 100:
                if not blocked.is_set():
                    blocked.set()
                await release.wait()

        await shop.put(400)
        async with shop.working() as working:
            await soon(blocked)
            await until(lambda: any(fields["move"] == "release" for fields in shop.named("settled")))
            await until(lambda: working.worker.in_flight == 2)
            rows = await shop.rows()
            waiting = [row for row in rows.values() if row.state == "ready"]
            assert waiting
            assert {row.attempts for row in waiting} == {0}, "nobody tried them: it costs no attempt"
            release.set()
            await until(lambda: sum(fields["move"] == "done" for fields in shop.named("settled")) == 400)

        assert await shop.states() == {"done": 400}
        assert {row.attempts for row in (await shop.rows()).values()} == {1}


async def test_handlers_wait_while_too_much_waits_to_be_written(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settler, "WAITING", 60)
    async with shop_on(sqlite_url) as shop:
        ran = 0
        full, release = asyncio.Event(), asyncio.Event()
        settle = shop.mill.store.settle

        async def slow_settle(verdicts: Any, **given: Any) -> Any:
            full.set()
            await release.wait()
            return await settle(verdicts, **given)

        monkeypatch.setattr(shop.mill.store, "settle", slow_settle)

        @shop.jobs.handler(concurrency=2)
        async def handle(job: Lease[Any]) -> None:
            nonlocal ran
            ran += 1

        await shop.put(2000)
        async with shop.working() as working:
            await soon(full)
            seen = -1
            while seen != ran:  # until nothing moves any more
                seen = ran
                await asyncio.sleep(0.2)
            assert ran < 60 + 3 * 2 * stage.ROWS_PER_YIELD
            release.set()
            await until(lambda: working.worker.report.done == 2000)
