"""Transactions that stay open during long work: killed by the server, or in the way of everybody else."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from sqlalchemy.engine import make_url

from rowmill import Lease
from tests.work.shop import SECONDS, Shop, shop_on, soon

OPEN = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL
"""
KINDS = pytest.mark.parametrize("kind", ["async", "sync"])


@asynccontextmanager
async def handlers_at_work(shop: Shop, kind: str) -> AsyncIterator[None]:
    """For the time of the block, a handler is at a row, and the other rows wait."""
    begun, go_on, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()

    def wait(job: Lease[Any]) -> None:
        assert job.row.state == "running"
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(SECONDS)

    if kind == "sync":
        shop.jobs.handler(concurrency=1)(wait)
    else:

        @shop.jobs.handler(concurrency=1)
        async def handle(job: Lease[Any]) -> None:
            await asyncio.to_thread(wait, job)

    await shop.put(4)
    async with shop.working() as working:
        await soon(begun)
        try:
            yield
        finally:
            go_on.set()
        assert not working.task.done()


@KINDS
async def test_no_transaction_is_open_while_a_handler_runs(pg_url: str, kind: str) -> None:
    """Beside the handler, the worker sends short statements: there is a moment without any."""
    async with shop_on(pg_url) as shop, handlers_at_work(shop, kind):
        connection = await asyncpg.connect(pg_url)
        async with asyncio.timeout(SECONDS / 3):
            while await connection.fetchval(OPEN):
                await asyncio.sleep(0.01)
        await connection.close()


@KINDS
async def test_the_file_is_not_locked_while_a_handler_runs(sqlite_url: str, kind: str) -> None:
    def write() -> int:
        connection = sqlite3.connect(str(make_url(sqlite_url).database), timeout=SECONDS / 3)
        with connection:
            changed = connection.execute("UPDATE job SET title = 'somebody else was here'").rowcount
        connection.close()
        return changed

    async with shop_on(sqlite_url) as shop, handlers_at_work(shop, kind):
        assert await asyncio.to_thread(write) == 4
