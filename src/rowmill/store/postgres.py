"""The PostgreSQL store: claims, settles and renewals over asyncpg, on connections of their own."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import cached_property
from itertools import count
from typing import Any, TypeVar

import asyncpg
import sqlalchemy as sa
from sqlalchemy import Column, Connection, Engine
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine

from rowmill.model import lease as leases_of
from rowmill.model.errors import DatabaseUnreachable, MissingRights
from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease, Tokens
from rowmill.model.queue import Queue
from rowmill.model.words import Step
from rowmill.store import dsn, postgres_claims, postgres_renewals, raw_sql, rights
from rowmill.store import postgres_sql as sql
from rowmill.store.flush import Flush, flushes
from rowmill.store.history import crashed_keys
from rowmill.store.known import Known
from rowmill.store.limiting.postgres import PostgresLimiter
from rowmill.store.line import Line, is_away, reason, refused_values
from rowmill.store.listener import Listener
from rowmill.store.loading import Run
from rowmill.store.port import CONNECTIONS, GONE, Condemned, Disconnected, Heard, Settled
from rowmill.store.postgres_engines import async_engine, sync_engine
from rowmill.store.postgres_session import ALIVE, IMPATIENT
from rowmill.store.postgres_terms import PostgresTerms
from rowmill.store.presence import claim_refused
from rowmill.store.refusals import tell
from rowmill.store.schema import SCHEMA
from rowmill.store.weighing import ByteLimit

T = TypeVar("T")
MAX_PAUSE = 5.0
KEPT = 5
"""Connections for transactions of handlers that stay open while nobody uses them."""
CLOSE_SECONDS = 2.0
LATE_SECONDS = 5.0
"""How long after its answer was lost a claim may still take rows."""


class Refused(Exception):
    """The database does not take these values."""


class PostgresStore:
    """A PostgreSQL database. One per process."""

    def __init__(self, url: URL, connections: int = CONNECTIONS) -> None:
        self.url = url
        self._pool = {"pool_size": min(connections, KEPT), "max_overflow": max(connections - KEPT, 0)}
        self.engine: AsyncEngine = async_engine(url, ALIVE, **self._pool)
        # Apart from the handlers': signs of life must not wait for transactions of users.
        self.upkeep = async_engine(url, IMPATIENT, pool_size=1, max_overflow=4)
        self.dialect = self.engine.dialect
        self._connections()
        self.worker = 0
        self.may_create = False
        self._claim_numbers = count(leases_of.first_claim())
        self._flush_number = leases_of.first_claim()  # its receipts bear the worker's number too
        self._known: dict[str, Known] = {}
        self._unanswered: dict[int, tuple[Queue[Any], Step, float]] = {}
        self._closing = False
        self.on_condemned: Condemned = lambda *_: None
        self.on_refused: Heard = lambda *_: None

    def _connections(self) -> None:
        """New ones each time we open: what waits for a loop belongs to that loop for ever."""
        arguments = dsn.for_asyncpg(self.url)
        self.claims = Line("claim", arguments)
        self.settles = Line("settle", arguments)
        self.renewals = Line("renew", arguments)
        self.loads = Line("load", arguments)
        self.limits = Line("limit", arguments)
        self.values = Line("value", arguments)
        self.limiter = PostgresLimiter(self.limits)
        self.listener = Listener(Line("listen", arguments))

    @cached_property
    def sync_engine(self) -> Engine:
        """For sync handlers, which get a Session of their own."""
        return sync_engine(self.url, **self._pool)

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
        await self.engine.dispose()
        await self.upkeep.dispose()
        if "sync_engine" in self.__dict__:
            self.sync_engine.dispose()

    def known(self, queue: Queue[Any]) -> "Known":
        found = self._known.get(queue.name)
        if found is None or found.terms.queue is not queue:
            found = self._known[queue.name] = Known(PostgresTerms(queue, self.dialect))
        return found

    def terms(self, queue: Queue[Any]) -> PostgresTerms:
        return self.known(queue).terms

    def look_from_the_start(self, queue: Queue[Any]) -> None:
        for mark in self.known(queue).marks.values():
            mark.drop()

    def forget(self, queue: Queue[Any]) -> None:
        self.look_from_the_start(queue)
        for refused in self.known(queue).refusals.values():
            refused.hurry()

    async def claim(
        self, queue: Queue[Any], step: Step, limit: int, within: ByteLimit | None = None
    ) -> list[Lease[Any]]:
        await self._give_back_unanswered()
        known = self.known(queue)
        weighed = within if known.terms.long else None
        tokens = Tokens(self.worker, self._claim_numbers)
        try:
            records = await postgres_claims.claim(self.claims, known, step, tokens, limit, weighed)
            if known.refused(step).unheard:
                await tell(self, queue, step, known.refused(step))
        except postgres_claims.UNREADABLE:
            records = await postgres_claims.read_one_by_one(
                self.claims, known, step, tokens.given, self.worker, self.on_condemned
            )
        except BaseException as error:
            # Only now: a claim that another stage has under way is not an unanswered one.
            self._unanswered |= dict.fromkeys(tokens.given, (queue, step, time.monotonic() + LATE_SECONDS))
            if isinstance(error, asyncpg.PostgresError):
                await self._check_rights(error, known.terms)
                raise claim_refused(known.terms, step, refused_values(error)) from error
            raise
        return known.leases(step, records)

    async def _give_back_unanswered(self) -> None:
        """A claim whose answer was lost may have taken rows: nobody works on them, so they go back at once. The
        server may be at it still when we are back: so we look for them more than once."""
        for token, (queue, step, late) in list(self._unanswered.items()):
            if await postgres_claims.disclaim(self.claims, self.terms(queue), step, token) or time.monotonic() > late:
                self._unanswered.pop(token, None)

    async def value(self, lease: Lease[Any], column: "Column[Any]") -> Any:
        known = self.known(lease.queue)
        rows = await self.values.fetch(known.value_statement(column), [lease.token], *known.key_arrays([lease]))
        return rows[0][0] if rows else GONE

    async def settle(self, verdicts: Sequence[Verdict]) -> Settled:
        settled = Settled()
        for flush in flushes(verdicts, self._next_flush):
            await self._settle_flush(flush, settled)
        return settled

    def _next_flush(self) -> int:
        self._flush_number += 1
        return self._flush_number

    async def _settle_flush(self, flush: Flush, settled: Settled) -> None:
        try:
            places = await self._settle_surely(flush)
        except Refused as refusal:
            if len(flush.verdicts) == 1:
                settled.refused.append((flush.verdicts[0], str(refusal)))
                return
            for half in flush.halves(self._next_flush):
                await self._settle_flush(half, settled)
            return
        settled.kept += len(places)
        if len(places) < len(flush.verdicts):
            kept = set(places)
            settled.lost += [v for place, v in enumerate(flush.verdicts, start=1) if place not in kept]

    async def _settle_surely(self, flush: Flush) -> list[int]:
        """Write a flush once, however often the connection breaks. Its receipt tells a settle whose answer was
        lost from a lost lease: written twice, it violates the key of the receipts, and the first says what it wrote."""
        try:
            statement, arguments = self.settle_statement(flush)
        except Exception as error:  # a type of the user's does not take its value
            raise Refused(type(error).__name__) from error
        pause = 0.05
        carried_out = False
        while True:
            try:
                if carried_out:
                    return await self._kept_before(flush, *arguments[:2])
                rows = await self.settles.fetch(statement, *arguments)
                return list(rows[0][0] or ())
            except Disconnected:
                if self._closing:
                    raise
                await asyncio.sleep(pause * (0.5 + random.random()))
                pause = min(pause * 2, MAX_PAUSE)
            except asyncpg.UniqueViolationError as error:
                if error.schema_name == SCHEMA and error.table_name == "receipt":
                    carried_out = True
                    continue
                raise Refused(refused_values(error)) from error
            except asyncpg.PostgresError as error:
                await self._check_rights(error, self.terms(flush.queue), columns=flush.columns)
                raise Refused(refused_values(error)) from error

    async def _kept_before(self, flush: Flush, worker: int, number: int) -> list[int]:
        """The places that a flush wrote whose answer was lost."""
        [kept] = [row[0] for row in await self.settles.fetch(sql.KEPT, worker, number)] or [None]
        return list(range(1, len(flush.verdicts) + 1)) if kept is None else [int(one) for one in kept.split(",") if one]

    async def _check_rights(self, error: Exception, *terms: PostgresTerms, columns: tuple[str, ...] = ()) -> None:
        """A right that was taken away is nothing about the row, which must not be buried for it. A policy of row
        security, or a trigger, that refuses this row alone looks the same to us, but lacks no right."""
        if isinstance(error, asyncpg.InsufficientPrivilegeError):
            try:
                await self.run(lambda connection: rights.check(connection, terms, columns), write=False)
            except MissingRights as missing:
                raise missing from error
            except Disconnected:
                pass

    def settle_statement(self, flush: Flush) -> tuple[str, list[Any]]:
        """In the order of the keys, so that two statements that meet the same rows lock them in the same order."""
        known = self.known(flush.queue)
        flush.verdicts.sort(key=lambda verdict: known.place(verdict.lease.record))
        statement = known.settle_statement(flush)
        return statement, [self.worker, flush.number, flush.seconds, *known.settle_arguments(flush)]

    async def renew(self, leases: Sequence[Lease[Any]]) -> list[Lease[Any]]:
        try:
            return await postgres_renewals.renew(self.renewals, self.known, leases)
        except asyncpg.InsufficientPrivilegeError as error:
            await self._check_rights(error, *{self.terms(lease.queue) for lease in leases})
            raise

    async def crashed(self, queue: Queue[Any], leases: Sequence[Lease[Any]]) -> set[Any]:
        return await self.run(lambda connection: crashed_keys(connection, queue, leases), write=False)

    async def load(self, queue: Queue[Any], runs: Sequence[Run]) -> None:
        named = [([column.name for column in columns], records) for columns, records in runs]
        await self.loads.copy(queue.table, named)

    async def wait(self, queues: Sequence[Queue[Any]], seconds: float, who: object = None) -> None:
        await self.listener.wait([queue.table for queue in queues], seconds)

    async def busy(self, queues: Sequence[Queue[Any]]) -> None:
        await self.listener.awake([queue.table for queue in queues])

    async def rouse(self, queues: Sequence[Queue[Any]]) -> None:
        await self.listener.rouse(self.renewals, [queue.table for queue in queues])

    def translate(self, schema: str | None) -> None:
        """Schemas are schemas here."""

    def settle_within(self, connection: Connection, verdict: Verdict) -> Settled:
        """Write one verdict inside a transaction of the user's, whatever its driver."""
        settled = Settled()
        for flush in flushes([verdict], self._next_flush):
            statement, arguments = self.settle_statement(flush)
            if connection.dialect.driver == "psycopg":
                statement = raw_sql.renamed(statement.replace("%", "%%"), lambda place: f"%(p{place})s")
                given: Any = {f"p{place}": value for place, value in enumerate(arguments, start=1)}
            else:
                given = tuple(arguments)
            try:
                places = connection.exec_driver_sql(statement, given).scalar()
            except (sa.exc.IntegrityError, sa.exc.DataError, sa.exc.ProgrammingError) as error:
                settled.refused.append((verdict, type(error.orig).__name__))
                continue
            if places:
                settled.kept += 1
            else:
                settled.lost.append(verdict)
        return settled

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def run(self, work: Callable[[Connection], T], *, write: bool = True, whole: bool = True) -> T:
        engine = self.upkeep if whole else self.upkeep.execution_options(isolation_level="AUTOCOMMIT")
        try:
            async with engine.begin() as connection:
                return await connection.run_sync(work)
        except Exception as error:
            if not is_away(error):
                raise
            raise Disconnected(reason(error)) from error
