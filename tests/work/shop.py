"""A queue of jobs on a fresh database, with everything that its worker says and does kept for the test to look at."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection, MetaData, Table

from rowmill import Mill, Queue, Stage, States
from rowmill.store import rescue as rescuing
from rowmill.store.own.schema import own_tables
from rowmill.worker import Report, Worker, WorkerSettings

MOMENT = sa.DateTime(timezone=True)
QUICK = WorkerSettings(poll_base=0.01, poll_max=0.05, grace=10.0, heartbeat=0.2, rescue_every=0.1)
SECONDS = 30.0
"""How long anything may take before a test gives up on it. Nothing waits that long when all is well."""

WORDS = States(ready="ready", running="running", waiting="waiting", done="done", dead="dead", cancelled="cancelled")
TWO_STAGES = (
    Stage("first", ready="new", running="first_running"),
    Stage("second", ready="halfway", running="second_running"),
)


def job_table(name: str = "job") -> Table:
    return Table(
        name,
        MetaData(),
        Column("id", sa.Integer, primary_key=True),
        Column("title", sa.Text),
        Column("result", sa.Text),
        Column("state", sa.Text, nullable=False, server_default="ready"),
        Column("attempts", sa.Integer, nullable=False, server_default="0"),
        Column("available_at", MOMENT),
        Column("lease", sa.BigInteger),
        Column("leased_until", MOMENT),
        Column("error", sa.Text),
        Column("finished_at", MOMENT),
    )


def effect_table() -> Table:
    """Where handlers write something of their own."""
    return Table("effect", MetaData(), Column("id", sa.Integer, primary_key=True), Column("job", sa.Integer))


@dataclass(slots=True)
class Shop:
    mill: Mill
    jobs: Queue[Any]
    events: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    effects: Table = field(default_factory=effect_table)

    @property
    def postgres(self) -> bool:
        return self.mill.store.dialect.name == "postgresql"

    async def put(self, count: int, **values: Any) -> None:
        """So many jobs, with keys from 1."""
        start = await self.count() + 1
        rows = [{"id": key, **values} for key in range(start, start + count)]
        await self.run(lambda connection: connection.execute(self.jobs.insert(rows)).close())

    async def count(self) -> int:
        return len(await self.rows())

    async def rows(self) -> dict[int, Any]:
        """Every job as the table has it, by key."""
        found = await self.mill.run(
            lambda connection: connection.execute(sa.select(self.jobs.table)).all(), write=False
        )
        return {row.id: row for row in found}

    async def row(self, key: int = 1) -> Any:
        return (await self.rows())[key]

    async def states(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for row in (await self.rows()).values():
            found[row.state] = found.get(row.state, 0) + 1
        return found

    async def effected(self) -> list[int]:
        """The jobs whose effect was written, once for each time."""
        statement = sa.select(self.effects.c.job).order_by(self.effects.c.job)
        return list(await self.mill.run(lambda connection: connection.scalars(statement).all(), write=False))

    async def failures(self, key: int = 1) -> list[tuple[int, str]]:
        """(attempt, code) of every failed attempt at a job."""
        attempt = own_tables(self.mill.store.dialect.name).attempt
        statement = sa.select(attempt.c.attempt, attempt.c.code).where(attempt.c.key == str(key)).order_by(attempt.c.id)
        return [tuple(row) for row in await self.mill.run(lambda c: c.execute(statement).all(), write=False)]

    async def sql(self, statement: str) -> None:
        await self.run(lambda connection: connection.exec_driver_sql(statement).close())

    async def run(self, work: Callable[[Connection], Any]) -> Any:
        return await self.mill.run(work)

    async def rob(self, key: int = 1) -> None:
        """Take a running job away from its worker, as a rescue and another claim would."""
        await self.sql(f"UPDATE job SET lease = 77 WHERE id = {key}")

    async def rescue(self) -> rescuing.Rescued:
        sql, step = self.mill.store.sql(self.jobs), self.jobs.step()
        found: rescuing.Rescued = await self.run(lambda connection: rescuing.rescue(connection, sql, step, 1000))
        return found

    async def drain(self, *, rows: int | None = None, seconds: float | None = None, **settings: Any) -> Report:
        async with asyncio.timeout(SECONDS):
            return await self.mill.drain(rows=rows, seconds=seconds, settings=quick(**settings))

    @asynccontextmanager
    async def working(self, **settings: Any) -> AsyncIterator["Working"]:
        """A worker that runs for the time of the block, and is stopped at its end if it was not before."""
        async with self.mill.worker(settings=quick(**settings)) as worker:
            working = Working(worker, asyncio.create_task(worker.run()))
            try:
                yield working
            except BaseException:
                working.task.cancel()
                with suppress(asyncio.CancelledError):
                    await working.task
                raise
            if not working.task.done():
                await working.stop()

    def named(self, name: str) -> list[Mapping[str, Any]]:
        """What was said in events of this name."""
        return [fields for event, fields in self.events if event == name]


@dataclass(slots=True)
class Working:
    worker: Worker
    task: "asyncio.Task[Report]"

    async def stop(self) -> Report:
        self.worker.stop()
        async with asyncio.timeout(SECONDS):
            return await self.task


def quick(**settings: Any) -> WorkerSettings:
    fields = {name: getattr(QUICK, name) for name in WorkerSettings.__dataclass_fields__}
    return WorkerSettings(**(fields | settings))


@asynccontextmanager
async def shop_on(
    url: str, stages: Sequence[Stage] = (), *, fresh: bool = True, connections: int = 15, **options: Any
) -> AsyncIterator[Shop]:
    """A shop on a fresh database, or one more on that of another."""
    mill = Mill(url, connections=connections)
    jobs = mill.queue(job_table(), states=WORDS, stages=stages, **options)
    shop = Shop(mill, jobs)
    mill.observe(lambda event, fields: shop.events.append((event, fields)))
    async with mill.opened():
        if fresh:
            await mill.migrate(tables=True)
            await shop.run(lambda connection: shop.effects.create(connection))
        yield shop


async def until(condition: Callable[[], Any], seconds: float = SECONDS) -> None:
    """Wait for something that nobody tells us of. For what somebody does tell, use an event."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def soon(event: asyncio.Event) -> None:
    async with asyncio.timeout(SECONDS):
        await event.wait()
