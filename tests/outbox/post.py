"""An outbox on a fresh database, beside a table of documents that changes with it."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from rowmill import Mill
from rowmill.outbox import Outbox
from rowmill.store import rescue as rescuing
from rowmill.testing import QUICK, Bench
from rowmill.worker import Report


class Base(DeclarativeBase): ...


class Document(Base):
    __tablename__ = "document"

    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str] = mapped_column(default="")


@dataclass(slots=True)
class Post:
    mill: Mill
    outbox: Outbox
    said: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    @property
    def bench(self) -> Bench:
        return Bench(self.mill)

    async def add(self, *events: tuple[str, Any], payload: Any = None) -> None:
        """Events, by type and aggregate, in one transaction."""

        def work(connection: Connection) -> None:
            for event_type, aggregate in events:
                self.outbox.add(connection, event_type, aggregate_id=aggregate, payload=payload)

        await self.mill.run(work)

    async def rows(self) -> list[Any]:
        table = self.outbox.queue.table
        wanted = sa.select(table).order_by(*table.primary_key.columns)
        return await self.mill.run(lambda connection: list(connection.execute(wanted).all()), write=False)

    async def row(self) -> Any:
        [found] = await self.rows()
        return found

    async def states(self) -> list[str]:
        return [row.state for row in await self.rows()]

    async def drain(self) -> Report:
        return await self.mill.drain(settings=QUICK)

    async def advance(self, seconds: float) -> None:
        await self.bench.advance(seconds)

    async def do(self, work: Callable[[Connection], Any]) -> Any:
        return await self.mill.run(work)

    async def sql(self, statement: str) -> None:
        await self.mill.run(lambda connection: connection.exec_driver_sql(statement).close())

    async def rescue(self) -> rescuing.Rescued:
        queue = self.outbox.queue
        sweep = partial(rescuing.rescue, sql=self.mill.store.sql(queue), step=queue.step(), most=100)
        return await self.mill.run(sweep)

    def named(self, name: str) -> list[Mapping[str, Any]]:
        return [fields for event, fields in self.said if event == name]


@asynccontextmanager
async def post_on(url: str, table: Any = None, **options: Any) -> AsyncIterator[Post]:
    mill = Mill(url)
    post = Post(mill, mill.outbox(table, **options))
    mill.observe(lambda event, fields: post.said.append((event, fields)))
    async with mill.opened():
        await mill.migrate(tables=True)
        await mill.run(lambda connection: Base.metadata.create_all(connection, tables=[Document.__table__]))  # type: ignore[list-item]
        yield post
