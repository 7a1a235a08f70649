"""One connection to PostgreSQL that is made when needed and made again when it broke."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from sqlalchemy import Table
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from rowmill.model.errors import DatabaseUnreachable
from rowmill.store.port import Disconnected
from rowmill.store.postgres_session import SESSION

CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 60.0

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
"""What a server that is away, full or closed to us answers to one who wants to connect."""
BROKEN = (
    *UNREACHABLE,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
)
"""What means that this connection, or the server behind it, is of no use now: let go and come back later."""


MIXED_UP = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
"""A statement that we prepared is not there, or there already: somebody gives out one server connection to several
clients."""
REFUSED_SETTING = "unsupported startup parameter"
"""PgBouncer's words to a client whose session wants settings of its own."""
LOST_SETTING = "SELECT current_setting('enable_seqscan') <> 'off'"


class Line:
    """A connection of its own, used by one statement at a time."""

    def __init__(self, purpose: str, arguments: Mapping[str, Any]) -> None:
        self.purpose = purpose
        self._arguments = arguments
        self._connection: asyncpg.Connection[Any] | None = None
        self._lock = asyncio.Lock()

    async def connect(self) -> "asyncpg.Connection[Any]":
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        settings = SESSION | {"application_name": f"rowmill {self.purpose}"}
        try:
            self._connection = await asyncpg.connect(
                **self._arguments, server_settings=settings, timeout=CONNECT_SECONDS, command_timeout=STATEMENT_SECONDS
            )
        except asyncpg.ProtocolViolationError as error:
            if REFUSED_SETTING in str(error):
                raise pooler_between("it refuses the settings of a worker's session") from error
            raise Disconnected(reason(error)) from error
        except BROKEN as error:
            raise Disconnected(reason(error)) from error
        except asyncpg.PostgresError as error:
            raise Disconnected(reason(error)) from error
        except ValueError:  # it may quote the password
            raise Disconnected("the URL can't be read") from None
        return self._connection

    async def fetch(self, statement: str, *arguments: Any) -> list[Any]:
        async with self._in_use() as connection:
            found: list[Any] = await connection.fetch(statement, *arguments)
            return found

    async def check_session(self) -> None:
        """Raise DatabaseUnreachable if somebody between us and PostgreSQL drops the settings of our session."""
        if (await self.fetch(LOST_SETTING))[0][0]:
            raise pooler_between("it drops the settings of a worker's session")

    async def copy(self, table: Table, runs: Iterable[tuple[Sequence[str], Iterable[Sequence[Any]]]]) -> None:
        """COPY records into a table, by runs that fill the same columns, in one transaction."""
        async with self._in_use() as connection, connection.transaction():
            for columns, records in runs:
                await connection.copy_records_to_table(
                    table.name, schema_name=table.schema, columns=columns, records=records
                )

    @asynccontextmanager
    async def _in_use(self) -> AsyncIterator["asyncpg.Connection[Any]"]:
        """The connection, for one use at a time, dropped if it breaks meanwhile."""
        async with self._lock:
            connection = await self.connect()
            try:
                yield connection
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
        """Let go of a connection that broke, without waiting for it."""
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


def is_away(error: Exception) -> bool:
    """Can the database not be written to just now? Of what happens before there is a connection, SQLAlchemy makes an
    error like any other: only its cause says what it was."""
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
    """Does an error of SQLAlchemy's say that another client got the server connection on which we prepared?"""
    return isinstance(error, DBAPIError) and isinstance(getattr(error.orig, "__cause__", None), MIXED_UP)


def pooler_between(sign: str) -> DatabaseUnreachable:
    """The error of a worker, or of a command, that does not reach PostgreSQL itself."""
    return DatabaseUnreachable(
        f"a pooler, such as PgBouncer, stands between us and PostgreSQL, and keeps no session for us ({sign}). Give "
        "Rowmill a URL that leads to PostgreSQL itself, as ROWMILL_DATABASE_URL or --database-url. The transactions of "
        "handlers may go through the pooler: Mill(pooled_url=...) or ROWMILL_POOLED_URL"
    )


def reason(error: BaseException) -> str:
    """What went wrong, in a line, without the statement and its values, which SQLAlchemy's errors carry."""
    lines = str(getattr(error, "orig", None) or error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def refused_values(error: BaseException) -> str:
    """Why the database refused a value: its class and its constraint or column, never the value itself."""
    where = getattr(error, "constraint_name", None) or getattr(error, "column_name", None)
    return f"{type(error).__name__} ({where})" if where else type(error).__name__
