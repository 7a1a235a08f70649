"""Connections to PostgreSQL that are made when needed and made again when they break, and what errors mean."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import asyncpg
from sqlalchemy import Table
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from rowmill.model.errors import DatabaseUnreachable
from rowmill.store.port import Disconnected, LockTimeout, StatementTimeout
from rowmill.store.postgres.session import SESSION

CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 60.0
PATIENCE = 0.1
"""Seconds that a statement waits for a busy connection before it gets another."""
IDLE_SECONDS = 60.0
"""Seconds after which connections that are no longer needed are closed."""

UNREACHABLE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the driver, when the server hung up while nothing was asked of it
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InvalidAuthorizationSpecificationError,
)
"""Errors while connecting to a server that is away, full, or refuses us."""
BROKEN = (
    *UNREACHABLE,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.TransactionRollbackError,
)
"""Errors that mean that this connection, or the server behind it, is of no use now: drop it and come back later."""


MIXED_UP = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
"""A prepared statement is missing, or exists already: a pooler gives one server connection to several clients."""
REFUSED_SETTING = "unsupported startup parameter"
"""PgBouncer's error for a client that wants session settings of its own."""
LOST_SETTING = "SELECT current_setting('enable_seqscan') <> 'off'"


KEYED = ("23503", "23505", "23P01")
"""SQLSTATEs of violated keys. The details of these errors begin with the columns of the key."""
KEY = re.compile(r"Key \((.+?)\)=\(")


class DedicatedConnection:
    """One connection, used by one statement at a time. It connects when needed."""

    def __init__(self, purpose: str, arguments: Mapping[str, Any], settings: Mapping[str, str] = SESSION) -> None:
        self.purpose = purpose
        self._arguments = arguments
        self._settings = settings
        self._connection: asyncpg.Connection[Any] | None = None
        self._lock = asyncio.Lock()

    @property
    def connected(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    async def connect(self) -> "asyncpg.Connection[Any]":
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        settings = {**self._settings, "application_name": f"rowmill {self.purpose}"}
        try:
            self._connection = await asyncpg.connect(
                **self._arguments, server_settings=settings, timeout=CONNECT_SECONDS, command_timeout=STATEMENT_SECONDS
            )
        except asyncpg.ProtocolViolationError as error:
            if REFUSED_SETTING in str(error):
                raise pooler_between("it refuses the settings of a worker's session") from error
            raise Disconnected(reason(error)) from error
        except (*BROKEN, asyncpg.PostgresError) as error:
            raise Disconnected(reason(error)) from error
        except ValueError:  # it may quote the password
            raise Disconnected("the URL can't be read") from None
        return self._connection

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        async with self._in_use() as connection:
            found: list[Any] = await connection.fetch(statement, *arguments)
            return found

    async def copy(self, table: Table, runs: Iterable[tuple[Sequence[str], Iterable[Sequence[Any]]]]) -> None:
        """COPY records into a table in one transaction, grouped by the columns that they fill."""
        async with self._in_use() as connection, connection.transaction():
            for columns, records in runs:
                await connection.copy_records_to_table(
                    table.name, schema_name=table.schema, columns=columns, records=records
                )

    @asynccontextmanager
    async def _in_use(self) -> AsyncIterator["asyncpg.Connection[Any]"]:
        """Yield the connection to one user at a time. Drop it if it breaks."""
        async with self._lock:
            connection = await self.connect()
            try:
                yield connection
            except asyncpg.LockNotAvailableError as error:
                raise LockTimeout(reason(error)) from error
            except asyncpg.QueryCanceledError as error:  # by statement_timeout, or by a person: the server is well
                raise StatementTimeout(reason(error)) from error
            except TimeoutError as error:
                self.drop()
                raise StatementTimeout(f"no answer within {STATEMENT_SECONDS:.0f} s", unanswered=True) from error
            except MIXED_UP as error:
                self.drop()
                raise pooler_between(type(error).__name__) from error
            except asyncpg.InterfaceError as error:
                if not connection.is_closed():
                    raise
                self.drop()
                raise Disconnected(reason(error)) from error
            except BROKEN as error:
                self.drop()
                raise Disconnected(reason(error)) from error
            except asyncio.CancelledError:
                # The statement may still run on the server: nobody else may see its answer.
                self.drop()
                raise

    def drop(self) -> None:
        """Terminate a connection that broke, without waiting for it."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            connection.terminate()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            try:
                await connection.close(timeout=2.0)
            except (TimeoutError, *BROKEN):
                connection.terminate()


class ConnectionPool:
    """Connections for one purpose. One is enough while statements are fast. A caller that waits for longer than
    PATIENCE gets another, so that a slow statement holds up no other."""

    def __init__(self, purpose: str, arguments: Mapping[str, Any], settings: Mapping[str, str] = SESSION) -> None:
        self._make = partial(DedicatedConnection, purpose, arguments, settings)
        self._first = self._make()
        self._idle: list[DedicatedConnection] = [self._first]
        self._busy: set[DedicatedConnection] = set()
        self._waiting: deque[asyncio.Future[DedicatedConnection]] = deque()
        self._needed_at = 0.0
        """When more than one connection was last in use, on the loop's clock."""

    def __len__(self) -> int:
        """Return the number of connections that are open or in use."""
        return len(self._busy) + sum(connection.connected for connection in self._idle)

    async def connect(self) -> "asyncpg.Connection[Any]":
        """Open the first connection."""
        return await self._first.connect()

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        connection = await self._take()
        try:
            return await connection.fetch(statement, *arguments)
        finally:
            await self._give_back(connection)

    async def check_session(self) -> None:
        """Raise DatabaseUnreachable if a pooler between us and PostgreSQL drops the settings of our session."""
        if (await self.fetch(LOST_SETTING))[0][0]:
            raise pooler_between("it drops the settings of a worker's session")

    async def _take(self) -> DedicatedConnection:
        """Return the connection that was used last; if all are in use, the first one given back, or a new one."""
        free = self._idle and not self._waiting
        connection = self._idle.pop() if free else await self._wait() or self._make()
        self._busy.add(connection)
        return connection

    async def _wait(self) -> DedicatedConnection | None:
        turn: asyncio.Future[DedicatedConnection] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(PATIENCE):
                return await turn
        except TimeoutError:
            return turn.result() if turn.done() and not turn.cancelled() else None
        except BaseException:
            if turn.done() and not turn.cancelled():  # it was handed over just as we are cut off
                self._idle.append(turn.result())
            raise
        finally:
            with suppress(ValueError):
                self._waiting.remove(turn)

    async def _give_back(self, connection: DedicatedConnection) -> None:
        self._busy.discard(connection)
        now = asyncio.get_running_loop().time()
        if self._busy:
            self._needed_at = now
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(connection)
                return
        self._idle.append(connection)
        if len(self._idle) > 1 and now - self._needed_at > IDLE_SECONDS:
            spare, self._idle = self._idle[:-1], self._idle[-1:]
            self._first = self._idle[0]
            for one in spare:
                await one.close()

    async def close(self) -> None:
        for connection in [*self._idle, *self._busy]:
            await connection.close()


def is_away(error: Exception) -> bool:
    """Return whether the database can't be written to just now. If connecting failed, SQLAlchemy raises a general
    error, and only its cause says what it was."""
    if isinstance(error, (*BROKEN, InterfaceError, OperationalError, PoolTimeoutError)):
        return True
    if not isinstance(error, DBAPIError):
        return False
    cause = error.orig.__cause__ if error.orig else None
    return (
        error.connection_invalidated
        or isinstance(cause, asyncpg.ReadOnlySQLTransactionError)
        or (error.statement is None and isinstance(cause, UNREACHABLE))
    )


def is_mixed_up(error: Exception) -> bool:
    """Return whether another client got the server connection on which we had prepared statements."""
    return isinstance(error, DBAPIError) and isinstance(getattr(error.orig, "__cause__", None), MIXED_UP)


def pooler_between(sign: str) -> DatabaseUnreachable:
    """Return the error for a worker or a command that does not reach PostgreSQL itself."""
    return DatabaseUnreachable(
        f"a pooler, such as PgBouncer, stands between us and PostgreSQL, and keeps no session for us ({sign}). Give "
        "Rowmill a URL that leads to PostgreSQL itself, as ROWMILL_DATABASE_URL or --database-url. The transactions of "
        "handlers may go through the pooler: Mill(pooled_url=...) or ROWMILL_POOLED_URL"
    )


def reason(error: BaseException) -> str:
    """Return what went wrong in one line, without the statement and its values, which SQLAlchemy's errors contain."""
    lines = str(getattr(error, "orig", None) or error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def refused_values(error: BaseException) -> str:
    """Return why the database refused a value: the class of the error, with the constraint and columns that it names.
    Never the value."""
    constraint, column = getattr(error, "constraint_name", None), getattr(error, "column_name", None)
    if not column and getattr(error, "sqlstate", None) in KEYED:
        found = KEY.match(getattr(error, "detail", None) or "")
        column = found and found[1]
    parts = [f"{what} {name}" for what, name in (("constraint", constraint), ("column", column)) if name]
    return f"{type(error).__name__} ({', '.join(parts)})" if parts else type(error).__name__
