"""The PostgreSQL store: claims, settles and renewals over asyncpg, on connections of their own."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import asyncpg
from sqlalchemy import Column, Connection, Engine
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine

from rowmill.model import lease as leases_of
from rowmill.model.errors import DatabaseUnreachable, MissingRights
from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease, Tokens
from rowmill.model.queue import QueueSpec
from rowmill.model.states import Step
from rowmill.store import dsn, expressions
from rowmill.store.bulk_load import Run
from rowmill.store.flush import SettleBatch, flushes
from rowmill.store.limits.postgres import PostgresLimiter
from rowmill.store.own import fleet, privileges
from rowmill.store.own.history import crashed_keys
from rowmill.store.own.schema import SCHEMA
from rowmill.store.port import (
    CONNECTIONS,
    GONE,
    Condemned,
    Delay,
    Disconnected,
    Heard,
    Heartbeat,
    LockTimeout,
    Renewed,
    Settled,
    StatementTimeout,
)
from rowmill.store.postgres import claim as postgres_claims
from rowmill.store.postgres import renew as postgres_renewals
from rowmill.store.postgres import sql
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
from rowmill.store.postgres.session import ALIVE, IMPATIENT, SESSION
from rowmill.store.postgres.sql import PostgresQueueSql
from rowmill.store.postgres.statements import QueueStatements, numbers
from rowmill.store.postgres.transactions import HandlerConnections, PostgresTransaction, SyncPostgresTransaction
from rowmill.store.postgres.wakeup import Listener
from rowmill.store.refused_rows import tell
from rowmill.store.row_sizes import ByteLimit
from rowmill.store.table_checks import claim_refused, lease_changed

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
MAX_PAUSE = 5.0
KEPT = 5
"""Connections for what is not hot that stay open while nobody uses them."""
TRIM_SECONDS = 60.0
"""How long connections for transactions of handlers stay open without being needed."""
CLOSE_SECONDS = 2.0
LATE_SECONDS = 5.0
"""How long after its answer was lost a claim may still take rows."""
SETTLE_LOCK_TIMEOUT = "200ms"
"""How long a settle waits for a row that somebody else has locked, before it goes around what is locked."""
TABLE_LOCK_TIMEOUT = "1s"
"""Claims and renewals go around locked rows by themselves: this is for tables that are locked as a whole."""


class ValuesNotTaken(Exception):
    """The database does not take these values."""


class LockBudget:
    """How often one settle may run into a lock while it looks for the verdict that waits for it. Each time costs
    SETTLE_LOCK_TIMEOUT; where a whole table is locked, every verdict would."""

    def __init__(self, times: int = 16) -> None:
        self._left = times

    def spend(self) -> bool:
        self._left -= 1
        return self._left >= 0


class PostgresStore:
    """A PostgreSQL database. One per process."""

    def __init__(self, url: URL, connections: int = CONNECTIONS, pooled: URL | None = None) -> None:
        self.url = url
        self.pooled = pooled
        """Leads to the same database through a pooler, for the transactions of handlers."""
        self._pool = {"pool_size": min(connections, KEPT), "max_overflow": max(connections - KEPT, 0)}
        self.engine: AsyncEngine = async_engine(url, ALIVE, **self._pool)
        self._most = connections
        # Apart from the handlers': signs of life must not wait for transactions of users.
        self.upkeep = upkeep_engine(url, IMPATIENT, pool_size=1, max_overflow=4)
        self.dialect = self.engine.dialect
        self._connections()
        self.worker = 0
        self.may_create = False
        self._claim_numbers = count(leases_of.first_claim())
        self._flush_numbers = count(leases_of.first_claim())  # its receipts bear the worker's number too
        self._known: dict[tuple[str, ...], QueueStatements] = {}
        self._unanswered: dict[int, tuple[QueueSpec[Any], Step, float]] = {}
        self._closing = False
        self._trimming: asyncio.Task[None] | None = None
        self.on_condemned: Condemned = lambda *_: None
        self.on_refused: Heard = lambda *_: None

    def _connections(self) -> None:
        """New ones each time we open: what waits for a loop belongs to that loop for ever."""
        arguments = dsn.for_asyncpg(self.url)
        self.claims = ConnectionPool("claim", arguments, {**SESSION, "lock_timeout": TABLE_LOCK_TIMEOUT})
        self.settles = ConnectionPool("settle", arguments, {**SESSION, "lock_timeout": SETTLE_LOCK_TIMEOUT})
        self.renewals = ConnectionPool("renew", arguments, {**SESSION, "lock_timeout": TABLE_LOCK_TIMEOUT})
        self.loads = DedicatedConnection("load", arguments)
        self.limits = DedicatedConnection("limit", arguments)
        self.values = ConnectionPool("value", arguments)
        self.limiter = PostgresLimiter(self.limits)
        engine = handler_engine(self.pooled or self.url, pooled=self.pooled is not None)
        self.handlers = HandlerConnections(engine, self._most)
        self.listener = Listener(DedicatedConnection("listen", arguments))

    @property
    def handlers_engine(self) -> AsyncEngine:
        return self.handlers.engine

    @cached_property
    def sync_engine(self) -> Engine:
        """For what is asked without a loop."""
        return sync_engine(self.url, **self._pool)

    @cached_property
    def sync_handlers(self) -> Engine:
        """For transactions of sync handlers."""
        return sync_handler_engine(self.pooled or self.url, self._most, pooled=self.pooled is not None)

    async def open(self) -> None:
        self._closing = False
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
        self._closing = True
        if self._unanswered:
            with suppress(Disconnected, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._give_back_unanswered()
            self._unanswered.clear()
        await self.listener.close()
        for line in (self.claims, self.settles, self.renewals, self.loads, self.limits, self.values):
            await line.close()
        if self._trimming is not None:
            self._trimming.cancel()
            await asyncio.gather(self._trimming, return_exceptions=True)
        await self.handlers.close()
        await self.engine.dispose()
        await self.upkeep.dispose()
        for made in ("sync_engine", "sync_handlers"):
            if made in self.__dict__:
                self.__dict__.pop(made).dispose()

    def known(self, queue: QueueSpec[Any]) -> "QueueStatements":
        found = self._known.get(queue.label)
        if found is None or found.terms.queue is not queue:
            found = self._known[queue.label] = QueueStatements(PostgresQueueSql(queue, self.dialect))
        return found

    def terms(self, queue: QueueSpec[Any]) -> PostgresQueueSql:
        return self.known(queue).terms

    def look_from_the_start(self, queue: QueueSpec[Any]) -> None:
        for one in (queue, *queue.parts):
            for mark in self.known(one).marks.values():
                mark.drop()

    def forget(self, queue: QueueSpec[Any]) -> None:
        self.look_from_the_start(queue)
        for one in (queue, *queue.parts):
            for refused in self.known(one).refusals.values():
                refused.hurry()

    async def claim(
        self, queue: QueueSpec[Any], step: Step, limit: int, within: ByteLimit | None = None
    ) -> list[Lease[Any]]:
        known = self.known(queue)
        weighed = within if known.terms.long else None
        while True:
            if weighed is not None:
                weighed.counted = 0
            await self._give_back_unanswered(queue)
            records = await self._claim(queue, step, known, limit, weighed)
            leases = known.leases(step, records, weighed)
            buried = known.buried(step, records) if len(leases) < len(records) else []
            for death in buried:
                self.on_condemned(queue, step, death)
            if leases or not buried:
                return leases

    async def _claim(
        self, queue: QueueSpec[Any], step: Step, known: QueueStatements, limit: int, within: ByteLimit | None
    ) -> list[Any]:
        tokens = Tokens(self.worker, self._claim_numbers)
        try:
            records = await self._take(known, step, tokens, limit, within)
            if known.refused(step).unheard:
                await tell(self, queue, step, known.refused(step))
            if not known.holds_our_tokens(records, tokens):
                raise lease_changed(known.terms)
            return records
        except BaseException as error:
            # Only now: a claim that another stage has under way is not an unanswered one.
            self._unanswered |= dict.fromkeys(tokens.given, (queue, step, time.monotonic() + LATE_SECONDS))
            if isinstance(error, asyncpg.PostgresError):
                await self._check_rights(error, known.terms)
                raise claim_refused(known.terms, step, refused_values(error)) from error
            raise

    async def _take(
        self, known: QueueStatements, step: Step, tokens: Tokens, limit: int, within: ByteLimit | None
    ) -> list[Any]:
        try:
            return await postgres_claims.claim_rows(self.claims, known, step, tokens, limit, within)
        except postgres_claims.UNREADABLE:
            if within is not None:
                within.count(None)
            records = await postgres_claims.read_one_by_one(
                self.claims, known, step, tokens.given, self.worker, self.on_condemned
            )
            if known.terms.queue.per is None:
                return records
            return await postgres_claims.step_back(self.claims, known, step, records)

    async def _give_back_unanswered(self, only: QueueSpec[Any] | None = None) -> None:
        """A claim whose answer was lost may have taken rows: nobody works on them, so they go back at once. The
        server may be at it still when we are back: so we look for them more than once. A claim looks `only` for those
        of its own queue: the table of another may be what does not answer."""
        for token, (queue, step, late) in list(self._unanswered.items()):
            if only is not None and queue is not only:
                continue
            if await postgres_claims.disclaim(self.claims, self.terms(queue), step, token) or time.monotonic() > late:
                self._unanswered.pop(token, None)

    async def value(self, lease: Lease[Any], column: "Column[Any]") -> Any:
        known = self.known(lease.queue)
        fence = numbers([lease.token]), *known.key_arrays([lease])
        rows = await self.values.fetch(known.value_statement(column), *fence)
        return rows[0][0] if rows else GONE

    async def settle(self, verdicts: Sequence[Verdict], *, skip_locked: bool = False) -> Settled:
        settled = Settled()
        for flush in flushes(verdicts, self._next_flush):
            await self._settle_flush(flush, settled, LockBudget(), skip_locked=skip_locked)
        return settled

    def _next_flush(self) -> int:
        return next(self._flush_numbers)

    async def _settle_flush(
        self, flush: SettleBatch, settled: Settled, budget: "LockBudget", *, skip_locked: bool
    ) -> None:
        try:
            places = await self._settle_surely(flush, skip_locked=skip_locked)
        except ValuesNotTaken as refusal:
            if len(flush.verdicts) == 1:
                settled.refused.append((flush.verdicts[0], str(refusal)))
                return
            for half in flush.halves(self._next_flush):
                await self._settle_flush(half, settled, budget, skip_locked=skip_locked)
            return
        except StatementTimeout:
            settled.delayed += [(verdict, Delay.TIMEOUT) for verdict in flush.verdicts]
            return
        except LockTimeout:
            if not skip_locked:
                await self._settle_flush(flush, settled, budget, skip_locked=True)
            elif len(flush.verdicts) == 1 or not budget.spend():
                settled.delayed += [(verdict, Delay.LOCKED) for verdict in flush.verdicts]
            else:  # not these rows are locked but the table, or a row that one of them refers to
                halves = list(flush.halves(self._next_flush))
                random.shuffle(halves)
                for half in halves:
                    await self._settle_flush(half, settled, budget, skip_locked=True)
            return
        settled.kept += len(places)
        if len(places) < len(flush.verdicts):
            kept = set(places)
            rest = [verdict for place, verdict in enumerate(flush.verdicts, start=1) if place not in kept]
            await self._sort_out(flush, rest, settled, skipped=skip_locked)

    async def _sort_out(self, flush: SettleBatch, verdicts: list[Verdict], settled: Settled, *, skipped: bool) -> None:
        """Tell apart why these were not written: by an earlier settle whose answer was lost; because their row is
        locked, if locked rows were `skipped`; because their lease is gone."""
        known = self.known(flush.queue)
        leases = [verdict.lease for verdict in verdicts]
        held: set[int] = set()
        if skipped:
            tokens = numbers([lease.token for lease in leases])
            rows = await self._ask_surely(known.holds_statement, tokens, *known.key_arrays(leases))
            held = {row[0] for row in rows}
        for place, verdict in enumerate(verdicts, start=1):
            if place in held:
                settled.delayed.append((verdict, Delay.LOCKED))
            elif verdict.unanswered and await self._written_before(verdict):
                settled.kept += 1
            else:
                settled.lost.append(verdict)

    async def _written_before(self, verdict: Verdict) -> bool:
        """Does the receipt of an earlier settle, whose answer was lost, name this verdict?"""
        for worker, number, place in verdict.unanswered:
            for row in await self._ask_surely(sql.KEPT, worker, number):
                if row[0] is None or str(place) in row[0].split(","):
                    return True
        return False

    async def _ask_surely(self, statement: str, *arguments: Any) -> list[Any]:
        """Read, however often the connection breaks."""
        async for _ in self._until_closed():
            with suppress(Disconnected):
                return await self.settles.fetch(statement, *arguments)
        raise Disconnected("the store is closed")

    async def _until_closed(self) -> AsyncIterator[None]:
        """Tries, with growing pauses between them, until the store is closed."""
        pause = 0.05
        yield
        while not self._closing:
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, MAX_PAUSE)
            yield

    async def _settle_surely(self, flush: SettleBatch, *, skip_locked: bool) -> list[int]:
        """Write a flush once, however often the connection breaks. Its receipt tells a settle whose answer was
        lost from a lost lease: written twice, it violates the key of the receipts, and the first says what it wrote."""
        try:
            statement, arguments = self.settle_statement(flush, skip_locked=skip_locked)
        except Exception as error:  # a type of the user's does not take its value
            raise ValuesNotTaken(type(error).__name__) from error
        carried_out = False
        async for _ in self._until_closed():
            try:
                if not carried_out:
                    rows = await self.settles.fetch(statement, *arguments)
                    return list(rows[0][0] or ())
                return await self._kept_before(flush, *arguments[:2])
            except LockTimeout:
                raise
            except StatementTimeout as timeout:
                if timeout.unanswered:
                    self._mark_unanswered(flush)
                raise
            except Disconnected:
                self._mark_unanswered(flush)
            except asyncpg.UniqueViolationError as error:
                if error.schema_name == SCHEMA and error.table_name == "receipt":
                    carried_out = True
                    continue
                raise ValuesNotTaken(refused_values(error)) from error
            except asyncpg.PostgresError as error:
                await self._check_rights(error, self.terms(flush.queue), columns=flush.columns)
                raise ValuesNotTaken(refused_values(error)) from error
        raise Disconnected("the store is closed")

    def _mark_unanswered(self, flush: SettleBatch) -> None:
        for place, verdict in enumerate(flush.verdicts, start=1):
            if (self.worker, flush.number, place) not in verdict.unanswered:
                verdict.unanswered += ((self.worker, flush.number, place),)

    async def _kept_before(self, flush: SettleBatch, worker: int, number: int) -> list[int]:
        """The places that a flush wrote whose answer was lost."""
        [kept] = [row[0] for row in await self.settles.fetch(sql.KEPT, worker, number)] or [None]
        return list(range(1, len(flush.verdicts) + 1)) if kept is None else [int(one) for one in kept.split(",") if one]

    async def _check_rights(self, error: Exception, *terms: PostgresQueueSql, columns: tuple[str, ...] = ()) -> None:
        """A right that was taken away is nothing about the row, which must not be buried for it. A policy of row
        security, or a trigger, that refuses this row alone looks the same to us, but lacks no right."""
        if isinstance(error, asyncpg.InsufficientPrivilegeError):
            try:
                await self.run(lambda connection: privileges.check(connection, terms, columns), write=False)
            except MissingRights as missing:
                raise missing from error
            except Disconnected:
                pass

    def settle_statement(self, flush: SettleBatch, *, skip_locked: bool = False) -> tuple[str, list[Any]]:
        """In the order of the keys, so that two statements that meet the same rows lock them in the same order."""
        known, rows = self.known(flush.queue), len(flush.verdicts)
        place, one = known.place, rows == 1 and not skip_locked
        if rows > 1:
            flush.verdicts.sort(key=lambda verdict: place(verdict.lease.record))
        statement = known.settle_statement(flush, skip_locked=skip_locked, one=one)
        return statement, [self.worker, flush.number, flush.seconds, rows, *known.settle_arguments(flush, one=one)]

    async def renew(self, leases: Sequence[Lease[Any]]) -> Renewed:
        try:
            return await postgres_renewals.renew(self.renewals, self.known, leases)
        except asyncpg.InsufficientPrivilegeError as error:
            await self._check_rights(error, *{self.terms(lease.queue) for lease in leases})
            raise

    async def crashed(self, queue: QueueSpec[Any], leases: Sequence[Lease[Any]]) -> set[Any]:
        return await self.run(lambda connection: crashed_keys(connection, queue, leases), write=False)

    async def load(self, queue: QueueSpec[Any], runs: Sequence[Run]) -> None:
        named = [([column.name for column in columns], records) for columns, records in runs]
        await self.loads.copy(queue.table, named)

    async def heartbeat(
        self, worker: int, office: str, seconds: float, settle_lag: str | None = None
    ) -> Heartbeat | None:
        """On the connection of the claims: like them, it waits for nobody's lock."""
        with suppress(asyncpg.PostgresError):  # what is wrong is said by the statements one by one
            [found] = await self.claims.fetch(sql.HEARTBEAT, worker, office, seconds, settle_lag)
            if not found["known"]:
                return None
            if found["office"]:
                return Heartbeat(set(zip(found["queues"], found["stages"], strict=True)), found["leading"])
        beat = partial(fleet.heartbeat, worker=worker, office=office, seconds=seconds, settle_lag=settle_lag)
        return await self.run(beat, whole=False)

    async def wait(self, queues: Sequence[QueueSpec[Any]], seconds: float, who: object = None) -> None:
        await self.listener.wait([queue.table for queue in queues], seconds)

    async def busy(self, queues: Sequence[QueueSpec[Any]]) -> None:
        await self.listener.awake([queue.table for queue in queues])

    async def rouse(self, queues: Sequence[QueueSpec[Any]]) -> None:
        await self.listener.rouse(self.renewals, [queue.table for queue in queues])

    def translate(self, schema: str | None) -> None:
        """Schemas are schemas here."""

    async def begin(self) -> PostgresTransaction:
        return await PostgresTransaction.begin(self.handlers, self, self._next_own_flush)

    def begin_sync(self) -> SyncPostgresTransaction:
        return SyncPostgresTransaction.begin(self.sync_handlers, self)

    def _next_own_flush(self) -> int:
        """For a handler's transaction. Below zero: nobody asks for its receipt later than at its commit."""
        return -self._next_flush()

    def lock_statement(self, leases: Sequence[Lease[Any]]) -> tuple[str, list[Any], list[Lease[Any]]]:
        """Its arguments, and the leases in the order of the keys, in which their rows are locked."""
        known = self.known(leases[0].queue)
        ordered = sorted(leases, key=lambda lease: known.place(lease.record))
        return known.lock_statement, [numbers([lease.token for lease in ordered]), *known.key_arrays(ordered)], ordered

    def lock_within(self, raw: "psycopg.Connection[Any]", leases: Sequence[Lease[Any]]) -> list[Lease[Any]]:
        """Lock rows inside a transaction of a sync handler; returns the leases that are gone."""
        statement, arguments, ordered = self.lock_statement(leases)
        held = {row[0] for row in raw.execute(for_psycopg(statement), named(arguments))}
        return [lease for place, lease in enumerate(ordered, start=1) if place not in held]

    def settle_within(self, raw: "psycopg.Connection[Any]", verdicts: Sequence[Verdict]) -> Settled:
        """Write verdicts inside a transaction of a sync handler."""
        settled = Settled()
        for flush in flushes(verdicts, self._next_own_flush):
            statement, arguments = self.settle_statement(flush)
            try:
                [places] = raw.execute(for_psycopg(statement), named(arguments)).fetchone() or [None]
            except (raw.IntegrityError, raw.DataError, raw.ProgrammingError) as error:
                settled.refused.append((flush.verdicts[0], type(error).__name__))
                break
            settled.add(flush, places or ())
        return settled

    async def was_written(self, number: int) -> bool:
        """Was a settle of ours carried out whose answer was lost?"""
        return bool(await self.settles.fetch(sql.KEPT, self.worker, number))

    async def run(self, work: Callable[[Connection], T], *, write: bool = True, whole: bool = True) -> T:
        engine = self.upkeep if whole else self.upkeep.execution_options(isolation_level="AUTOCOMMIT")
        try:
            async with engine.begin() as connection:
                return await connection.run_sync(work)
        except Exception as error:
            if is_mixed_up(error):
                raise pooler_between(type(error).__name__) from error
            if not is_away(error):
                raise
            raise Disconnected(reason(error)) from error


@lru_cache(maxsize=256)
def for_psycopg(statement: str) -> str:
    """A statement with the placeholders of psycopg."""
    return expressions.renamed(statement.replace("%", "%%"), lambda place: f"%(p{place})s")


def named(arguments: Sequence[Any]) -> dict[str, Any]:
    return {f"p{place}": value for place, value in enumerate(arguments, start=1)}
