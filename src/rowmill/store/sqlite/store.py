"""The SQLite store: claims, settles and renewals by one writer, with reads beside it."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Column, Connection, Engine, create_engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import AsyncAdaptedQueuePool
from sqlalchemy.util import greenlet_spawn

from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease, Tokens, first_claim
from rowmill.model.queue import QueueSpec
from rowmill.model.states import Step
from rowmill.store.bulk_load import Run
from rowmill.store.halving import Halving
from rowmill.store.limits.sqlite import SqliteLimiter
from rowmill.store.own import fleet
from rowmill.store.own.history import crashed_keys
from rowmill.store.port import GONE, Disconnected, Heartbeat, OnBuried, OnRefused, Renewed, Settled
from rowmill.store.refused_rows import report_refused
from rowmill.store.row_sizes import ByteLimit
from rowmill.store.rows import read_text
from rowmill.store.settle_batch import settle_batches
from rowmill.store.sqlite.claim import BURIED_PLACE, buried_rows, claim_around
from rowmill.store.sqlite.settle import Executes, settle_batch
from rowmill.store.sqlite.sql import SqliteQueueSql, holds_statement, renew_statement, value_statement
from rowmill.store.sqlite.statements import SqliteQueueStatements
from rowmill.store.sqlite.wakeup import DataVersion
from rowmill.store.sqlite.writer import RolledBack, Writer, connection_problem, refused_values, take_over_transactions
from rowmill.store.table_checks import claim_refused
from rowmill.store.transactions import (
    AsyncSqlTransaction,
    SyncSqlTransaction,
    async_proxy,
    guard,
    run_in_transaction,
)

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

T = TypeVar("T")


class SqliteStore:
    """A SQLite file. One per process; any number of processes may share the file."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self.pooled: URL | None = None
        # The pool is named: before 2.0.38, SQLAlchemy makes a connection, with a thread of its own, for every use.
        self._engine = create_engine(
            url.set(drivername="sqlite+aiosqlite"), hide_parameters=True, poolclass=AsyncAdaptedQueuePool
        )
        [self.path], options = self._engine.dialect.create_connect_args(self._engine.url)
        self._uri = bool(options.get("uri"))
        self.may_create = True
        take_over_transactions(self._engine)
        guard(self._engine)
        self._schemas: dict[str | None, str | None] = {}
        self.dialect = self._engine.dialect
        self.worker = 0
        self.writer = Writer(self.path, uri=self._uri)
        self.limiter = SqliteLimiter(self.writer)
        self.data_version = DataVersion(self.path, uri=self._uri)
        self._claim_numbers = count(first_claim())
        self._batch_numbers = count(first_claim())  # its receipts bear the worker's number too
        self._statements: dict[tuple[str, ...], SqliteQueueStatements] = {}
        self.on_buried: OnBuried = lambda *_: None
        self.on_refused: OnRefused = lambda *_: None

    @cached_property
    def sync_engine(self) -> Engine:
        """The engine for sync handlers, and for code without an event loop."""
        engine = create_engine(self.url.set(drivername="sqlite"), hide_parameters=True)
        take_over_transactions(engine)
        guard(engine)
        return engine.execution_options(schema_translate_map=dict(self._schemas)) if self._schemas else engine

    def translate(self, schema: str | None) -> None:
        """Use the bare names of this schema's tables, in users' statements too: SQLite has no schemas."""
        if schema is not None and schema not in self._schemas:
            self._schemas[schema] = None
            self._engine = self._engine.execution_options(schema_translate_map=dict(self._schemas))
            self.__dict__.pop("engine", None)

    @cached_property
    def engine(self) -> "AsyncEngine":
        return async_proxy(self._engine)

    @property
    def handlers_engine(self) -> "AsyncEngine":
        return self.engine

    async def check_session(self) -> None:
        """Nothing to check: there is no pooler between us and a file."""

    async def open(self) -> None:
        self.data_version = DataVersion(self.path, uri=self._uri)  # a new one: it belongs to the loop that waits for it
        await self.writer.open(may_create=self.may_create)

    async def close(self) -> None:
        await self.writer.close()
        self.data_version.close()
        await greenlet_spawn(self._engine.dispose)
        if "sync_engine" in self.__dict__:
            self.sync_engine.dispose()

    def statements(self, queue: QueueSpec[Any]) -> SqliteQueueStatements:
        found = self._statements.get(queue.label)
        if found is None or found.sql.queue is not queue:
            found = self._statements[queue.label] = SqliteQueueStatements(SqliteQueueSql(queue, self.dialect))
        return found

    def sql(self, queue: QueueSpec[Any]) -> SqliteQueueSql:
        return self.statements(queue).sql

    def drop_watermarks(self, queue: QueueSpec[Any]) -> None:
        """Nothing to do: every claim starts from the head of the index."""

    def forget(self, queue: QueueSpec[Any]) -> None:
        for one in (queue, *queue.parts):
            for refused in self.statements(one).refusals.values():
                refused.hurry()

    async def claim(
        self, queue: QueueSpec[Any], step: Step, limit: int, within: ByteLimit | None = None
    ) -> list[Lease[Any]]:
        statements = self.statements(queue)
        load = statements.load
        weighed = within if statements.sql.long else None
        while True:
            records = await self._claim(queue, step, statements, limit, weighed)
            now = datetime.now(UTC)
            now = now.replace(microsecond=now.microsecond // 1000 * 1000)  # as SQLite's own clock has it
            leases = [
                Lease(
                    queue, step, load.key(record), record[load.lease_place], record[load.attempts_place], now, record,
                    load, weight=weight,
                )
                for record, weight in zip(records, statements.weigher.weights(records), strict=True)
                if not record[BURIED_PLACE]
            ]  # fmt: skip
            load.with_own_limits(leases)
            buried = buried_rows(statements, step, records) if len(leases) < len(records) else []
            for death in buried:
                self.on_buried(queue, step, death)
            if leases or not buried:
                return leases

    async def _claim(
        self,
        queue: QueueSpec[Any],
        step: Step,
        statements: SqliteQueueStatements,
        limit: int,
        weighed: ByteLimit | None,
    ) -> list[Any]:
        tokens = Tokens(self.worker, self._claim_numbers)
        try:
            records = await claim_around(self.writer, statements, step, tokens, limit, weighed)
        except sqlite3.DatabaseError as error:
            if str(error).startswith("no such index"):
                statements.texts.clear()  # it was there when they were made
                return await self._claim(queue, step, statements, limit, weighed)
            if not str(error).startswith("Could not decode to UTF-8"):
                raise claim_refused(statements.sql, step, refused_values(error)) from error
            # One bad text fails the whole answer. Read by ourselves, which costs time, it fails its row alone.
            assert self.writer.connection is not None
            self.writer.connection.text_factory = read_text
            records = await claim_around(self.writer, statements, step, tokens, limit, weighed)
        if statements.refused(step).has_news:
            await report_refused(self, queue, step, statements.refused(step))
        return records

    async def value(self, lease: Lease[Any], column: "Column[Any]") -> Any:
        statements = self.statements(lease.queue)
        statement, given = statements.once(value_statement, column), statements.fence(lease)
        rows = await self.run(lambda connection: connection.exec_driver_sql(statement, given).all(), write=False)
        return rows[0][0] if rows else GONE

    async def settle(self, verdicts: Sequence[Verdict], *, skip_locked: bool = False) -> Settled:
        try:
            return await self._settle_together(verdicts)
        except (sqlite3.DatabaseError, RolledBack):
            settled = Settled()
        # One of them undid the transaction, or kept it from being committed: each gets one of its own.
        for verdict in verdicts:
            try:
                alone = await self._settle_together([verdict])
            except (sqlite3.DatabaseError, RolledBack) as error:
                settled.refused.append((verdict, refused_values(error)))
            else:
                settled.kept += alone.kept
                settled.lost += alone.lost
                settled.refused += alone.refused
        return settled

    async def _settle_together(self, verdicts: Sequence[Verdict]) -> Settled:
        settled = Settled()
        groups = settle_batches(verdicts, self._next_batch)

        def work(connection: sqlite3.Connection) -> None:
            for batch in groups:
                settle_batch(connection, self.statements(batch.queue), batch, self.worker, settled)

        while True:
            try:
                await self.writer.write(work)
                return settled
            except Disconnected:
                if self.writer.closed:
                    raise
                settled = Settled()
                await asyncio.sleep(0.05)

    def _next_batch(self) -> int:
        return next(self._batch_numbers)

    async def renew(self, leases: Sequence[Lease[Any]]) -> Renewed:
        renewed, halving = Renewed(), Halving(leases)
        for part in halving:
            try:
                renewed.lost += await self.writer.write(partial(self._renew, leases=part))
            except sqlite3.IntegrityError:  # a lease that the table refuses to extend is not lost yet
                halving.split(part)
        return renewed

    def _renew(self, connection: sqlite3.Connection, leases: Sequence[Lease[Any]]) -> list[Lease[Any]]:
        """Extend leases; return those that are gone."""
        lost = []
        for lease in leases:
            statements = self.statements(lease.queue)
            given = statements.fence(lease) | {"seconds": lease.step.lease}
            if connection.execute(statements.once(renew_statement), given).rowcount != 1:
                lost.append(lease)
        return lost

    async def crashed(self, queue: QueueSpec[Any], leases: Sequence[Lease[Any]]) -> set[Any]:
        return await self.run(lambda connection: crashed_keys(connection, queue, leases), write=False)

    async def load(self, queue: QueueSpec[Any], runs: Sequence[Run]) -> None:
        sql = self.sql(queue)

        def work(connection: sqlite3.Connection) -> None:
            for columns, records in runs:
                names = ", ".join(sql.name(column) for column in columns)
                statement = f"INSERT INTO {sql.table} ({names}) VALUES ({', '.join('?' * len(columns))})"
                connection.executemany(statement, records).close()

        await self.writer.write(work)

    async def heartbeat(
        self, worker: int, leadership: str, seconds: float, settle_lag: str | None = None
    ) -> Heartbeat | None:
        return await self.run(lambda connection: fleet.heartbeat(connection, worker, leadership, seconds, settle_lag))

    async def wait(self, queues: Sequence[QueueSpec[Any]], seconds: float, who: object = None) -> None:
        await self.data_version.wait(seconds, who)

    async def busy(self, queues: Sequence[QueueSpec[Any]]) -> None:
        """Nothing to do: producers do not notify here, sleepers look for themselves."""

    async def notify_workers(self, queues: Sequence[QueueSpec[Any]]) -> None:
        self.data_version.notify_workers()

    async def begin(self) -> AsyncSqlTransaction:
        return await AsyncSqlTransaction.begin(self.engine, self.settle_within, self.lock_within, self.turn())

    def begin_sync(self) -> SyncSqlTransaction:
        return SyncSqlTransaction(self.sync_engine.connect(), self.settle_within, self.lock_within)

    def lock_within(self, connection: Connection, leases: Sequence[Lease[Any]]) -> list[Lease[Any]]:
        """Return the leases that are gone. Nobody can take the others: the open transaction holds the lock of the
        file."""
        statements = self.statements(leases[0].queue)
        return [
            lease
            for lease in leases
            if connection.exec_driver_sql(statements.once(holds_statement), statements.fence(lease)).first() is None
        ]

    def settle_within(self, connection: Connection, verdicts: Sequence[Verdict]) -> Settled:
        """Write verdicts inside a transaction of a handler. The batch has a negative number, as on PostgreSQL."""
        settled = Settled()
        for batch in settle_batches(verdicts, lambda: -self._next_batch()):
            settle_batch(Executes(connection), self.statements(batch.queue), batch, self.worker, settled)
        return settled

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Return a context to hold during a transaction that writes: only one may write at a time."""
        return self.writer.turns.turn()

    async def run(self, work: Callable[[Connection], T], *, write: bool = True, whole: bool = True) -> T:
        if not write:
            return await self._run(work, write=False)
        async with self.turn():
            return await self._run(work, write=True)

    async def _run(self, work: Callable[[Connection], T], *, write: bool) -> T:
        self.writer.check_file()
        try:
            return await run_in_transaction(self._engine, work, rowmill_reads=not write)
        except OperationalError as error:
            if isinstance(error.orig, sqlite3.OperationalError) and connection_problem(error.orig):
                raise Disconnected(str(error.orig)) from error
            raise
