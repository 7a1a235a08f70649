"""A worker that lives keeps its rows, though the database stood still for longer than their leases."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill import Lease
from rowmill.maintenance.upkeep import SecondLook
from rowmill.store.own import fleet
from tests.work.shop import Shop, shop_on, soon, until

LEASE = 1.0


@asynccontextmanager
async def nothing_moves(shop: Shop) -> AsyncIterator[None]:
    """Somebody else writes to the file, or has the row locked, until the end of the block."""
    if shop.postgres:
        async with shop.mill.store.engine.connect() as connection:
            await connection.execute(sa.text("SELECT FROM job FOR UPDATE"))
            yield
            await connection.rollback()
        return
    foreign = sqlite3.connect(str(shop.mill.url.database), isolation_level=None)
    try:
        foreign.execute("BEGIN IMMEDIATE")
        yield
        foreign.execute("ROLLBACK")
    finally:
        foreign.close()


async def test_rows_of_a_worker_that_lives_are_not_swept_after_a_stall(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another worker, which is free to sweep at once when the stall is over."""
    async with (
        shop_on(database_url, lease=LEASE) as shop,
        shop_on(database_url, lease=LEASE, fresh=False) as sweeper,
    ):
        running, go = asyncio.Event(), asyncio.Event()
        attempts: list[int] = []

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> dict[str, str]:
            attempts.append(job.attempt)
            running.set()
            await soon(go)
            return {"result": "written"}

        @sweeper.jobs.handler()
        async def nobody(job: Lease[Any]) -> None:
            attempts.append(-job.attempt)

        renew = shop.mill.store.renew

        async def renew_late(leases: Any) -> Any:
            """A busy worker: the sweeper gets its chance first."""
            await asyncio.sleep(LEASE / 2)
            return await renew(leases)

        monkeypatch.setattr(shop.mill.store, "renew", renew_late)
        await shop.put(1)
        async with shop.working(heartbeat=0.1) as working:
            await soon(running)
            async with sweeper.working(heartbeat=0.1, rescue_every=0.05):
                async with nothing_moves(shop):
                    await asyncio.sleep(LEASE * 2.5)
                before = (await shop.row()).leased_until
                async with asyncio.timeout(30):
                    while (await shop.row()).leased_until == before:
                        await asyncio.sleep(0.02)
                go.set()
                await until(lambda: working.worker.report.done == 1)
        row = await shop.row()

    assert attempts == [1]
    assert (row.state, row.result, row.attempts) == ("done", "written", 1)
    assert (shop.named("lost"), shop.named("rescued"), sweeper.named("rescued")) == ([], [], [])


async def test_rows_of_a_worker_that_is_silent_while_others_are_heard_are_swept_at_once(database_url: str) -> None:
    async with shop_on(database_url, lease=LEASE) as shop:
        dead, living, gone = [
            await shop.run(lambda connection: fleet.register(connection, [shop.jobs])) for _ in range(3)
        ]
        await shop.run(lambda connection: fleet.sign_off(connection, gone))
        now = 100.0
        look = SecondLook(0.5, lambda: now)

        async def picked() -> list[int]:
            held = [Row(worker << 36) for worker in (dead, living, gone)]
            ready = await shop.run(lambda connection: look.ready(connection, held, queue="job", stage="", lease=1.0))
            return [row.held >> 36 for row in ready]

        look.answered()
        assert await picked() == [gone], "we have just come: nobody could be heard yet"
        assert look.wait() == 1.0
        for step in range(3):
            now = 100.5 + step / 2
            look.answered()
        await shop.sql(
            f"UPDATE {'rowmill.' if shop.postgres else 'rowmill_'}worker SET seen_at = '2020-01-01' WHERE id = {dead}"
        )
        now = 101.6
        assert await picked() == [dead, living, gone], "the living one did not use its time"
        now = 101.7
        assert await picked() == [dead, gone], "and has a new one for what expires next"
        now = 200.0
        assert await picked() == [living, gone], (
            "this very sweep waited for the end of a stall: the silent one may live"
        )
        look.answered()
        now = 200.1
        assert await picked() == [gone]


class Row(tuple[int]):
    """An expired row, as a sweep sees it."""

    held: int

    def __new__(cls, held: int) -> "Row":
        row = super().__new__(cls, (held,))
        row.held = held
        return row
