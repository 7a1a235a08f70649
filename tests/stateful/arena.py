"""One database, one event loop and several workers' stores, for all runs of a state machine."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy import Column, MetaData, Table

from rowmill import Mill, Order, OrderPerKey, Queue, Retry, Stage, States
from rowmill.model.queue import Counts
from rowmill.store import watermark
from rowmill.store.open import open_store
from rowmill.store.own import fleet
from rowmill.store.own.schema import own_tables
from rowmill.store.port import Store
from rowmill.store.postgres.store import PostgresStore
from tests.stateful.model import ATTEMPTS, Model, Words

T = TypeVar("T")
WORKERS = 3
LONG = 3600.0
"""Seconds: a lease or a wait that does not end while a test runs."""

PLAIN = (Words("ready", "running", "ready"),)
STAGED = (Words("fetch", "fetching", "fetch later"), Words("parse", "parsing", "parse later"))


@dataclass(frozen=True)
class Shape:
    """How a queue is declared."""

    name: str
    stages: tuple[Words, ...]
    ranked: bool = False
    in_order: bool = False
    dead_blocks: bool = False
    counts: Counts = "attempts"

    def model(self) -> Model:
        return Model(self.stages, self.in_order, self.dead_blocks, self.counts == "failures")

    def declare(self, mill: Mill) -> Queue[Any]:
        moment = sa.DateTime(timezone=True)
        table = Table(
            "items",
            MetaData(),
            Column("id", sa.Integer, primary_key=True, autoincrement=False),
            Column("per", sa.Text),
            Column("rank", sa.Integer),
            Column("state", sa.Text, nullable=False),
            Column("attempts", sa.Integer, nullable=False, server_default="0"),
            Column("available_at", moment, server_default=sa.func.now()),
            Column("lease", sa.BigInteger),
            Column("leased_until", moment),
            Column("error", sa.Text),
            Column("finished_at", moment),
            Column("result", sa.Text),
        )
        names = ("work",) if len(self.stages) == 1 else ("fetch", "parse")
        stages = [
            Stage(name, words.ready, words.running, None if words.waiting == words.ready else words.waiting)
            for name, words in zip(names, self.stages, strict=True)
        ]
        head: Literal["block", "skip"] = "block" if self.dead_blocks else "skip"
        return mill.queue(
            table,
            states=States(cancelled="cancelled"),
            stages=stages,
            order=Order(priority="rank" if self.ranked else None),
            order_per_key=OrderPerKey(per="per", on_dead=head) if self.in_order else None,
            retry=Retry(attempts=ATTEMPTS),
            lease=LONG,
            counts=self.counts,
        )


SHAPES = (
    Shape("plain", PLAIN),
    Shape("staged, counts failures", STAGED, ranked=True, counts="failures"),
    Shape("in order, dead head blocks", PLAIN, in_order=True, dead_blocks=True),
    Shape("staged, in order, dead head is skipped", STAGED, in_order=True),
)


class Arena:
    def __init__(self, url: str, shape: Shape) -> None:
        self.shape = shape
        self.mill = Mill(url)
        self.queue = shape.declare(self.mill)
        self.stores: list[Store] = [open_store(self.mill.url) for _ in range(WORKERS)]
        self.postgres = self.mill.store.dialect.name == "postgresql"
        self._runner = asyncio.Runner()
        driver = "postgresql+psycopg" if self.postgres else "sqlite"
        self._engine = sa.create_engine(self.mill.url.set(drivername=driver), isolation_level="AUTOCOMMIT")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def __enter__(self) -> Self:
        self.run(self.mill.migrate(tables=True))
        self.connection = self._engine.connect()
        for store in self.stores:
            self.run(store.open())
            store.worker = self.run(store.run(lambda c: fleet.register(c, [self.queue])))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for store in self.stores:
            self.run(store.close())
        self.connection.close()
        self._engine.dispose()
        self._runner.close()

    @property
    def history(self) -> Table:
        return own_tables(self.mill.store.dialect.name).attempt

    def clear(self) -> None:
        self.connection.execute(sa.delete(self.queue.table))
        self.connection.execute(sa.delete(self.history))
        for store in self.stores:
            store.forget(self.queue)
            if isinstance(store, PostgresStore):
                store._unanswered.clear()

    def time_to_look(self, come: bool) -> None:
        """For the oldest row of a queue in order, which workers do by the clock."""
        watermark.OLDEST_EVERY = 0.0 if come else float("inf")

    def insert(self, rows: list[dict[str, Any]], *, shift: float) -> None:
        """As an application would, available so many seconds from now."""
        self.connection.execute(self.queue.insert(rows))
        if shift:
            self.shift("available_at", [row["id"] for row in rows], shift)

    def shift(self, role: str, keys: list[int], seconds: float) -> None:
        """Move a time of these rows. The database's clock can't be turned."""
        column, table = self.queue.columns[role], self.queue.table
        moved: sa.ColumnElement[Any] = sa.literal_column(self.mill.store.sql(self.queue).shifted(column, seconds))
        self.connection.execute(sa.update(table).where(table.c.id.in_(keys)).values({column: moved}))

    def rows(self) -> dict[int, Any]:
        """Everything, as the database has it."""
        table, sql = self.queue.table, self.mill.store.sql(self.queue)
        failures = sa.select(sa.func.count()).where(self.history.c.key == sa.cast(table.c.id, sa.Text))
        due = sa.literal_column(f"({sql.available_at} IS NULL OR {sql.due})", sa.Boolean)
        wanted = sa.select(table, due.label("due"), failures.scalar_subquery().label("failures"))
        return {row.id: row for row in self.connection.execute(wanted)}
