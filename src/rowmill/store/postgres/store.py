"""The PostgreSQL store: claims, settles and renewals over asyncpg, each on connections of their own."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
from sqlalchemy import Column, Connection, Engine
from sqlalchemy.engine import URL
from sqlalchemy.util import greenlet_spawn

from rowmill.model.errors import DatabaseUnreachable, MissingRights
from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease, Tokens, first_claim
from rowmill.model.queue import QueueSpec
from rowmill.model.states import Step
from rowmill.store import dsn
from rowmill.store.bulk_load import Run
from rowmill.store.limits.postgres import PostgresLimiter
from rowmill.store.own import fleet, privileges
from rowmill.store.own.history import crashed_keys
from rowmill.store.own.schema import SCHEMA
from rowmill.store.port import (
    CONNECTIONS,
    GONE,
    Disconnected,
    Heartbeat,
    OnBuried,
    OnRefused,
    Renewed,
    Settled,
)
from rowmill.store.postgres.claim import (
    UNREADABLE,
    buried_rows,
    claim_rows,
    hold_our_tokens,
    leases_of,
    read_one_by_one,
    release_claim,
    step_back,
)
from rowmill.store.postgres.connection import (
    ConnectionPool,
    DedicatedConnection,
    is_away,
    is_mixed_up,
    pooler_between,
    reason,
    refused_values,
)
from rowmill.store.postgres.engines import (
    async_engine,
    handler_engine,
    sync_engine,
    sync_handler_engine,
    upkeep_engine,
)
from rowmill.store.postgres.renew import renew_leases
from rowmill.store.postgres.session import ALIVE, IMPATIENT, SESSION
from rowmill.store.postgres.settle import SETTLE_LOCK_TIMEOUT, SettleWriter
from rowmill.store.postgres.sql import NOW, PostgresQueueSql, value_statement
from rowmill.store.postgres.statements import QueueStatements
from rowmill.store.postgres.transactions import HandlerConnections, PostgresTransaction, SyncPostgresTransaction
from rowmill.store.postgres.values import numbers
from rowmill.store.postgres.wakeup import Listener
from rowmill.store.refused_rows import report_refused
from rowmill.store.row_sizes import ByteLimit
from rowmill.store.table_checks import claim_refused, lease_changed
from rowmill.store.transactions import async_proxy, run_in_transaction

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

T = TypeVar("T")
KEPT = 5
"""Idle connections, for statements outside the hot path, that stay open."""
TRIM_SECONDS = 60.0
"""Seconds between two checks for connections of handlers that are no longer needed."""
CLOSE_SECONDS = 2.0
LATE_SECONDS = 5.0
"""Seconds after which a claim whose answer was lost can't take rows any more."""
TABLE_LOCK_TIMEOUT = "1s"
"""For tables that are locked as a whole. Claims and renewals pass over locked rows anyway."""
# served by: the primary keys of worker and leader. A leader's row that somebody else has locked is passed over: a
# process that is frozen while it holds the lock must not delay our sign of life.
HEARTBEAT = (
    f"WITH seen AS (UPDATE {SCHEMA}.worker SET seen_at = {NOW}, settle_lag = $4::text WHERE id = $1::bigint "
    "RETURNING id), "
    f"free AS (SELECT name FROM {SCHEMA}.leader WHERE name = $2::text AND (worker = $1::bigint OR until < {NOW}) "
    "FOR UPDATE SKIP LOCKED), "
    f"led AS (UPDATE {SCHEMA}.leader AS t SET worker = seen.id, until = {NOW} + $3::float8 * interval '1 second' "
    "FROM free, seen WHERE t.name = free.name RETURNING t.name) "
    "SELECT EXISTS (SELECT FROM seen) AS known, EXISTS (SELECT FROM led) AS leading, "
    f"EXISTS (SELECT FROM {SCHEMA}.leader WHERE name = $2::text) AS leadership, "
    f"ARRAY(SELECT queue FROM {SCHEMA}.pause ORDER BY queue, stage) AS queues, "
    f"ARRAY(SELECT stage FROM {SCHEMA}.pause ORDER BY queue, stage) AS stages"
)
"""$1 worker, $2 name of the leadership, $3 seconds, $4 what could not be written. `leadership` is false where nobody
ever led: the row has to be inserted."""


class PostgresStore:
    """A PostgreSQL database. One per process."""

    def __init__(self, url: URL, connections: int = CONNECTIONS, pooled: URL | None = None) -> None:
        self.url = url
        self.pooled = pooled
        """The URL of the same database through a pooler, for the transactions of handlers."""
        self._pool = {"pool_size": min(connections, KEPT), "max_overflow": max(connections - KEPT, 0)}
        self._engine = async_engine(url, ALIVE, **self._pool)
        self._most = connections
        # Apart from the handlers': signs of life must not wait for transactions of users.
        self.upkeep = upkeep_engine(url, IMPATIENT, pool_size=1, max_overflow=4)
        self.dialect = self._engine.dialect
        self._connections()
        self.worker = 0
        self.may_create = False
        self._claim_numbers = count(first_claim())
        self._statements: dict[tuple[str, ...], QueueStatements] = {}
        self._unanswered: dict[int, tuple[QueueSpec[Any], Step, float]] = {}
        self._trimming: asyncio.Task[None] | None = None
        self.on_buried: OnBuried = lambda *_: None
        self.on_refused: OnRefused = lambda *_: None

    def _connections(self) -> None:
        """Make new connection objects each time we open: their locks and futures belong to one event loop."""
        arguments = dsn.for_asyncpg(self.url)
        self.claims = ConnectionPool("claim", arguments, {**SESSION, "lock_timeout": TABLE_LOCK_TIMEOUT})
        self.settles = ConnectionPool("settle", arguments, {**SESSION, "lock_timeout": SETTLE_LOCK_TIMEOUT})
        self.settlement = SettleWriter(self, self.settles)
        self.renewals = ConnectionPool("renew", arguments, {**SESSION, "lock_timeout": TABLE_LOCK_TIMEOUT})
        self.loads = DedicatedConnection("load", arguments)
        self.limits = DedicatedConnection("limit", arguments)
        self.values = ConnectionPool("value", arguments)
        self.limiter = PostgresLimiter(self.limits)
        engine = handler_engine(self.pooled or self.url, pooled=self.pooled is not None)
        self.handlers = HandlerConnections(engine, self._most)
        self.listener = Listener(DedicatedConnection("listen", arguments))

    @cached_property
    def engine(self) -> "AsyncEngine":
        return async_proxy(self._engine)

    @property
    def handlers_engine(self) -> "AsyncEngine":
        return self.handlers.async_engine

    @cached_property
    def sync_engine(self) -> Engine:
        """The engine for code without an event loop."""
        return sync_engine(self.url, **self._pool)

    @cached_property
    def sync_handlers(self) -> Engine:
        """The engine for the transactions of sync handlers."""
        return sync_handler_engine(self.pooled or self.url, self._most, pooled=self.pooled is not None)

    async def open(self) -> None:
        self._connections()
        try:
            await self.claims.connect()
        except Disconnected as error:
            raise DatabaseUnreachable(
                f"PostgreSQL at {dsn.shown(self.url)} does not answer: {error}. "
                "Is it running, and is DATABASE_URL right?"
            ) from error
        self._trimming = asyncio.create_task(self._trim(), name="connections of handlers")

    async def _trim(self) -> None:
        while True:
            await asyncio.sleep(TRIM_SECONDS)
            await self.handlers.trim()

    async def check_session(self) -> None:
        await self.claims.check_session()

    async def close(self) -> None:
        self.settlement.closing = True
        if self._unanswered:
            with suppress(Disconnected, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._give_back_unanswered()
            self._unanswered.clear()
        await self.listener.close()
        for connection in (self.claims, self.settles, self.renewals, self.loads, self.limits, self.values):
            await connection.close()
        if self._trimming is not None:
            self._trimming.cancel()
            await asyncio.gather(self._trimming, return_exceptions=True)
        await self.handlers.close()
        for engine in (self._engine, self.upkeep):
            await greenlet_spawn(engine.dispose)
        for made in ("sync_engine", "sync_handlers"):
            if made in self.__dict__:
                self.__dict__.pop(made).dispose()

    def statements(self, queue: QueueSpec[Any]) -> QueueStatements:
        found = self._statements.get(queue.label)
        if found is None or found.sql.queue is not queue:
            found = self._statements[queue.label] = QueueStatements(PostgresQueueSql(queue, self.dialect))
        return found

    def sql(self, queue: QueueSpec[Any]) -> PostgresQueueSql:
        return self.statements(queue).sql

    def drop_watermarks(self, queue: QueueSpec[Any]) -> None:
        for one in (queue, *queue.parts):
            for mark in self.statements(one).marks.values():
                mark.drop()

    def forget(self, queue: QueueSpec[Any]) -> None:
        self.drop_watermarks(queue)
        for one in (queue, *queue.parts):
            for refused in self.statements(one).refusals.values():
                refused.hurry()

    async def claim(
        self, queue: QueueSpec[Any], step: Step, limit: int, within: ByteLimit | None = None
    ) -> list[Lease[Any]]:
        statements = self.statements(queue)
        weighed = within if statements.sql.long else None
        while True:
            if weighed is not None:
                weighed.counted = 0
            await self._give_back_unanswered(queue)
            records = await self._claim(queue, step, statements, limit, weighed)
            leases = leases_of(statements, step, records, weighed)
            buried = buried_rows(statements, step, records) if len(leases) < len(records) else []
            for death in buried:
                self.on_buried(queue, step, death)
            if leases or not buried:
                return leases

    async def _claim(
        self, queue: QueueSpec[Any], step: Step, statements: QueueStatements, limit: int, within: ByteLimit | None
    ) -> list[Any]:
        tokens = Tokens(self.worker, self._claim_numbers)
        try:
            records = await self._take(statements, step, tokens, limit, within)
            if statements.refused(step).has_news:
                await report_refused(self, queue, step, statements.refused(step))
            if not hold_our_tokens(statements, records, tokens):
                raise lease_changed(statements.sql)
            return records
        except BaseException as error:
            # Only now: a claim that another stage has under way is not an unanswered one.
            self._unanswered |= dict.fromkeys(tokens.given, (queue, step, time.monotonic() + LATE_SECONDS))
            if isinstance(error, asyncpg.PostgresError):
                await self.check_rights(error, statements.sql)
                raise claim_refused(statements.sql, step, refused_values(error)) from error
            raise

    async def _take(
        self, statements: QueueStatements, step: Step, tokens: Tokens, limit: int, within: ByteLimit | None
    ) -> list[Any]:
        try:
            return await claim_rows(self.claims, statements, step, tokens, limit, within)
        except UNREADABLE:
            if within is not None:
                within.count(None)
            records = await read_one_by_one(self.claims, statements, step, tokens.given, self.worker, self.on_buried)
            if statements.sql.queue.per is None:
                return records
            return await step_back(self.claims, statements, step, records)

    async def _give_back_unanswered(self, only: QueueSpec[Any] | None = None) -> None:
        """Give back the rows of claims whose answer was lost: nobody works on them. The server may still be running
        such a claim when we are back, so this is tried for a while. A claim passes its own queue as `only`: another
        queue's table may be what does not answer."""
        for token, (queue, step, late) in list(self._unanswered.items()):
            if only is not None and queue is not only:
                continue
            if await release_claim(self.claims, self.sql(queue), step, token) or time.monotonic() > late:
                self._unanswered.pop(token, None)

    async def value(self, lease: Lease[Any], column: "Column[Any]") -> Any:
        statements = self.statements(lease.queue)
        fence = numbers([lease.token]), *statements.key_arrays([lease])
        rows = await self.values.fetch(statements.once(value_statement, column), *fence)
        return rows[0][0] if rows else GONE

    async def check_rights(self, error: Exception, *queues: PostgresQueueSql, columns: tuple[str, ...] = ()) -> None:
        """Raise MissingRights if a privilege is missing for all rows, so that no row is buried for it. A row-level
        security policy or a trigger that refuses one row raises the same error, but no privilege is missing then."""
        if isinstance(error, asyncpg.InsufficientPrivilegeError):
            try:
                await self.run(lambda connection: privileges.check(connection, queues, columns), write=False)
            except MissingRights as missing:
                raise missing from error
            except Disconnected:
                pass

    async def settle(self, verdicts: Sequence[Verdict], *, skip_locked: bool = False) -> Settled:
        return await self.settlement.settle(verdicts, skip_locked=skip_locked)

    async def renew(self, leases: Sequence[Lease[Any]]) -> Renewed:
        try:
            return await renew_leases(self.renewals, self.statements, leases)
        except asyncpg.InsufficientPrivilegeError as error:
            await self.check_rights(error, *{self.sql(lease.queue) for lease in leases})
            raise

    async def crashed(self, queue: QueueSpec[Any], leases: Sequence[Lease[Any]]) -> set[Any]:
        return await self.run(lambda connection: crashed_keys(connection, queue, leases), write=False)

    async def load(self, queue: QueueSpec[Any], runs: Sequence[Run]) -> None:
        named = [([column.name for column in columns], records) for columns, records in runs]
        await self.loads.copy(queue.table, named)

    async def heartbeat(
        self, worker: int, leadership: str, seconds: float, settle_lag: str | None = None
    ) -> Heartbeat | None:
        """Record a heartbeat on the connection of the claims, whose statements never wait for a lock."""
        with suppress(asyncpg.PostgresError):  # what is wrong is said by the statements one by one
            [found] = await self.claims.fetch(HEARTBEAT, worker, leadership, seconds, settle_lag)
            if not found["known"]:
                return None
            if found["leadership"]:
                return Heartbeat(set(zip(found["queues"], found["stages"], strict=True)), found["leading"])
        beat = partial(fleet.heartbeat, worker=worker, leadership=leadership, seconds=seconds, settle_lag=settle_lag)
        return await self.run(beat, whole=False)

    async def wait(self, queues: Sequence[QueueSpec[Any]], seconds: float, who: object = None) -> None:
        await self.listener.wait([queue.table for queue in queues], seconds)

    async def busy(self, queues: Sequence[QueueSpec[Any]]) -> None:
        await self.listener.awake([queue.table for queue in queues])

    async def notify_workers(self, queues: Sequence[QueueSpec[Any]]) -> None:
        await self.listener.notify_workers(self.renewals, [queue.table for queue in queues])

    def translate(self, schema: str | None) -> None:
        """Nothing to do: PostgreSQL has schemas."""

    async def begin(self) -> PostgresTransaction:
        return await PostgresTransaction.begin(self.handlers, self.settlement)

    def begin_sync(self) -> SyncPostgresTransaction:
        return SyncPostgresTransaction.begin(self.sync_handlers, self.settlement)

    async def run(self, work: Callable[[Connection], T], *, write: bool = True, whole: bool = True) -> T:
        options = {} if whole else {"isolation_level": "AUTOCOMMIT"}
        try:
            return await run_in_transaction(self.upkeep, work, **options)
        except Exception as error:
            if is_mixed_up(error):
                raise pooler_between(type(error).__name__) from error
            if not is_away(error):
                raise
            raise Disconnected(reason(error)) from error
