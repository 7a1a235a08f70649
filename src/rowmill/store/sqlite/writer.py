"""Connections to a SQLite file: WAL, transactions that begin with the write lock, and one writer on its own thread."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, event

from rowmill.model.errors import DatabaseUnreachable, SchemaMismatch
from rowmill.store.port import Disconnected


class RolledBack(Exception):
    """A trigger or a constraint of the table rolled the whole transaction back."""


def refused_values(error: BaseException) -> str:
    """Return why the database refused a value: the constraint, if it names one, never the value."""
    if isinstance(error, RolledBack):
        return str(error)
    original = getattr(error, "orig", error)
    name = getattr(original, "sqlite_errorname", None) or ""
    if name.startswith("SQLITE_CONSTRAINT") and name != "SQLITE_CONSTRAINT_TRIGGER":
        return f"{type(original).__name__} ({original})"
    return type(original).__name__


def connection_problem(error: object) -> bool:
    """Return whether the file is locked, away or full, so that waiting may help."""
    name = getattr(error, "sqlite_errorname", None) or ""
    return name.startswith(
        ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_READONLY")
    )


LONGEST_WAIT = 5.0
"""Seconds to wait for a turn: as long as SQLite itself would wait."""


class WriteTurn:
    """One turn to write. It knows itself whether it is over: tasks started during it still see it, and it may end in
    another task than it began in, as in a generator that is not read to its end."""

    now = True


class WriteTurns:
    """Lets one transaction of this process write after another. SQLite would make them wait too, but by polling: of
    fifty that wait, none gets far. For other processes, SQLite's own waiting is used."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._held: ContextVar[WriteTurn | None] = ContextVar("held", default=None)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the turn to write. A caller that has it already, or waits too long, goes on, and SQLite reports the
        conflict."""
        ours = self._held.get()
        if ours is not None and ours.now:
            yield
            return
        taken = await self._taken()
        held = WriteTurn()
        self._held.set(held)
        try:
            yield
        finally:
            held.now = False
            if taken:
                self._lock.release()

    async def _taken(self) -> bool:
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                return await self._lock.acquire()
        except TimeoutError:
            return False


T = TypeVar("T")
BUSY_MILLISECONDS = 5000


class Writer:
    """The connection for claims, settles and renewals."""

    def __init__(self, path: str, *, uri: bool) -> None:
        self.path = path
        self._uri = uri
        self.connection: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._file = ""
        self._opened: tuple[int, int] | None = None
        """The device and inode of the file that we opened."""
        self.turns = WriteTurns()

    @property
    def closed(self) -> bool:
        return self._thread is None

    async def open(self, *, may_create: bool) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rowmill-sqlite")
        self.turns = WriteTurns()  # they belong to the loop that waits for them
        try:
            await self._on_thread(self._connect, may_create)
        except sqlite3.Error as error:
            raise DatabaseUnreachable(
                f"SQLite file {self.path} can't be opened: {error}. Does its folder exist, and may we write there?"
            ) from error

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._disconnect)
            thread.shutdown()

    def _connect(self, may_create: bool) -> None:
        file = Path(self.path)
        if not may_create and not self._uri and file.parent.is_dir() and not file.exists():
            raise SchemaMismatch(f"there is no SQLite file {self.path} yet. Run: rowmill migrate")
        self.connection = sqlite3.connect(
            self.path, isolation_level=None, check_same_thread=False, cached_statements=256, uri=self._uri
        )
        switch_to_wal(self.connection)
        prepare(self.connection)
        self._file = self.connection.execute("PRAGMA database_list").fetchone()[2]  # without what a URI adds to it
        self._opened = _identity(self._file)

    def check_file(self) -> None:
        """Raise DatabaseUnreachable if the file that we have open was deleted or replaced."""
        found = _identity(self._file)
        if found != self._opened:
            what = "deleted" if found is None else "replaced by another file"
            raise DatabaseUnreachable(
                f"SQLite file {self._file} was {what} while we had it open: what we write, nobody would see. "
                "Start this process again"
            )

    def _disconnect(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    async def _on_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        if self._thread is None:
            raise Disconnected("the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run `work` in a write transaction. Raises Disconnected if the file is busy or locked: try again later."""

        def transaction() -> T:
            connection = self.connection
            assert connection is not None
            self.check_file()
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
            async with self.turns.turn():
                return await self._on_thread(transaction)
        except sqlite3.OperationalError as error:
            if connection_problem(error):
                raise Disconnected(str(error)) from error
            raise


def _identity(path: str) -> tuple[int, int] | None:
    """Return what tells a file from another one of the same name; None if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def switch_to_wal(connection: sqlite3.Connection) -> None:
    """Switch a file to WAL when it is first opened. SQLite does not wait by itself while another process writes."""
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
    """Set the pragmas that every connection needs. WAL is kept in the file; the others belong to the connection."""
    for pragma in (
        "journal_mode = WAL",
        "synchronous = NORMAL",
        f"busy_timeout = {BUSY_MILLISECONDS}",
        "foreign_keys = ON",
    ):
        # By a cursor: what `connection.execute` returns on an async engine of SQLAlchemy 2.0 can only be closed by an
        # await, and a statement that is left open keeps the transaction from being committed.
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA {pragma}")
        cursor.close()


class Releasing(sqlite3.Connection):
    """A connection that releases its lock when it is closed. By itself it would not while one of its cursors is alive,
    as in the frames of a cancelled task, and the file would stay locked until these are garbage-collected."""

    def close(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # it is closed already
            self.rollback()
        super().close()


def take_over_transactions(engine: Engine) -> None:
    """Make transactions begin with the write lock. One that reads first and writes later would get SQLITE_BUSY at once,
    whatever the timeout, if somebody else wrote in between."""

    @event.listens_for(engine, "do_connect")
    def on_do_connect(_dialect: Any, _record: Any, _arguments: Any, options: dict[str, Any]) -> None:
        options["factory"] = Releasing

    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        prepare(connection)

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        reads = connection.get_execution_options().get("rowmill_reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
