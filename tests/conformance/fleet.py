"""Several workers of one fleet in one process, each with a store of its own, driven by hand."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, MetaData, Table

from rowmill import Lease, Mill, Queue
from rowmill.model import lifecycle
from rowmill.model.judge import Verdict, judge
from rowmill.store import rescue as rescuing
from rowmill.store.own.fleet import register
from rowmill.store.own.schema import own_tables
from rowmill.store.port import Settled, Store
from rowmill.testing import Bench

MOMENT = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

Declare = Callable[[Mill], Queue[Any]]


def jobs(*more: Any, name: str = "jobs", schema: str | None = None, key: Sequence[Any] | None = None) -> Table:
    """A plain table with the columns of a queue. `more` is added; a column of the same name takes the place of ours."""
    ours = [
        *(key if key is not None else [Column("id", SERIAL, primary_key=True)]),
        Column("title", sa.Text),
        Column("state", sa.Text, nullable=False),
        Column("attempts", sa.Integer, nullable=False, server_default="0"),
        Column("available_at", MOMENT),
        Column("lease", sa.BigInteger),
        Column("leased_until", MOMENT),
        Column("error", sa.Text),
        Column("finished_at", MOMENT),
    ]
    given = {column.name for column in more if isinstance(column, Column)}
    return Table(name, MetaData(), *(column for column in ours if column.name not in given), *more, schema=schema)


@dataclass(slots=True)
class Member:
    """One worker: its mill, its queue, and the moves of a lease, one at a time."""

    mill: Mill
    queue: Queue[Any]

    @property
    def store(self) -> Store:
        return self.mill.store

    @property
    def bench(self) -> Bench:
        return Bench(self.mill)

    @property
    def postgres(self) -> bool:
        return self.store.dialect.name == "postgresql"

    async def put(self, *rows: Mapping[str, Any]) -> None:
        await self.bench.insert(self.queue, *rows)

    async def claim(self, limit: int = 1, stage: str | None = None) -> list[Lease[Any]]:
        return await self.store.claim(self.queue, self.queue.step(stage), limit)

    async def settle(self, *answers: tuple[Lease[Any], Any]) -> Settled:
        return await self.store.settle([judge(lease, answer, 0.0) for lease, answer in answers])

    async def release(self, *leases: Lease[Any], wait: float = 0.0) -> Settled:
        return await self.store.settle([Verdict(lease, lifecycle.RELEASE, wait) for lease in leases])

    async def rescue(self, most: int = 100, stage: str | None = None, *, back: float | None = None) -> rescuing.Rescued:
        sql, step = self.store.sql(self.queue), self.queue.step(stage)
        return await self.store.run(lambda connection: rescuing.rescue(connection, sql, step, most, back=back))

    async def expire(self) -> None:
        """Let every lease run out."""
        await self.bench.advance(max(step.lease for step in self.queue.steps) + 1)

    async def rows(self, *order: str) -> list[Any]:
        """Every row as the table has it, in the order of the key or of these columns."""
        by = [self.queue.names[name] for name in order] or list(self.queue.key)
        return await self.read(sa.select(self.queue.table).order_by(*by))

    async def row(self) -> Any:
        [found] = await self.rows()
        return found

    async def read(self, statement: "sa.Select[Any]") -> list[Any]:
        return await self.mill.run(lambda connection: list(connection.execute(statement).all()), write=False)

    async def own(self, table: str) -> list[Any]:
        """Every row of one of Rowmill's own tables."""
        return await self.read(sa.select(getattr(own_tables(self.store.dialect.name), table)))

    async def sql(self, statement: str) -> None:
        """A statement of somebody who does not know Rowmill."""
        await self.mill.run(lambda connection: connection.exec_driver_sql(statement).close())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens by itself and tells nobody."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def create(member: Member) -> None:
    """The table, and whatever it refers to, as an application would make them."""

    def work(connection: sa.Connection) -> None:
        table = member.queue.table
        if table.schema is not None and member.postgres:
            connection.execute(sa.schema.CreateSchema(table.schema, if_not_exists=True))
        table.metadata.create_all(connection)

    await member.mill.run(work)


async def sign_up(mill: Mill, queue: Queue[Any]) -> None:
    mill.store.worker = await mill.run(lambda connection: register(connection, [queue]))


@asynccontextmanager
async def fleet(url: str, declare: Declare, size: int = 1) -> AsyncIterator[list[Member]]:
    """Workers on a fresh database, each with its own connections and number, none of them running."""
    async with AsyncExitStack() as stack:
        members = []
        for place in range(size):
            mill = Mill(url)
            member = Member(mill, declare(mill))
            await stack.enter_async_context(mill.opened())
            if place == 0:
                await create(member)
                await mill.migrate(tables=True)
            await sign_up(mill, member.queue)
            members.append(member)
        yield members


@asynccontextmanager
async def worker(url: str, declare: Declare) -> AsyncIterator[Member]:
    """A fleet of one."""
    async with fleet(url, declare) as [member]:
        yield member
