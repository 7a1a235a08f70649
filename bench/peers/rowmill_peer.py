"""Rowmill on a table of the user's. `rowmill_peer [--shape SHAPE] VERB URL [N]`, with a shape out of SHAPES."""

import argparse
from collections.abc import Awaitable, Callable
from typing import Any

import sqlalchemy as sa
import uvloop
from sqlalchemy.orm import DeclarativeBase

import rowmill as rm
from bench.peers.kit import Ticks, answer, keep_ahead, one_by_one, repeated, started, timed
from bench.tables import FILL_NARROW, FILL_WIDE, RESULT, STATES, effect, narrow, wide
from rowmill.cli.process import tune_garbage_collector

Lease = rm.Lease[Any]
CONCURRENCY = 10
KEYS = 5000
STAGES = (rm.Stage("first", "queued", "reading"), rm.Stage("second", "read", "writing"))


class Plain:
    """A narrow table and a handler that does nothing."""

    fill = FILL_NARROW

    def __init__(self, url: str) -> None:
        self.mill = rm.Mill(url)
        self.queue = self.declare()

    def declare(self) -> rm.Queue[Any]:
        return self.mill.queue(narrow(sa.MetaData()), states=STATES)

    def handle(self, ticks: Ticks) -> None:
        @self.queue.handler(concurrency=CONCURRENCY)
        async def noop(lease: Lease) -> None:
            ticks.tick()


class Latency(Plain):
    """The handler records when it started."""

    def handle(self, ticks: Ticks) -> None:
        @self.queue.handler(concurrency=CONCURRENCY)
        async def tell(lease: Lease) -> None:
            started(lease.row.payload)
            ticks.tick()


class Wide(Plain):
    """A wide table, with a result that is written with the new state."""

    fill = FILL_WIDE

    def declare(self) -> rm.Queue[Any]:
        return self.mill.queue(wide(sa.MetaData()), states=STATES)

    def handle(self, ticks: Ticks) -> None:
        @self.queue.handler(concurrency=CONCURRENCY)
        async def classify(lease: Lease) -> dict[str, Any]:
            ticks.tick()
            return {"result": RESULT}


class Retries(Plain):
    """Three of ten rows fail once."""

    def handle(self, ticks: Ticks) -> None:
        @self.queue.handler(concurrency=CONCURRENCY)
        async def fail_some(lease: Lease) -> rm.RetryLater | None:
            if lease.attempt == 1 and lease.key % 10 < 3:
                return rm.RetryLater(after=0.0, code="transient", message="try again")
            ticks.tick()
            return None


class Priorities(Plain):
    """Three priorities, mixed."""

    fill = "INSERT INTO bench_ranked (payload, priority) SELECT '{}', g % 3 FROM generate_series(1, :rows) AS g"

    def declare(self) -> rm.Queue[Any]:
        table = narrow(sa.MetaData(), "bench_ranked")
        table.append_column(sa.Column("priority", sa.Integer, nullable=False, server_default="0"))
        return self.mill.queue(table, states=STATES, order=rm.Order(priority="priority"))


class Ordered(Plain):
    """Rows of one key in order."""

    fill = f"INSERT INTO bench_ordered (payload, owner) SELECT '{{}}', g % {KEYS} FROM generate_series(1, :rows) AS g"

    def declare(self) -> rm.Queue[Any]:
        table = narrow(sa.MetaData(), "bench_ordered")
        table.append_column(sa.Column("owner", sa.Integer, nullable=False))
        return self.mill.queue(table, states=STATES, order_per_key=rm.OrderPerKey(per="owner"))


class Stages(Plain):
    """Two stages: every row is claimed and settled twice. It counts when the second starts."""

    def declare(self) -> rm.Queue[Any]:
        return self.mill.queue(narrow(sa.MetaData()), states=STATES, stages=STAGES)

    def handle(self, ticks: Ticks) -> None:
        @self.queue.handler(stage="first", concurrency=CONCURRENCY)
        async def read(lease: Lease) -> None:
            pass

        @self.queue.handler(stage="second", concurrency=CONCURRENCY)
        async def write(lease: Lease) -> None:
            ticks.tick()


class Batches(Plain):
    """A handler that takes a hundred rows at a time."""

    def handle(self, ticks: Ticks) -> None:
        @self.queue.batch_handler(size=100, concurrency=2)
        async def noop(leases: list[Lease]) -> None:
            for _ in leases:
                ticks.tick()


class Sync(Plain):
    """A sync handler, in threads."""

    def handle(self, ticks: Ticks) -> None:
        @self.queue.handler(concurrency=CONCURRENCY)
        def noop(lease: Lease) -> None:
            ticks.tick()


class Base(DeclarativeBase):
    pass


class Noted(Base):
    """What a handler writes besides its row."""

    __table__ = effect(Base.metadata)


class Settling(Plain):
    """One INSERT in the transaction that settles the row, as a SQLAlchemy Core statement."""

    def handle(self, ticks: Ticks) -> None:
        noted = Noted.__table__

        @self.queue.handler(concurrency=CONCURRENCY)
        async def note(lease: Lease) -> None:
            async with lease.settling() as tx:
                await tx.execute(sa.insert(noted).values(job=lease.key))
            ticks.tick()


class SettlingOrm(Settling):
    """The same with an ORM object."""

    def handle(self, ticks: Ticks) -> None:
        @self.queue.handler(concurrency=CONCURRENCY)
        async def note(lease: Lease) -> None:
            async with lease.settling() as tx:
                tx.add(Noted(job=lease.key))
            ticks.tick()


class SettlingSync(Settling):
    """The same in threads."""

    def handle(self, ticks: Ticks) -> None:
        noted = Noted.__table__

        @self.queue.handler(concurrency=CONCURRENCY)
        def note(lease: Lease) -> None:
            with lease.settling() as tx:
                tx.execute(sa.insert(noted).values(job=lease.key))
            ticks.tick()


class SettlingBatch(Settling):
    """A hundred rows and their effects in one transaction."""

    def handle(self, ticks: Ticks) -> None:
        noted = Noted.__table__

        @self.queue.batch_handler(size=100, concurrency=4)
        async def note(batch: rm.Batch[Any]) -> None:
            async with batch.settling() as tx:
                await tx.execute(sa.insert(noted), [{"job": lease.key} for lease in tx.leases])
            for _ in batch:
                ticks.tick()


class Limited(Plain):
    """A limit on calls that is never reached."""

    def handle(self, ticks: Ticks) -> None:
        limit = self.mill.limit("provider", rate=rm.limits.Rate(10_000_000, per=1.0))

        @self.queue.handler(concurrency=CONCURRENCY, limits=[self.declared(limit)])
        async def noop(lease: Lease) -> None:
            ticks.tick()

    def declared(self, limit: rm.limits.Limit) -> Any:
        return limit


class Keyed(Limited):
    """The same with fifty keys."""

    def declared(self, limit: rm.limits.Limit) -> Any:
        return limit.by(lambda row: row.id % 50)


SHAPES: dict[str, type[Plain]] = {
    kind.__name__.lower(): kind
    for kind in (
        Plain,
        Latency,
        Wide,
        Retries,
        Priorities,
        Ordered,
        Stages,
        Batches,
        Sync,
        Settling,
        SettlingOrm,
        SettlingSync,
        SettlingBatch,
        Limited,
        Keyed,
    )
}


class Program:
    def __init__(self, shape: Plain) -> None:
        self.shape = shape
        self.mill, self.queue = shape.mill, shape.queue

    async def setup(self) -> None:
        await self.mill.migrate(tables=True)
        await self.mill.run(Noted.metadata.create_all)
        answer(done="setup")

    async def load(self, rows: int) -> None:
        if self.mill.url.get_backend_name() == "sqlite":
            await self.mill.run(lambda c: c.execute(self.queue.table.insert(), [{"payload": {}}] * rows).close())
        else:
            await self.mill.run(lambda c: c.execute(sa.text(self.shape.fill), {"rows": rows}).close())
        answer(done="load")

    async def single(self, rows: int) -> None:
        """One INSERT and one transaction each, like the user's own code."""
        async with self.mill.store.engine.connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            raw = (await connection.get_raw_connection()).driver_connection
            assert raw is not None
            insert = await raw.prepare(f"INSERT INTO {self.queue.table.name} (payload) VALUES ($1)")

            await repeated(rows, lambda: insert.fetch("{}"))

    async def bulk(self, rows: int) -> None:
        async with self.mill.opened():
            given: list[dict[str, Any]] = [{"payload": {}} for _ in range(rows)]
            await timed(self.queue.load(given))

    async def feed(self, ahead: int) -> None:
        put = sa.text(self.shape.fill)

        async def chunk(rows: int) -> None:
            await self.mill.run(lambda c: c.execute(put, {"rows": rows}).close())

        async with self.mill.opened():
            await keep_ahead(ahead, chunk)

    async def send(self, rows: int) -> None:
        async with self.mill.store.engine.connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            await one_by_one(rows, lambda n: connection.execute(self.queue.table.insert(), {"payload": n}))

    async def work(self) -> None:
        self.shape.handle(Ticks())
        tune_garbage_collector()  # as `rowmill work` does
        async with self.mill.worker() as worker:
            await worker.run()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=SHAPES, default="plain")
    parser.add_argument("verb")
    parser.add_argument("url")
    parser.add_argument("numbers", nargs="*", type=int)
    given = parser.parse_args()
    verb: Callable[..., Awaitable[None]] = getattr(Program(SHAPES[given.shape](given.url)), given.verb)
    await verb(*given.numbers)


if __name__ == "__main__":
    uvloop.run(main())
