"""Bound the time of a question to the database."""

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import sqlalchemy as sa

from rowmill.mill import Mill
from rowmill.model.errors import BadRequest, DatabaseUnreachable, RowmillError
from rowmill.store.own import schema
from rowmill.store.port import Disconnected

T = TypeVar("T")
TICK_SECONDS = 60
"""After this, Dagster gives a tick up."""


class TickOverdue(RowmillError):
    """The database did not answer in time."""


class BackgroundCall(Generic[T]):
    """A call of a function in a thread of its own, whether or not the caller's thread runs an event loop."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._results: list[T] = []
        self._error: BaseException | None = None
        # Not Thread.join: in Python 3.11, a signal that interrupts it makes the thread pass for ended ever after.
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="rowmill", daemon=True).start()

    def _run(self) -> None:
        try:
            self._results.append(self._work())
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()

    def ended(self, seconds: float | None = None) -> bool:
        """Wait for the end. Return whether it has come."""
        return self._ended.wait(seconds)

    def result(self) -> T:
        """Return what the function returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._results[0]


def call_in_thread(work: Callable[[], T]) -> T:
    """Call a function in a thread, and wait for it. A signal interrupts the wait."""
    call = BackgroundCall(work)
    call.ended()
    return call.result()


class BoundedCall(Generic[T]):
    """Calls a function in a thread, and stops waiting at the deadline. While an overdue call has not returned, no other
    is begun: threads do not pile up behind a database that hangs."""

    def __init__(self, seconds: float) -> None:
        if not 0 < seconds < TICK_SECONDS:
            raise BadRequest(f"a tick of Dagster has {TICK_SECONDS} seconds, and deadline must be less, not {seconds}")
        self.seconds = seconds
        self._overdue: BackgroundCall[T] | None = None

    def __call__(self, work: Callable[[], T]) -> T:
        """Return what the function returns, or raise what it raises. Raises TickOverdue at the deadline."""
        if self._overdue is not None and not self._overdue.ended(0):
            raise TickOverdue("the database has not answered an earlier tick yet")
        call = BackgroundCall(work)
        if not call.ended(self.seconds):
            self._overdue = call
            raise TickOverdue(f"the database did not answer within {self.seconds:g} seconds")
        return call.result()


def ask(mill: Mill, question: Callable[[sa.Connection], T], seconds: float) -> T:
    """Run a read on the mill's database. The database cancels a statement that takes longer than `seconds`."""

    def bounded(connection: sa.Connection) -> T:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.text(f"SET LOCAL statement_timeout = {round(seconds * 1000)}"))
        return question(connection)

    async def run() -> T:
        async with asyncio.timeout(seconds):
            return await mill.run(schema.checked(bounded), write=False)

    try:
        return mill.run_blocking(run, "a tick", "a thread of its own")
    except TimeoutError:
        raise TickOverdue(f"the database did not answer within {seconds:g} seconds") from None


SQLITE_ERROR = 1
"""SQLite's code for a statement that is wrong, as for a table that is missing."""


def is_away(error: Exception) -> bool:
    """Return whether an error says that the database can't be asked now. Anything else is a mistake to correct."""
    if isinstance(error, sa.exc.OperationalError):
        return getattr(error.orig, "sqlite_errorcode", None) != SQLITE_ERROR
    return isinstance(
        error, (DatabaseUnreachable, Disconnected, TickOverdue, sa.exc.InterfaceError, sa.exc.TimeoutError, OSError)
    )


def reason(error: Exception) -> str:
    """Describe in one line why the database can't be asked."""
    text = str(error.orig if isinstance(error, sa.exc.DBAPIError) else error)
    return next(iter(text.splitlines()), type(error).__name__)
