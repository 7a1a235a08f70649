"""Transactions of handlers on PostgreSQL: SQLAlchemy for the handler's statements, the driver for the rest.

SQLAlchemy's connections are in autocommit, and BEGIN, the fence and COMMIT go to the driver directly. SQLAlchemy would
need three more round trips to try a connection, and a greenlet for each of these statements.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import asyncpg
from sqlalchemy import Connection, Engine, PoolProxiedConnection, RootTransaction
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.util import await_only, greenlet_spawn

from rowmill.model.errors import TransientError
from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease
from rowmill.store.flush import Flush, flushes
from rowmill.store.lean_statements import LeanStatements, over
from rowmill.store.line import BROKEN, reason, refused_values
from rowmill.store.port import Disconnected, Settled
from rowmill.store.transactions import Check, Execution, set_block

if TYPE_CHECKING:
    import psycopg

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Whatever the database's own default: the worker renews the lease of a row while its handler's transaction is open,
and in a stricter one that transaction could not settle the row any more."""
WAIT_SECONDS = 30.0
"""How long a handler waits for a connection when others have them all."""
USED = "rowmill_used"
REFUSED = (
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.DataError,
    asyncpg.SyntaxOrAccessError,
    asyncpg.WithCheckOptionViolationError,
)
"""What the database answers if it does not take the values of an outcome, or the move itself."""


class Statements(Protocol):
    """What a transaction asks of its store."""

    def settle_statement(self, flush: Flush) -> tuple[str, list[Any]]: ...

    def lock_statement(self, leases: Sequence[Lease[Any]]) -> tuple[str, list[Any], list[Lease[Any]]]: ...

    async def was_written(self, number: int) -> bool: ...

    def settle_within(self, raw: "psycopg.Connection[Any]", verdicts: Sequence[Verdict]) -> Settled: ...

    def lock_within(self, raw: "psycopg.Connection[Any]", leases: Sequence[Lease[Any]]) -> list[Lease[Any]]: ...


class HandlerConnection:
    """A connection for transactions of async handlers, kept between them: as SQLAlchemy's pool knows it, and the
    driver's own. What handlers get of it is made anew for each block, and ends with it."""

    def __init__(self, engine: AsyncEngine, checked_out: PoolProxiedConnection) -> None:
        self.engine = engine
        self.checked_out = checked_out
        self.adapted: Any = checked_out.dbapi_connection
        self.raw: Any = checked_out.driver_connection

    @classmethod
    async def open(cls, engine: AsyncEngine) -> "HandlerConnection":
        return cls(engine, await greenlet_spawn(engine.sync_engine.raw_connection))

    def drop(self) -> None:
        """Let go of a connection in an unknown state, without waiting for it."""
        self.checked_out.invalidate()
        self.checked_out.close()

    async def close(self) -> None:
        await greenlet_spawn(self.checked_out.close)


class Borrowed:
    """Wraps a pooled connection for SQLAlchemy, so that closing it there keeps it open for the next block."""

    def __init__(self, checked_out: PoolProxiedConnection) -> None:
        self._checked_out = checked_out

    def __getattr__(self, name: str) -> Any:
        return getattr(self._checked_out, name)

    def close(self) -> None: ...

    def _close_special(self, *, transaction_reset: bool = False) -> None: ...


class HandlerConnections:
    """A pool of connections for transactions of async handlers, with an upper limit. Checking one out of SQLAlchemy's
    own pool for each block would take longer than a statement."""

    def __init__(self, engine: AsyncEngine, most: int) -> None:
        self.engine = engine
        self._most = most
        self._free = asyncio.Semaphore(most)
        self._idle: list[HandlerConnection] = []
        self._in_use = self._peak = 0
        self._closed = False

    async def take(self) -> HandlerConnection:
        """A connection on which a transaction was begun just now."""
        if self._free.locked():
            await self._wait()
        else:
            await self._free.acquire()
        self._in_use += 1
        self._peak = max(self._peak, self._in_use)
        try:
            return await self._begun()
        except BaseException:
            self._release()
            raise

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            raise TransientError(
                f"all {self._most} connections for settling() were taken for {WAIT_SECONDS:.0f} s. Give the mill more: "
                "Mill(url, connections=...), or lower the concurrency of its handlers",
                code="no_connection",
            ) from None

    async def _begun(self) -> HandlerConnection:
        """One that broke while nobody used it is dropped, and another taken."""
        while True:
            was_idle = bool(self._idle)
            if was_idle:
                found = self._idle.pop()
            else:
                found = await HandlerConnection.open(self.engine)
            try:
                await found.raw.execute(BEGIN)
            except BaseException as error:
                found.drop()
                if was_idle and isinstance(error, BROKEN):
                    continue
                raise
            return found

    def give_back(self, connection: HandlerConnection, *, reusable: bool) -> None:
        try:
            if reusable and not self._closed:
                self._idle.append(connection)
            else:
                connection.drop()
        finally:
            self._release()

    def _release(self) -> None:
        self._in_use -= 1
        self._free.release()

    async def trim(self) -> None:
        """Close the connections that were not needed since the last time."""
        surplus = max(self._in_use + len(self._idle) - self._peak, 0)
        self._peak = self._in_use
        for _ in range(min(surplus, len(self._idle))):
            if self._idle:
                await self._idle.pop(0).close()

    async def close(self) -> None:
        """Close those that nobody uses; the others follow when they are given back."""
        self._closed = True
        while self._idle:
            await self._idle.pop().close()
        await self.engine.dispose()


class PostgresTransaction:
    """An open transaction of an async handler."""

    def __init__(
        self,
        connections: HandlerConnections,
        statements: Statements,
        next_flush: Callable[[], int],
        connection: HandlerConnection,
    ) -> None:
        self._connections, self._statements = connections, statements
        self._held, self._raw = connection, connection.raw
        self._next_flush = next_flush
        self._flushes: list[Flush] = []
        self._block: Any = None
        self._sql: AsyncConnection | None = None
        """SQLAlchemy's idea of the transaction, for statements that take its way."""
        self._root: RootTransaction | None = None
        self._lean = LeanStatements(connection.engine.sync_engine, connection.raw, connection.adapted, self._made)

    @classmethod
    async def begin(
        cls, connections: HandlerConnections, statements: Statements, next_flush: Callable[[], int]
    ) -> "PostgresTransaction":
        return cls(connections, statements, next_flush, await connections.take())

    @property
    def execution(self) -> Execution:
        return self._lean.execution

    def attach(self, block: Any) -> None:
        self._block = block
        if self._sql is not None:
            set_block(self.sync_connection, block)

    @property
    def connection(self) -> AsyncConnection:
        if self._sql is None:
            if self._lean.over:
                raise over()
            engine, held = self._held.engine, cast(PoolProxiedConnection, Borrowed(self._held.checked_out))
            connection = Connection(engine.sync_engine, connection=held, _allow_revalidate=False)
            set_block(connection, self._block)
            self._root = connection.begin()
            self._sql = AsyncConnection(engine, connection)
        return self._sql

    @property
    def sync_connection(self) -> Connection:
        found = self.connection.sync_connection
        assert found is not None
        return found

    def _made(self, *, wanted: bool) -> Connection | None:
        """SQLAlchemy's connection if it is there already, or if it is wanted."""
        return self.sync_connection if wanted or self._sql is not None else None

    @property
    def ended(self) -> bool:
        if self._raw.is_closed():
            return False  # its fence will say so
        return (self._root is not None and not self._root.is_active) or not self._raw.is_in_transaction()

    async def lock(self, leases: Sequence[Lease[Any]]) -> list[Lease[Any]]:
        statement, arguments, ordered = self._statements.lock_statement(leases)
        held = {row[0] for row in await self._fetch(statement, arguments)}
        return [lease for place, lease in enumerate(ordered, start=1) if place not in held]

    async def finish(self, verdicts: Sequence[Verdict], check: Check) -> None:
        check(await self._settle(verdicts))
        await self._commit()

    def on_commit(self, verdicts: Sequence[Verdict], check: Check) -> None:
        """SQLAlchemy's own commit, which follows, does nothing in autocommit."""
        await_only(self.finish(verdicts, check))

    async def _settle(self, verdicts: Sequence[Verdict]) -> Settled:
        settled = Settled()
        self._flushes = flushes(verdicts, self._next_flush)
        for flush in self._flushes:
            try:
                statement, arguments = self._statements.settle_statement(flush)
                places = (await self._fetch(statement, arguments))[0][0] or ()
            except REFUSED as error:
                settled.refused.append((flush.verdicts[0], refused_values(error)))
                break
            settled.add(flush, places)
        return settled

    async def _commit(self) -> None:
        """If the answer is lost with the connection, the receipt of the settle tells whether it was carried out."""
        try:
            await self._raw.execute("COMMIT")
        except BROKEN as error:
            if self._raw.is_closed() and await self._statements.was_written(self._flushes[0].number):
                return
            raise Disconnected(reason(error)) from error

    async def _fetch(self, statement: str, arguments: Sequence[Any]) -> list[Any]:
        try:
            found: list[Any] = await self._raw.fetch(statement, *arguments)
            return found
        except BROKEN as error:
            raise Disconnected(reason(error)) from error

    async def close(self) -> None:
        self._lean.over = True
        reusable = False
        try:
            if not self._raw.is_closed() and self._raw.is_in_transaction():
                await self._raw.execute("ROLLBACK")
            reusable = self._end_sql() and not self._raw.is_closed()
        except BROKEN:
            pass  # it is dropped
        finally:
            self._connections.give_back(self._held, reusable=reusable)

    def _end_sql(self) -> bool:
        """End what the handler may have of SQLAlchemy; False: it changed the connection beneath."""
        if self._sql is None:
            return True
        connection = self.sync_connection
        if connection.closed or connection.invalidated:
            return False
        changed = connection.get_execution_options() != self._held.engine.sync_engine.get_execution_options()
        connection.close()  # in autocommit, this says nothing to the server
        return not changed


class SyncPostgresTransaction:
    """An open transaction of a sync handler, on psycopg."""

    def __init__(self, statements: Statements, connection: Connection, raw: "psycopg.Connection[Any]") -> None:
        self.connection = connection
        self._root = connection.begin()
        self._statements, self._raw = statements, raw

    @classmethod
    def begin(cls, engine: Engine, statements: Statements) -> "SyncPostgresTransaction":
        """One that broke while nobody used it is dropped, and another taken."""
        while True:
            connection = engine.connect()
            raw: Any = connection.connection.driver_connection
            was_idle = USED in connection.info
            try:
                raw.execute(BEGIN)
            except BaseException as error:
                connection.invalidate()
                connection.close()
                if was_idle and isinstance(error, raw.OperationalError):
                    continue
                raise
            connection.info[USED] = True
            return cls(statements, connection, raw)

    @property
    def ended(self) -> bool:
        return not self._root.is_active or not self._in_transaction

    @property
    def _in_transaction(self) -> bool:
        return not self._raw.closed and self._raw.info.transaction_status.name != "IDLE"

    def lock(self, leases: Sequence[Lease[Any]]) -> list[Lease[Any]]:
        return self._statements.lock_within(self._raw, leases)

    def finish(self, verdicts: Sequence[Verdict], check: Check) -> None:
        check(self._statements.settle_within(self._raw, verdicts))
        self._raw.execute("COMMIT")

    def on_commit(self, verdicts: Sequence[Verdict], check: Check) -> None:
        self.finish(verdicts, check)

    def close(self) -> None:
        try:
            if self._in_transaction:
                self._raw.rollback()
        except self._raw.OperationalError:
            pass
        finally:
            if self._raw.closed or self._in_transaction:
                self.connection.invalidate()
            self.connection.close()
