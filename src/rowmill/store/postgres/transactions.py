"""The transactions of handlers on PostgreSQL: SQLAlchemy runs the handler's statements, the driver the rest.

SQLAlchemy's connections are in autocommit, and BEGIN, the fence and COMMIT go to the driver directly. SQLAlchemy would
need three more round trips to try a connection, and a greenlet for each of these statements.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, cast

import asyncpg
from sqlalchemy import Connection, Engine, PoolProxiedConnection, RootTransaction
from sqlalchemy.engine import Result
from sqlalchemy.engine.cursor import _NO_RESULT_METADATA
from sqlalchemy.engine.result import SimpleResultMetaData
from sqlalchemy.exc import InvalidRequestError, ResourceClosedError
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import Delete, Insert, Update
from sqlalchemy.util import await_only, greenlet_spawn

from rowmill.model.errors import TransientError
from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease
from rowmill.store.port import Disconnected, Settled
from rowmill.store.postgres.connection import BROKEN, reason, refused_values
from rowmill.store.postgres.settle import SettleWriter
from rowmill.store.settle_batch import SettleBatch, settle_batches
from rowmill.store.transactions import Check, Execution, async_proxy, set_block

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine


DIRECT = "rowmill_direct"
"""The key under which a compiled statement keeps its DirectStatement."""


class DirectStatement:
    """How one compiled statement is sent to the driver directly."""

    def __init__(self, compiled: SQLCompiler) -> None:
        self.compiled = compiled
        self.text = compiled.string
        processors = compiled._bind_processors
        self._binds: list[tuple[str, Callable[[Any], Any] | None]] = [
            (name, processors.get(name))  # type: ignore[misc]
            for name in compiled.positiontup or ()
        ]
        self.returns = bool(compiled.implicit_returning)

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        return [values[name] if bind is None else bind(values[name]) for name, bind in self._binds]


def direct(compiled: Any) -> DirectStatement | None:
    """Return how to send a statement directly; None if SQLAlchemy does more for it than to send it."""
    if not isinstance(compiled, SQLCompiler) or compiled.compile_state is None or not compiled.positional:
        return None
    statement: Any = compiled.compile_state.statement
    if (
        statement._returning
        or getattr(statement, "_return_defaults", False)
        or compiled.insert_prefetch
        or compiled.update_prefetch
        or compiled.literal_execute_params
        or compiled.post_compile_params
        or any(_is_read(column, compiled) for column in compiled.implicit_returning or ())
    ):
        return None
    return DirectStatement(compiled)


def _is_read(column: Any, compiled: SQLCompiler) -> bool:
    """Return whether SQLAlchemy converts the values of this column."""
    dialect = compiled.dialect
    return column.type.dialect_impl(dialect).result_processor(dialect, None) is not None


class WriteResult(Result[Any]):
    """The result of an INSERT, UPDATE or DELETE without RETURNING."""

    def __init__(self, direct: DirectStatement, values: Mapping[str, Any], rowcount: int, row: Any) -> None:
        self.returns_rows = direct.returns  # of which SQLAlchemy keeps the key for itself
        names = [str(column.key) for column in direct.compiled.implicit_returning or ()]
        super().__init__(SimpleResultMetaData(names) if direct.returns else _NO_RESULT_METADATA)
        self._direct, self._values, self._row = direct, values, row
        self.rowcount = rowcount
        self.is_insert = direct.compiled.isinsert

    def close(self) -> None:
        """Nothing to do: there are no rows."""

    @property
    def closed(self) -> bool:
        return True

    @property
    def inserted_primary_key(self) -> Any:
        """The primary key of the inserted row."""
        rows = self.inserted_primary_key_rows
        return rows[0] if rows else None

    @property
    def inserted_primary_key_rows(self) -> list[Any]:
        self._check_insert()
        compiled = self._direct.compiled
        if not self._direct.returns:
            return [compiled._inserted_primary_key_from_lastrowid_getter(None, self._values)]
        if self._row is None:
            return []
        return [compiled._inserted_primary_key_from_returning_getter(self._row, self._values)]

    def last_inserted_params(self) -> Mapping[str, Any]:
        self._check_insert()
        return self._values

    def last_updated_params(self) -> Mapping[str, Any]:
        if not self._direct.compiled.isupdate:
            raise InvalidRequestError("this statement is not an UPDATE")
        return self._values

    def _check_insert(self) -> None:
        if not self.is_insert:
            raise InvalidRequestError("this statement is not an INSERT")

    def _fetchall_impl(self) -> list[Any]:
        if not self.returns_rows:
            _NO_RESULT_METADATA._we_dont_return_rows()
        return []

    def _fetchiter_impl(self) -> Any:
        return iter(self._fetchall_impl())

    def _fetchmany_impl(self, size: int | None = None) -> list[Any]:
        return self._fetchall_impl()

    def _fetchone_impl(self, hard_close: bool = False) -> Any:
        self._fetchall_impl()


def over() -> ResourceClosedError:
    """Return the error for a statement that comes after its block."""
    return ResourceClosedError(
        "this settling() block is over: its transaction has ended, and the statement was not sent"
    )


class DirectStatements:
    """Executes the statements of one transaction directly on the driver. `connection` returns SQLAlchemy's connection
    if it exists, or makes it: most blocks need none.

    SQLAlchemy compiles them as usual. What is left out is its execution: a greenlet, a cursor, a context and a result
    for each statement, which take several times as long as the statement itself. Only for INSERT, UPDATE and DELETE of
    a single set of values that return no rows; all others go through SQLAlchemy.
    """

    def __init__(
        self, engine: Engine, raw: "asyncpg.Connection[Any]", adapted: Any, connection: Callable[..., Connection | None]
    ) -> None:
        self._engine: Any = engine
        self._raw, self._adapted, self._connection = raw, adapted, connection
        self.over = False

    def execution(self, statement: Any, values: Any) -> Coroutine[Any, Any, WriteResult] | None:
        """Return the execution of a statement, to be awaited; None if it has to go through SQLAlchemy."""
        if self.over:
            raise over()
        if (
            not isinstance(statement, (Insert, Update, Delete))
            or not (values is None or isinstance(values, Mapping))
            or statement._execution_options
            or not self._is_plain()
        ):
            return None
        compiled, extracted, *more = statement._compile_w_cache(
            self._engine.dialect,
            compiled_cache=self._engine._compiled_cache,
            column_keys=sorted(values) if values else [],
        )
        if extracted is None:
            return None
        kept = vars(compiled)
        if DIRECT not in kept:
            kept[DIRECT] = direct(compiled)
        found: DirectStatement | None = kept[DIRECT]
        if found is None:
            return None
        # SQLAlchemy 2.1 hands out the values of params() beside those of the statement.
        collected = {"_collected_params": more[0]} if len(more) > 1 else {}
        return self._execute(
            found,
            lambda: (
                compiled.construct_params(values, extracted_parameters=extracted, escape_names=False, **collected) or {}
            ),
        )

    def _is_plain(self) -> bool:
        """Return whether nobody listens to statements or logs them, and no options are set that change them."""
        connection: Any = self._connection(wanted=False)
        if _is_watched(self._engine) or self._engine._should_log_info():
            return False
        return connection is None or not (
            connection.closed
            or connection.invalidated
            or _is_watched(connection)
            or connection.get_execution_options().get("schema_translate_map")
        )

    async def _execute(self, direct: DirectStatement, construct: Callable[[], Mapping[str, Any]]) -> WriteResult:
        try:
            values = construct()
            arguments = direct.arguments(values)
        except Exception as error:
            self._raise(error, direct, None)
        try:
            async with self._adapted._execute_mutex:
                if self.over:
                    raise over()
                if direct.returns:
                    rows = await self._raw.fetch(direct.text, *arguments)
                    return WriteResult(direct, values, len(rows), rows[0] if rows else None)
                status = await self._raw.execute(direct.text, *arguments)
        except asyncio.CancelledError:
            self._raw.terminate()  # nobody can say whether it was carried out
            raise
        except ResourceClosedError:
            raise
        except Exception as error:
            self._raise_from_driver(error, direct, arguments)
        return WriteResult(direct, values, _count(status), None)

    def _raise_from_driver(self, error: Exception, direct: DirectStatement, arguments: Any) -> NoReturn:
        """Raise an error of the driver as SQLAlchemy would, as an exception of its own where it has one."""
        try:
            self._adapted._handle_exception(error)
        except Exception as translated:
            if translated is not error:
                self._raise(translated, direct, arguments)
        raise error

    def _raise(self, error: Exception, direct: DirectStatement, values: Any) -> NoReturn:
        connection: Any = self._connection(wanted=True)
        connection._handle_dbapi_exception(error, direct.text, values, None, None)
        raise error


def _is_watched(target: Any) -> bool:
    """Return whether somebody listens to the statements of this connection or engine, to trace them, say."""
    return target._has_events and bool(
        target.dispatch.before_execute
        or target.dispatch.after_execute
        or target.dispatch.before_cursor_execute
        or target.dispatch.after_cursor_execute
        or (target.dialect._has_events and target.dialect.dispatch.do_execute)
    )


def _count(status: str) -> int:
    """Return the number of rows in the server's status, such as UPDATE 3 or INSERT 0 1."""
    last = status.rpartition(" ")[2]
    return int(last) if last.isdecimal() else -1


BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""Begins a transaction at READ COMMITTED, whatever the database's default. The worker renews a row's lease while its
handler's transaction is open; at a stricter level that transaction could not settle the row any more."""
WAIT_SECONDS = 30.0
"""How long a handler waits for a connection when all are in use."""
USED = "rowmill_used"
REFUSED = (
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.DataError,
    asyncpg.SyntaxOrAccessError,
    asyncpg.WithCheckOptionViolationError,
)
"""The errors of a database that refuses the values of an outcome, or the move itself."""


class HandlerConnection:
    """A connection for the transactions of async handlers, kept between them: as SQLAlchemy's pool knows it, and as the
    driver's own. Each block gets a new wrapper, which ends with it."""

    def __init__(self, engine: Engine, checked_out: PoolProxiedConnection) -> None:
        self.engine = engine
        self.checked_out = checked_out
        self.adapted: Any = checked_out.dbapi_connection
        self.raw: Any = checked_out.driver_connection

    @classmethod
    async def open(cls, engine: Engine) -> "HandlerConnection":
        return cls(engine, await greenlet_spawn(engine.raw_connection))

    def drop(self) -> None:
        """Terminate a connection in an unknown state, without waiting for it."""
        self.checked_out.invalidate()
        self.checked_out.close()

    async def close(self) -> None:
        await greenlet_spawn(self.checked_out.close)


class BorrowedConnection:
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

    def __init__(self, engine: Engine, most: int) -> None:
        self.engine = engine
        self._most = most
        self._free = asyncio.Semaphore(most)
        self._idle: list[HandlerConnection] = []
        self._in_use = self._peak = 0
        self._closed = False

    @cached_property
    def async_engine(self) -> "AsyncEngine":
        return async_proxy(self.engine)

    async def take(self) -> HandlerConnection:
        """Return a connection on which a transaction was begun."""
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
        """Begin a transaction on an idle connection. One that broke meanwhile is dropped, and another taken."""
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
        """Close the connections that were not needed since the last call."""
        surplus = max(self._in_use + len(self._idle) - self._peak, 0)
        self._peak = self._in_use
        for _ in range(min(surplus, len(self._idle))):
            if self._idle:
                await self._idle.pop(0).close()

    async def close(self) -> None:
        """Close idle connections. Those in use are closed when they are given back."""
        self._closed = True
        while self._idle:
            await self._idle.pop().close()
        await greenlet_spawn(self.engine.dispose)


class PostgresTransaction:
    """An open transaction of an async handler."""

    def __init__(
        self,
        connections: HandlerConnections,
        settles: SettleWriter,
        connection: HandlerConnection,
    ) -> None:
        self._connections, self._settles = connections, settles
        self._held, self._raw = connection, connection.raw
        self._batches: list[SettleBatch] = []
        self._block: Any = None
        self._sql: AsyncConnection | None = None
        """SQLAlchemy's connection for this transaction, for statements that go through SQLAlchemy."""
        self._root: RootTransaction | None = None
        self._direct = DirectStatements(connection.engine, connection.raw, connection.adapted, self._made)

    @classmethod
    async def begin(cls, connections: HandlerConnections, settles: SettleWriter) -> "PostgresTransaction":
        return cls(connections, settles, await connections.take())

    @property
    def execution(self) -> Execution:
        return self._direct.execution

    def attach(self, block: Any) -> None:
        self._block = block
        if self._sql is not None:
            set_block(self.sync_connection, block)

    @property
    def connection(self) -> "AsyncConnection":
        if self._sql is None:
            from sqlalchemy.ext.asyncio import AsyncConnection  # here, as in `store.transactions`

            if self._direct.over:
                raise over()
            held = cast(PoolProxiedConnection, BorrowedConnection(self._held.checked_out))
            connection = Connection(self._held.engine, connection=held, _allow_revalidate=False)
            set_block(connection, self._block)
            self._root = connection.begin()
            self._sql = AsyncConnection(self._connections.async_engine, connection)
        return self._sql

    @property
    def sync_connection(self) -> Connection:
        found = self.connection.sync_connection
        assert found is not None
        return found

    def _made(self, *, wanted: bool) -> Connection | None:
        """Return SQLAlchemy's connection if it exists, or make it if it is wanted."""
        return self.sync_connection if wanted or self._sql is not None else None

    @property
    def ended(self) -> bool:
        if self._raw.is_closed():
            return False  # its fence will say so
        return (self._root is not None and not self._root.is_active) or not self._raw.is_in_transaction()

    async def lock(self, leases: Sequence[Lease[Any]]) -> list[Lease[Any]]:
        statement, arguments, ordered = self._settles.lock_statement(leases)
        held = {row[0] for row in await self._fetch(statement, arguments)}
        return [lease for place, lease in enumerate(ordered, start=1) if place not in held]

    async def finish(self, verdicts: Sequence[Verdict], check: Check) -> None:
        check(await self._settle(verdicts))
        await self._commit()

    def on_commit(self, verdicts: Sequence[Verdict], check: Check) -> None:
        """Settle and commit. SQLAlchemy's own commit, which follows, does nothing in autocommit."""
        await_only(self.finish(verdicts, check))

    async def _settle(self, verdicts: Sequence[Verdict]) -> Settled:
        settled = Settled()
        self._batches = settle_batches(verdicts, self._settles.next_own_batch)
        for batch in self._batches:
            try:
                statement, arguments = self._settles.settle_statement(batch)
                places = (await self._fetch(statement, arguments))[0][0] or ()
            except REFUSED as error:
                settled.refused.append((batch.verdicts[0], refused_values(error)))
                break
            settled.add(batch, places)
        return settled

    async def _commit(self) -> None:
        """Commit. If the answer is lost with the connection, the receipt of the settle tells whether it was carried
        out."""
        try:
            await self._raw.execute("COMMIT")
        except BROKEN as error:
            if self._raw.is_closed() and await self._settles.was_written(self._batches[0].number):
                return
            raise Disconnected(reason(error)) from error

    async def _fetch(self, statement: str, arguments: Sequence[Any]) -> list[Any]:
        try:
            found: list[Any] = await self._raw.fetch(statement, *arguments)
            return found
        except BROKEN as error:
            raise Disconnected(reason(error)) from error

    async def close(self) -> None:
        self._direct.over = True
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
        """Close SQLAlchemy's connection, if the handler used it. Return False if it changed the connection beneath."""
        if self._sql is None:
            return True
        connection = self.sync_connection
        if connection.closed or connection.invalidated:
            return False
        changed = connection.get_execution_options() != self._held.engine.get_execution_options()
        connection.close()  # in autocommit, this says nothing to the server
        return not changed


class SyncPostgresTransaction:
    """An open transaction of a sync handler, on psycopg."""

    def __init__(self, settles: SettleWriter, connection: Connection, raw: "psycopg.Connection[Any]") -> None:
        self.connection = connection
        self._root = connection.begin()
        self._settles, self._raw = settles, raw

    @classmethod
    def begin(cls, engine: Engine, settles: SettleWriter) -> "SyncPostgresTransaction":
        """Begin a transaction. A connection that broke while it was idle is dropped, and another taken."""
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
            return cls(settles, connection, raw)

    @property
    def ended(self) -> bool:
        return not self._root.is_active or not self._in_transaction

    @property
    def _in_transaction(self) -> bool:
        return not self._raw.closed and self._raw.info.transaction_status.name != "IDLE"

    def lock(self, leases: Sequence[Lease[Any]]) -> list[Lease[Any]]:
        return self._settles.lock_within(self._raw, leases)

    def finish(self, verdicts: Sequence[Verdict], check: Check) -> None:
        check(self._settles.settle_within(self._raw, verdicts))
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
