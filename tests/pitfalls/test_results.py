"""Work that is lost, or forgotten, because of what happens beside it."""

import asyncio
from typing import Any

import sqlalchemy as sa

from rowmill import Lease, Retry, fixed
from rowmill.testing import Bench
from tests.work.shop import shop_on, soon, until


async def test_what_is_done_is_kept_and_what_runs_is_seen_while_others_still_run(database_url: str) -> None:
    """One transaction over a batch would show neither until its end, and lose all of it in a crash."""
    async with shop_on(database_url) as shop, shop_on(database_url, fresh=False) as onlooker:
        slow, go_on = asyncio.Event(), asyncio.Event()

        @shop.jobs.handler(concurrency=2)
        async def handle(job: Lease[Any]) -> dict[str, str]:
            if job.key == 1:
                slow.set()
                await go_on.wait()
            return {"result": "paid for"}

        await shop.put(20)
        async with shop.working() as working:
            await soon(slow)
            await until(lambda: working.worker.report.done == 19)
            rows = await onlooker.rows()
            go_on.set()
            await working.stop()

        assert (rows[1].state, rows[1].result) == ("running", None)
        assert {(rows[key].state, rows[key].result) for key in range(2, 21)} == {("done", "paid for")}


async def test_a_statement_that_fails_in_one_handler_does_not_abort_the_work_of_others(database_url: str) -> None:
    async with shop_on(database_url, retry=Retry(attempts=1)) as shop:

        @shop.jobs.handler(concurrency=10)
        async def handle(job: Lease[Any]) -> None:
            async with job.settling() as session:
                await session.execute(sa.insert(shop.effects).values(job=job.key))
                if job.key % 2:
                    await session.execute(sa.text("SELECT * FROM no_such_table"))

        await shop.put(20)
        report = await shop.drain()

        assert (report.done, report.dead) == (10, 10)
        assert await shop.effected() == [key for key in range(1, 21) if key % 2 == 0]


async def test_a_backoff_is_in_the_row_and_outlives_its_worker(database_url: str) -> None:
    """As a sleep in memory it would hold a slot, and a restart would forget it or cut it short."""
    retry = Retry(attempts=2, backoff=fixed(600.0))
    async with shop_on(database_url, retry=retry) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            raise ValueError("not now")

        await shop.put(1)
        assert (await shop.drain()).again == 1

    async with shop_on(database_url, retry=retry, fresh=False) as restarted:
        attempts = []

        @restarted.jobs.handler()
        async def handle_again(job: Lease[Any]) -> None:
            attempts.append(job.attempt)

        await Bench(restarted.mill).advance(590.0)
        assert (await restarted.drain()).claimed == 0
        await Bench(restarted.mill).advance(11.0)
        assert (await restarted.drain()).done == 1
        assert attempts == [2]


def test_the_default_retries_do_not_give_up_within_a_minute() -> None:
    """Most outages last longer than that."""
    retry = Retry()
    assert sum(retry.wait(attempt, 0.0) for attempt in range(1, retry.attempts)) > 60.0
