"""Settles on PostgreSQL: the statement, and what is done when rows are locked, values are refused or answers are
lost."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any

import asyncpg

from rowmill.model.judge import Verdict
from rowmill.model.lease import Lease, first_claim
from rowmill.model.lifecycle import ErrorChange, Move
from rowmill.model.states import Step
from rowmill.store import expressions
from rowmill.store.halving import Halving
from rowmill.store.own.schema import SCHEMA
from rowmill.store.port import Delay, Disconnected, LockTimeout, Settled, StatementTimeout
from rowmill.store.postgres.connection import ConnectionPool, refused_values
from rowmill.store.postgres.sql import (
    FENCE,
    NOW,
    PostgresQueueSql,
    free,
    given,
    given_one,
    holds_statement,
    key_fields,
    lock_statement,
    same_key,
)
from rowmill.store.postgres.statements import QueueStatements
from rowmill.store.postgres.values import ToArray, element_converter, flat, numbers, unchanged
from rowmill.store.queue_sql import set_clause
from rowmill.store.settle_batch import SettleBatch, settle_batches

if TYPE_CHECKING:
    import psycopg

    from rowmill.store.postgres.store import PostgresStore

SETTLE_LOCK_TIMEOUT = "200ms"
"""How long a settle waits for a locked row before it passes over locked rows."""
MOST_LOCK_WAITS = 16
"""How often one settle may run into a lock while it looks for the verdict that waits for it. Each time costs
SETTLE_LOCK_TIMEOUT, and if a whole table is locked, every verdict would."""
MAX_PAUSE = 5.0
"""The longest pause between two tries while the database is away, in seconds."""
DELAY = (("g_wait", "float8"),)
FAILURE = (
    ("g_attempt", "int"),
    ("g_code", "text"),
    ("g_message", "text"),
    ("g_error", "text"),
    ("g_claimed", "timestamptz"),
    ("g_row", "text"),
    ("g_traceback", "text"),
)
"""The arrays sent for verdicts that failed, besides fence, key and values."""
NOTE = (("g_code", "text"), ("g_error", "text"))
"""The arrays sent for verdicts that did not fail and leave a note on the row."""


def error_fields(move: Move) -> tuple[tuple[str, str], ...]:
    return FAILURE if move.failed else NOTE if move.error is ErrorChange.SET else ()


# served by: the primary key. The running state is not named: the planner would take the small partial index on
# running rows, which fills with dead entries. The token alone is the fence.
def settle_statement(
    sql: PostgresQueueSql,
    step: Step,
    move: Move,
    columns: tuple[str, ...],
    *,
    skip_locked: bool = False,
    one: bool = False,
) -> str:
    """Write verdicts of one shape, each only where its lease still holds, with receipt and history. `skip_locked`
    passes over rows that somebody else has locked instead of waiting for them. `one` is for a single verdict, with
    values instead of arrays: the server plans that once, and arrays each time.

    $1 worker, $2 number of the batch, $3 seconds run, $4 number of verdicts; then one array each: FENCE, DELAY if the
    move waits, FAILURE or NOTE if it sets an error, the parts of the key, the result columns. Returns the places (from
    1) of the verdicts that were written.
    """
    columns_of = sql.queue.by_name
    fields = [*FENCE, *(DELAY if move.delayed else ()), *error_fields(move)]
    fields += key_fields(sql)
    fields += [(f"g_v{n}", sql.type_of(columns_of[name])) for n, name in enumerate(columns)]
    pairs = sql.assignments(move, step, wait="g_wait", error="g_error", code="g_code")
    pairs += [(sql.quote(name), sql.cast(columns_of[name], f"g_v{n}")) for n, name in enumerate(columns)]
    returned_fields = ("g_attempt", "g_code", "g_message", "g_claimed", "g_row", "g_traceback") if move.failed else ()
    returned = [name for name, _ in fields if name in returned_fields]
    rows = given(fields, first=5)
    if one:
        rows = given_one(fields, first=5)
    elif skip_locked:
        rows = free(sql, fields, first=5)
    settled = (
        f"UPDATE {sql.table} AS t SET {set_clause(pairs)} FROM {rows} "
        f"WHERE {same_key(sql)} AND t.{sql.lease} = g_lease RETURNING {', '.join(['g_place', *returned])}"
    )
    queue, stage = sql.text(sql.queue.name), sql.text(step.name)
    receipt = (
        f"INSERT INTO {SCHEMA}.receipt (worker, flush, queue, stage, move, rows, seconds, at, kept) "
        f"SELECT $1::bigint, $2::bigint, {queue}, {stage}, {sql.text(move.name)}, count(*), $3::float8, {NOW}, "
        "CASE WHEN count(*) < $4::bigint THEN (SELECT coalesce(string_agg(g_place::text, ','), '') FROM settled) "
        "END FROM settled"
    )
    history = (
        f", history AS (INSERT INTO {SCHEMA}.attempt "
        "(queue, key, stage, attempt, worker, started_at, ended_at, code, message, traceback) "
        f"SELECT {queue}, g_row, {stage}, g_attempt, $1::bigint, g_claimed, {NOW}, g_code, g_message, g_traceback "
        "FROM settled)"
    )
    return (
        f"WITH settled AS ({settled}), receipt AS ({receipt}){history if move.failed else ''} "
        "SELECT array_agg(g_place) FROM settled"
    )


def settle_arguments(statements: QueueStatements, batch: SettleBatch, *, one: bool = False) -> list[Any]:
    """Return the arrays for `settle_statement`, in its order; with `one`, single values."""
    verdicts = batch.verdicts
    arrays: list[tuple[ToArray, list[Any]]] = [(numbers, [verdict.lease.token for verdict in verdicts])]
    plain: list[list[Any]] = []
    if batch.move.delayed:
        plain.append([verdict.wait for verdict in verdicts])
    if batch.move.failed:
        plain += [
            [verdict.lease.attempt for verdict in verdicts],
            [verdict.code for verdict in verdicts],
            [verdict.message for verdict in verdicts],
            [verdict.error for verdict in verdicts],
            [verdict.lease.claimed_at for verdict in verdicts],
            [batch.queue.key_text(verdict.lease.key) for verdict in verdicts],
            [verdict.failure.traceback for verdict in verdicts],
        ]
    elif batch.move.error is ErrorChange.SET:
        plain += [[verdict.code for verdict in verdicts], [verdict.error for verdict in verdicts]]
    arrays += [(unchanged, values) for values in plain]
    arrays += statements.key_parts([verdict.lease.record for verdict in verdicts])
    for name in batch.columns:
        convert = element_converter(statements.sql, batch.queue.by_name[name])
        values = (verdict.values[name] for verdict in verdicts)
        arrays.append((unchanged, flat(values if convert is None else map(convert, values))))
    if one:
        return [values[0] if convert in (numbers, unchanged) else convert(values)[0] for convert, values in arrays]
    return [convert(values) for convert, values in arrays]


KEPT = f"SELECT kept FROM {SCHEMA}.receipt WHERE worker = $1 AND flush = $2"
"""Selects the places of a batch that were written; NULL for all of them. Served by: the primary key."""


class ValuesNotTaken(Exception):
    """The database refused values of a batch."""


class SettleWriter:
    """Writes verdicts: on connections of its own, and inside the transactions of handlers."""

    def __init__(self, store: "PostgresStore", pool: ConnectionPool) -> None:
        self._store, self._pool = store, pool
        self._batch_numbers = count(first_claim())  # its receipts bear the worker's number too
        self.closing = False

    async def settle(self, verdicts: Sequence[Verdict], *, skip_locked: bool = False) -> Settled:
        settled = Settled()
        for batch in settle_batches(verdicts, self._next_batch):
            await self._settle_batch(batch, settled, skip_locked=skip_locked)
        return settled

    def _next_batch(self) -> int:
        return next(self._batch_numbers)

    async def _settle_batch(self, batch: SettleBatch, settled: Settled, *, skip_locked: bool) -> None:
        """Write verdicts, in halves where the database refuses one of them. Once a statement has run into a lock, those
        that follow pass over locked rows."""
        waits_left, halving = MOST_LOCK_WAITS, Halving(batch.verdicts)
        for verdicts in halving:
            if verdicts is not batch.verdicts:
                batch = batch.part(self._next_batch(), list(verdicts))
            try:
                places = await self._settle_surely(batch, skip_locked=skip_locked)
            except ValuesNotTaken as refusal:
                if not halving.split(verdicts):
                    settled.refused.append((verdicts[0], str(refusal)))
                continue
            except StatementTimeout:
                settled.delayed += [(verdict, Delay.TIMEOUT) for verdict in verdicts]
                continue
            except LockTimeout:
                if not skip_locked:
                    skip_locked = True
                    halving.retry(verdicts)
                    continue
                waits_left -= 1
                # Not these rows are locked but the table, or a row that one of them refers to.
                if waits_left < 0 or not halving.split(random.sample(verdicts, len(verdicts))):
                    settled.delayed += [(verdict, Delay.LOCKED) for verdict in verdicts]
                continue
            settled.kept += len(places)
            if len(places) < len(batch.verdicts):
                kept = set(places)
                rest = [verdict for place, verdict in enumerate(batch.verdicts, start=1) if place not in kept]
                await self._sort_out(batch, rest, settled, skipped=skip_locked)

    async def _sort_out(self, batch: SettleBatch, verdicts: list[Verdict], settled: Settled, *, skipped: bool) -> None:
        """Find out why verdicts were not written: an earlier settle whose answer was lost has written them; their row
        is locked, if locked rows were `skipped`; or their lease is gone."""
        statements = self._store.statements(batch.queue)
        leases = [verdict.lease for verdict in verdicts]
        held: set[int] = set()
        if skipped:
            tokens = numbers([lease.token for lease in leases])
            rows = await self._ask_surely(statements.once(holds_statement), tokens, *statements.key_arrays(leases))
            held = {row[0] for row in rows}
        for place, verdict in enumerate(verdicts, start=1):
            if place in held:
                settled.delayed.append((verdict, Delay.LOCKED))
            elif verdict.late.unanswered and await self._written_before(verdict):
                settled.kept += 1
            else:
                settled.lost.append(verdict)

    async def _written_before(self, verdict: Verdict) -> bool:
        """Return whether the receipt of an earlier settle, whose answer was lost, lists this verdict."""
        for worker, number, place in verdict.late.unanswered:
            for row in await self._ask_surely(KEPT, worker, number):
                if row[0] is None or str(place) in row[0].split(","):
                    return True
        return False

    async def _ask_surely(self, statement: str, *arguments: Any) -> list[Any]:
        """Read, retrying on a lost connection."""
        async for _ in self._until_closed():
            with suppress(Disconnected):
                return await self._pool.fetch(statement, *arguments)
        raise Disconnected("the store is closed")

    async def _until_closed(self) -> AsyncIterator[None]:
        """Yield once per try, with growing pauses, until the store is closed."""
        pause = 0.05
        yield
        while not self.closing:
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, MAX_PAUSE)
            yield

    async def _settle_surely(self, batch: SettleBatch, *, skip_locked: bool) -> list[int]:
        """Write a batch once, retrying on a lost connection. Its receipt tells a settle whose answer was lost from a
        lost lease: written twice, it violates the key of the receipts, and the first receipt says what was written."""
        try:
            statement, arguments = self.settle_statement(batch, skip_locked=skip_locked)
        except Exception as error:  # a type of the user's does not take its value
            raise ValuesNotTaken(type(error).__name__) from error
        carried_out = False
        async for _ in self._until_closed():
            try:
                if not carried_out:
                    rows = await self._pool.fetch(statement, *arguments)
                    return list(rows[0][0] or ())
                return await self._kept_before(batch, *arguments[:2])
            except LockTimeout:
                raise
            except StatementTimeout as timeout:
                if timeout.unanswered:
                    self._mark_unanswered(batch)
                raise
            except Disconnected:
                self._mark_unanswered(batch)
            except asyncpg.UniqueViolationError as error:
                if error.schema_name == SCHEMA and error.table_name == "receipt":
                    carried_out = True
                    continue
                raise ValuesNotTaken(refused_values(error)) from error
            except asyncpg.PostgresError as error:
                await self._store.check_rights(error, self._store.sql(batch.queue), columns=batch.columns)
                raise ValuesNotTaken(refused_values(error)) from error
        raise Disconnected("the store is closed")

    def _mark_unanswered(self, batch: SettleBatch) -> None:
        for place, verdict in enumerate(batch.verdicts, start=1):
            settle = (self._store.worker, batch.number, place)
            if settle not in verdict.late.unanswered:
                verdict.late = replace(verdict.late, unanswered=(*verdict.late.unanswered, settle))

    async def _kept_before(self, batch: SettleBatch, worker: int, number: int) -> list[int]:
        """Return the places that a batch wrote whose answer was lost."""
        [kept] = [row[0] for row in await self._pool.fetch(KEPT, worker, number)] or [None]
        return list(range(1, len(batch.verdicts) + 1)) if kept is None else [int(one) for one in kept.split(",") if one]

    def settle_statement(self, batch: SettleBatch, *, skip_locked: bool = False) -> tuple[str, list[Any]]:
        """Return the statement and its arguments. Verdicts are in the order of their keys, so that two statements that
        meet the same rows do not deadlock."""
        statements, rows = self._store.statements(batch.queue), len(batch.verdicts)
        place, one = statements.place, rows == 1 and not skip_locked
        if rows > 1:
            batch.verdicts.sort(key=lambda verdict: place(verdict.lease.record))
        statement = statements.once(
            settle_statement, batch.step, batch.move, batch.columns, skip_locked=skip_locked, one=one
        )
        return statement, [
            self._store.worker,
            batch.number,
            batch.seconds,
            rows,
            *settle_arguments(statements, batch, one=one),
        ]

    def next_own_batch(self) -> int:
        """Return the number of a batch in a handler's own transaction. It is negative: nobody asks for its receipt
        after its commit."""
        return -self._next_batch()

    def lock_statement(self, leases: Sequence[Lease[Any]]) -> tuple[str, list[Any], list[Lease[Any]]]:
        """Return the statement that locks rows, its arguments, and the leases in the order of their keys, in which rows
        are locked."""
        statements = self._store.statements(leases[0].queue)
        ordered = sorted(leases, key=lambda lease: statements.place(lease.record))
        return (
            statements.once(lock_statement),
            [numbers([lease.token for lease in ordered]), *statements.key_arrays(ordered)],
            ordered,
        )

    def lock_within(self, raw: "psycopg.Connection[Any]", leases: Sequence[Lease[Any]]) -> list[Lease[Any]]:
        """Lock rows inside the transaction of a sync handler; return the leases that are gone."""
        statement, arguments, ordered = self.lock_statement(leases)
        held = {row[0] for row in raw.execute(for_psycopg(statement), named(arguments))}
        return [lease for place, lease in enumerate(ordered, start=1) if place not in held]

    def settle_within(self, raw: "psycopg.Connection[Any]", verdicts: Sequence[Verdict]) -> Settled:
        """Write verdicts inside the transaction of a sync handler."""
        settled = Settled()
        for batch in settle_batches(verdicts, self.next_own_batch):
            statement, arguments = self.settle_statement(batch)
            try:
                [places] = raw.execute(for_psycopg(statement), named(arguments)).fetchone() or [None]
            except (raw.IntegrityError, raw.DataError, raw.ProgrammingError) as error:
                settled.refused.append((batch.verdicts[0], type(error).__name__))
                break
            settled.add(batch, places or ())
        return settled

    async def was_written(self, number: int) -> bool:
        """Return whether a settle was carried out whose answer was lost."""
        return bool(await self._pool.fetch(KEPT, self._store.worker, number))


@lru_cache(maxsize=256)
def for_psycopg(statement: str) -> str:
    """Return a statement with the placeholders of psycopg."""
    return expressions.renamed(statement.replace("%", "%%"), lambda place: f"%(p{place})s")


def named(arguments: Sequence[Any]) -> dict[str, Any]:
    return {f"p{place}": value for place, value in enumerate(arguments, start=1)}
