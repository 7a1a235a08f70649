"""A mill with schedules on a fresh database, driven by hand."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

import rowmill as rm
from rowmill.model.schedule import Schedule
from rowmill.schedules import ticks
from rowmill.schedules.ticks import TicksMade
from rowmill.store import clock
from rowmill.store.own.schema import own_tables

QUICK = rm.worker.WorkerSettings(poll_base=0.01, poll_max=0.05, grace=10.0, heartbeat=0.2, rescue_every=0.1)
SECONDS = 30.0
"""How long anything may take before a test gives up on it."""


class Plant:
    """A mill, and what is in its tables."""

    def __init__(self, mill: rm.Mill) -> None:
        self.mill = mill
        self.events: list[tuple[str, Any]] = []
        mill.observe(lambda name, fields: self.events.append((name, dict(fields))))

    @property
    def own(self) -> Any:
        return own_tables(self.mill.store.dialect.name)

    async def keep(self, *schedules: Schedule, starting: bool = False, soon: float = 5.0) -> TicksMade:
        wanted = schedules or tuple(self.mill.schedules.values())
        return await self.mill.run(lambda c: ticks.make_ticks(c, wanted, soon=soon, starting=starting))

    async def now(self) -> datetime:
        return await self.mill.run(clock.database_now)

    async def ticks(self, name: str | None = None) -> Sequence[Any]:
        tick = self.own.tick
        wanted = sa.select(tick).order_by(tick.c.due_at)
        if name is not None:
            wanted = wanted.where(tick.c.schedule == name)
        return await self.mill.run(lambda c: c.execute(wanted).all(), write=False)

    async def row(self, name: str) -> Any:
        wanted = sa.select(self.own.schedule).where(self.own.schedule.c.name == name)
        return await self.mill.run(lambda c: c.execute(wanted).one(), write=False)

    async def pass_time(self, seconds: float) -> None:
        """Nobody is there for so long: everything that is written down was written that much earlier."""
        back = timedelta(seconds=seconds)

        def work(connection: Connection) -> None:
            for table, columns in (
                (self.own.schedule, ("kept_at", "made_to", "paused_since")),
                (self.own.tick, ("due_at", "available_at", "leased_until", "started_at", "finished_at")),
            ):
                key = next(iter(table.primary_key.columns))
                # The oldest first: each makes room for the one after it.
                order = table.c.due_at if "due_at" in table.c else key
                for row in connection.execute(sa.select(table).order_by(order)).all():
                    moved = {name: getattr(row, name) - back for name in columns if getattr(row, name) is not None}
                    connection.execute(sa.update(table).where(key == getattr(row, key.name)).values(moved))

        await self.mill.run(work)

    async def work_until(self, done: asyncio.Event, settings: rm.worker.WorkerSettings = QUICK) -> rm.worker.Report:
        """Run a worker until this is set."""
        async with self.mill.worker(settings=settings) as worker:
            running = asyncio.create_task(worker.run())
            try:
                async with asyncio.timeout(SECONDS):
                    await done.wait()
            finally:
                worker.stop()
                await running
            return worker.report


@asynccontextmanager
async def plant_on(url: str) -> AsyncIterator[Plant]:
    mill = rm.Mill(url)
    async with mill.opened():
        await mill.migrate()
        yield Plant(mill)


def hourly(name: str = "hourly", cron: str = "0 * * * *", **options: Any) -> Schedule:
    from rowmill.model.schedule import Cron

    return Schedule(name, Cron(cron), lambda tick: None, **options)
