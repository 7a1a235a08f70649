"""`await queue.requeue(key)`: what an application does when a person asks for a row to be worked on again."""

from typing import Any

from rowmill import Dead, Lease
from tests.work.shop import shop_on


async def test_rows_are_put_back_by_key_unless_somebody_works_on_them(database_url: str) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> Any:
            return Dead("broken") if job.key == 2 else None

        await shop.put(3)
        await shop.mill.drain()
        await shop.put(1)
        await shop.mill.store.claim(shop.jobs, shop.jobs.steps[0], 1)

        assert await shop.jobs.requeue(1, 2, 4, 99) == 2

        rows = await shop.rows()
        assert [rows[key].state for key in (1, 2, 3, 4)] == ["ready", "ready", "done", "running"]
        assert [(rows[key].attempts, rows[key].error, rows[key].finished_at) for key in (1, 2)] == [(0, None, None)] * 2


async def test_no_keys_are_no_rows(database_url: str) -> None:
    """And not every dead one."""
    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> Any:
            return Dead("broken")

        await shop.put(2)
        await shop.mill.drain()
        assert await shop.jobs.requeue() == 0
        assert {row.state for row in (await shop.rows()).values()} == {"dead"}
