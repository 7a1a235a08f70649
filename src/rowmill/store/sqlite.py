"""SQLite: one writer connection on a thread of its own, WAL, BEGIN IMMEDIATE."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from rowmill.model import lease as leases_of
from rowmill.model.errors import DatabaseUnreachable, SchemaMismatch
from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease
from rowmill.model.queue import Queue
from rowmill.model.words import Step
from rowmill.store import order_sql
from rowmill.store import sqlite_sql as sql
from rowmill.store.data_version import DataVersion
from rowmill.store.flush import Flush, flushes
from rowmill.store.history import crashed_keys
from rowmill.store.index_facts import bare_name, is_as_wanted
from rowmill.store.indexes import QueueIndex
from rowmill.store.loading import records_of
from rowmill.store.port import Condemned, Disconnected, Settled
from rowmill.store.presence import claim_refused
from rowmill.store.rows import RowLoader, read_text
from rowmill.store.sqlite_sql import SqliteTerms
from rowmill.store.terms import Terms
from rowmill.store.watermark import MAX_LEVELS, STRETCHES, Stretch

T = TypeVar("T")
BUSY_MILLISECONDS = 5000
CLASSES: dict[type, int] = {type(None): 0, int: 1, float: 1, str: 2, bytes: 3}
"""SQLite's order of values of different types, which any column may hold."""


class SqliteStore:
    """A SQLite file. One per process; any number of processes may share the file."""

    def __init__(self, url: URL) -> None:
        self.url = url
        self.engine: AsyncEngine = create_async_engine(url.set(drivername="sqlite+aiosqlite"))
        [self.path], options = self.engine.dialect.create_connect_args(self.engine.url)
        self._uri = bool(options.get("uri"))
        self.may_create = True
        """May a file be made that is not there? Who only looks leaves nothing behind."""
        take_over_transactions(self.engine.sync_engine)
        self._schemas: dict[str | None, str | None] = {}
        self.dialect = self.engine.dialect
        self.worker = 0
        self.data_version = DataVersion(self.path, uri=self._uri)
        self._claim_number = 0
        self._flush_number = 0
        self._terms: dict[str, SqliteTerms] = {}
        self._loaders: dict[str, RowLoader] = {}
        self._binders: dict[tuple[str, str], Callable[[Any], Any] | None] = {}
        self._statements: dict[tuple[Any, ...], str] = {}
        self._connection: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        self.on_condemned: Condemned = lambda *_: None

    @cached_property
    def sync_engine(self) -> Engine:
        """For sync handlers, which get a Session of their own."""
        engine = create_engine(self.url.set(drivername="sqlite"))
        take_over_transactions(engine)
        return engine.execution_options(schema_translate_map=dict(self._schemas)) if self._schemas else engine

    def translate(self, schema: str | None) -> None:
        """A file has no schemas: tables of this one go by their bare names, in users' statements too."""
        if schema is not None and schema not in self._schemas:
            self._schemas[schema] = None
            self.engine = self.engine.execution_options(schema_translate_map=dict(self._schemas))

    async def open(self) -> None:
        self.data_version = DataVersion(self.path, uri=self._uri)  # a new one: it belongs to the loop that waits for it
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rowmill-sqlite")
        try:
            await self._on_thread(self._connect)
        except sqlite3.Error as error:
            raise DatabaseUnreachable(
                f"SQLite file {self.path} can't be opened: {error}. Does its folder exist, and may we write there?"
            ) from error

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._disconnect)
            thread.shutdown()
        self.data_version.close()
        await self.engine.dispose()
        if "sync_engine" in self.__dict__:
            self.sync_engine.dispose()

    def _connect(self) -> None:
        file = Path(self.path)
        if not self.may_create and not self._uri and file.parent.is_dir() and not file.exists():
            raise SchemaMismatch(f"there is no SQLite file {self.path} yet. Run: rowmill migrate")
        self._connection = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, cached_statements=256, uri=self._uri
        )
        switch_to_wal(self._connection)
        prepare(self._connection)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _on_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        if self._thread is None:
            raise Disconnected("the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in a write transaction. A busy or locked file is a broken connection: try again later."""

        def transaction() -> T:
            connection = self._connection
            assert connection is not None
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # a full disk has rolled back already
                    connection.execute("ROLLBACK")
                raise
            return result

        try:
            return await self._on_thread(transaction)
        except sqlite3.OperationalError as error:
            if connection_problem(error):
                raise Disconnected(str(error)) from error
            raise

    def terms(self, queue: Queue[Any]) -> SqliteTerms:
        found = self._terms.get(queue.name)
        if found is None:
            found = self._terms[queue.name] = SqliteTerms(queue, self.dialect)
            self._loaders[queue.name] = RowLoader(found)
        return found

    def forget(self, queue: Queue[Any]) -> None:
        """Nothing is remembered here."""

    async def claim(self, queue: Queue[Any], step: Step, limit: int) -> list[Lease[Any]]:
        terms = self.terms(queue)
        self._claim_number += 1
        token = leases_of.token(self.worker, self._claim_number)

        def work(connection: sqlite3.Connection) -> list[Any]:
            records: list[Any] = []
            if queue.per is not None:
                for find in order_sql.finders(terms):
                    statement = self._by_index(
                        connection, ("claim", queue.name, step.name, find.__name__), terms, step,
                        partial(_claim_found, terms, step, find),
                    )  # fmt: skip
                    if len(records) < limit:
                        records += connection.execute(statement, (token, limit - len(records), step.lease)).fetchall()
                return records
            for stretch, level in self._lanes(connection, terms, step):
                statement = self._by_index(
                    connection, ("claim", queue.name, step.name, stretch), terms, step,
                    partial(sql.claim, terms, step, stretch),
                )  # fmt: skip
                given: list[Any] = [token, limit - len(records), step.lease]
                if terms.priority is not None and stretch is not Stretch.WHOLE:
                    given.append(level)
                taken = connection.execute(statement, given).fetchall()
                records += sorted(taken, key=self._sequence(queue))
                if len(records) >= limit:
                    break
            return records

        try:
            records = await self._write(work)
        except sqlite3.DatabaseError as error:
            if str(error).startswith("no such index"):
                self._statements.clear()  # it was there when they were made
                return await self.claim(queue, step, limit)
            if not str(error).startswith("Could not decode to UTF-8"):
                raise claim_refused(terms, step, refused_values(error)) from error
            # One bad text fails the whole answer. Read by ourselves, which costs time, it fails its row alone.
            assert self._connection is not None
            self._connection.text_factory = read_text
            records = await self._write(work)
        load, now = self._loaders[queue.name], datetime.now(UTC)
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)  # as SQLite's own clock has it
        return [
            Lease(queue, step, load.key(record), token, record[load.attempts_place], now, record, load)
            for record in records
        ]

    def _lanes(self, connection: sqlite3.Connection, terms: SqliteTerms, step: Step) -> list[tuple[Stretch, Any]]:
        levels: list[Any] = [None]
        if terms.priority is not None:
            statement = self._by_index(
                connection, ("priorities", terms.queue.name, step.name), terms, step,
                lambda: order_sql.priorities(terms, step),
            )  # fmt: skip
            levels = [row[0] for row in connection.execute(statement)]
        if len(levels) > MAX_LEVELS:
            return [(Stretch.WHOLE, None)]
        return [(stretch, level) for level in levels for stretch in STRETCHES]

    def _sequence(self, queue: Queue[Any]) -> Callable[[Any], Any]:
        """RETURNING keeps no order: this puts claimed rows back into the order of the claim."""
        columns = list(queue.table.columns)
        places = [columns.index(column) for column in (queue.columns["available_at"], *queue.order_by, *queue.key)]
        level = None if queue.priority is None else columns.index(queue.priority)
        sign = 1 if queue.lower_first else -1

        def key(record: Any) -> Any:
            first = [] if level is None else [sign * (record[level] or 0)]
            return first + [(CLASSES.get(type(record[place]), 1), record[place]) for place in places]

        return key

    def _statement(self, wanted: tuple[Any, ...], make: Callable[[], str]) -> str:
        found = self._statements.get(wanted)
        if found is None:
            found = self._statements[wanted] = make()
        return found

    def _by_index(
        self,
        connection: sqlite3.Connection,
        wanted: tuple[Any, ...],
        terms: SqliteTerms,
        step: Step,
        make: Callable[[], str],
    ) -> str:
        """A statement that looks for rows to claim, bound to those of its indexes that the file has."""

        def usable(index: QueueIndex) -> bool:
            find = "SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?"
            made = connection.execute(find, (bare_name(index),)).fetchone()
            return made is not None and is_as_wanted(made[0], index)

        return self._statement(wanted, lambda: sql.by_index(terms, step, make(), usable))

    async def settle(self, verdicts: Sequence[Verdict]) -> Settled:
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
        groups = flushes(verdicts, self._next_flush)

        def work(connection: sqlite3.Connection) -> None:
            for flush in groups:
                self.settle_flush(connection, flush, settled)

        while True:
            try:
                await self._write(work)
                return settled
            except Disconnected:
                if self._thread is None:
                    raise
                settled = Settled()
                await asyncio.sleep(0.05)

    def _next_flush(self) -> int:
        self._flush_number += 1
        return self._flush_number

    def settle_flush(self, connection: Any, flush: Flush, settled: Settled) -> None:
        """Write a flush, its receipt and its history. `connection` has `execute(statement, parameters)`."""
        statement = self._statement(
            ("settle", flush.queue.name, flush.step.name, flush.move.name, flush.columns),
            lambda: sql.settle(self.terms(flush.queue), flush.step, flush.move, flush.columns),
        )
        about = {"queue": flush.queue.name, "stage": flush.step.name, "worker": self.worker}
        kept = 0
        for verdict in flush.verdicts:
            try:
                changed = connection.execute(statement, self.settle_parameters(verdict)).rowcount
            except Exception as error:  # the database, or a type of the user's, does not take a value
                if connection_problem(getattr(error, "orig", error)):
                    raise
                if not connection.in_transaction:
                    raise RolledBack(refused_values(error)) from error
                settled.refused.append((verdict, refused_values(error)))
                continue
            if changed != 1:
                settled.lost.append(verdict)
                continue
            kept += 1
            if flush.move.failed:
                lease = verdict.lease
                failure = {
                    "key": flush.queue.key_text(lease.key),
                    "attempt": lease.attempt,
                    "started_at": lease.claimed_at.strftime("%Y-%m-%d %H:%M:%S.%f"),
                    "code": verdict.code,
                    "message": verdict.message,
                }
                connection.execute(sql.HISTORY, about | failure)
        settled.kept += kept
        receipt = {"flush": flush.number, "move": flush.move.name, "rows": kept, "seconds": flush.seconds}
        connection.execute(sql.RECEIPT, about | receipt)

    def settle_parameters(self, verdict: Verdict) -> dict[str, Any]:
        lease = verdict.lease
        given = self._fence(lease)
        if verdict.move.delayed:
            given["wait"] = verdict.wait
        if verdict.move.failed:
            given |= {"error": verdict.error, "code": verdict.code}
        for place, (name, value) in enumerate(verdict.values.items()):
            given[f"v{place}"] = self._bind(lease.queue, name, value)
        return given

    def _fence(self, lease: Lease[Any]) -> dict[str, Any]:
        given: dict[str, Any] = {"lease": lease.token}
        for place, part in enumerate(self._loaders[lease.queue.name].raw_key(lease.record)):
            given[f"k{place}"] = part
        return given

    def _bind(self, queue: Queue[Any], name: str, value: Any) -> Any:
        wanted = (queue.name, name)
        if wanted not in self._binders:
            self._binders[wanted] = self.terms(queue).binder(queue.by_name[name])
        bind = self._binders[wanted]
        return value if bind is None else bind(value)

    async def renew(self, leases: Sequence[Lease[Any]]) -> list[Lease[Any]]:
        def work(connection: sqlite3.Connection) -> list[Lease[Any]]:
            lost = []
            for lease in leases:
                terms = self.terms(lease.queue)
                statement = self._statement(("renew", lease.queue.name), partial(sql.renew, terms))
                given = self._fence(lease) | {"seconds": lease.step.lease}
                if connection.execute(statement, given).rowcount != 1:
                    lost.append(lease)
            return lost

        return await self._write(work)

    async def crashed(self, queue: Queue[Any], leases: Sequence[Lease[Any]]) -> set[Any]:
        return await self.run(lambda connection: crashed_keys(connection, queue, leases), write=False)

    async def load(self, queue: Queue[Any], rows: Sequence[Mapping[str, Any]]) -> None:
        terms = self.terms(queue)
        runs = list(records_of(terms, rows))

        def work(connection: sqlite3.Connection) -> None:
            for columns, records in runs:
                names = ", ".join(terms.name(column) for column in columns)
                statement = f"INSERT INTO {terms.table} ({names}) VALUES ({', '.join('?' * len(columns))})"
                connection.executemany(statement, records).close()

        await self._write(work)

    async def wait(self, queues: Sequence[Queue[Any]], seconds: float, who: object = None) -> None:
        await self.data_version.wait(seconds, who)

    async def busy(self, queues: Sequence[Queue[Any]]) -> None:
        """Nobody calls us here: a sleeper looks for itself."""

    async def rouse(self, queues: Sequence[Queue[Any]]) -> None:
        self.data_version.rouse()

    def settle_within(self, connection: Connection, verdict: Verdict) -> Settled:
        """Write one verdict inside a transaction of the user's."""
        settled = Settled()
        for flush in flushes([verdict], self._next_flush):
            self.settle_flush(_Executes(connection), flush, settled)
        return settled

    async def run(self, work: Callable[[Connection], T], *, write: bool = True) -> T:
        try:
            async with self.engine.connect() as connection:
                connection = await connection.execution_options(rowmill_reads=not write)
                async with connection.begin():
                    return await connection.run_sync(work)
        except OperationalError as error:
            if isinstance(error.orig, sqlite3.OperationalError) and connection_problem(error.orig):
                raise Disconnected(str(error.orig)) from error
            raise


def _claim_found(terms: SqliteTerms, step: Step, find: Callable[[Terms, Step, str], str]) -> str:
    return sql.claim_of(terms, step, find(terms, step, "?2"))


class _Executes:
    """A SQLAlchemy connection as `settle_flush` wants it."""

    in_transaction = True

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: dict[str, Any]) -> Any:
        return self._connection.exec_driver_sql(statement, parameters)


def switch_to_wal(connection: sqlite3.Connection) -> None:
    """For a file that is opened for the first time. SQLite does not wait by itself if somebody writes to it just now,
    as another process does that was started at the same time."""
    deadline = monotonic() + BUSY_MILLISECONDS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").close()
            return
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or monotonic() > deadline:
                raise
            sleep(0.01)


def prepare(connection: Any) -> None:
    """What every connection of ours needs. WAL stays with the file; the rest with the connection."""
    for pragma in (
        "journal_mode = WAL",
        "synchronous = NORMAL",
        f"busy_timeout = {BUSY_MILLISECONDS}",
        "foreign_keys = ON",
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def take_over_transactions(engine: Engine) -> None:
    """Begin with the write lock. A transaction that reads first and writes later would meet SQLITE_BUSY at
    once, whatever the timeout, if somebody else wrote in between."""

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        prepare(connection)

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        reads = connection.get_execution_options().get("rowmill_reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


class RolledBack(Exception):
    """A trigger or a constraint of the user's rolled the whole transaction back."""


def refused_values(error: BaseException) -> str:
    """Why the database refused a value: the constraint, where it names one, never the value itself."""
    if isinstance(error, RolledBack):
        return str(error)
    original = getattr(error, "orig", error)
    name = getattr(original, "sqlite_errorname", None) or ""
    if name.startswith("SQLITE_CONSTRAINT") and name != "SQLITE_CONSTRAINT_TRIGGER":
        return f"{type(original).__name__} ({original})"
    return type(original).__name__


def connection_problem(error: object) -> bool:
    """Is the file in use, away or full, so that waiting may help?"""
    name = getattr(error, "sqlite_errorname", None) or ""
    return name.startswith(
        ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_READONLY")
    )
