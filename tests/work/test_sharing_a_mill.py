"""Several workers of one mill, in one process."""

import asyncio
import threading
from typing import Any

import pytest

from rowmill import Lease, Mill, RowmillError
from rowmill.operator import activity
from tests.work.shop import SECONDS, shop_on


async def test_a_drain_beside_a_worker_of_the_same_mill_signs_off_itself_alone(database_url: str) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        async def standing() -> dict[int, bool]:
            """Who has signed off, by number."""
            return {view.id: view.stopped for view in await shop.run(activity.workers)}

        async with shop.working():
            first = shop.mill.store.worker
            await shop.put(3)
            await shop.drain()
            assert sorted((await standing()).items()) == [(first, False), (first + 1, True)]
            assert shop.mill.store.worker == first

        assert set((await standing()).values()) == {True}


def test_a_mill_that_is_open_on_one_loop_says_so_to_another(database_url: str) -> None:
    """As when threads drain the same mill: its connections belong to the first loop."""
    mill = Mill(database_url)
    opened, done = threading.Event(), threading.Event()

    async def hold() -> None:
        async with mill.opened():
            opened.set()
            await asyncio.to_thread(done.wait, SECONDS)

    thread = threading.Thread(target=lambda: asyncio.run(hold()))
    thread.start()
    try:
        assert opened.wait(SECONDS)
        with pytest.raises(RowmillError, match="open in another event loop"):
            mill.drain_now()
    finally:
        done.set()
        thread.join()
    asyncio.run(mill.migrate())
