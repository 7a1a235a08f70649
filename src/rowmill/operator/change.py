"""Changes of many rows by an operator: requeue, cancel, prune. They run in batches that commit by themselves, and never
touch a running row.

Each batch locks the rows that it found, passing over those that somebody else has locked, and changes them only
where the condition still holds. A pass goes through the table once, in the order of the key, so that no row is
changed twice and no batch looks again at what earlier ones passed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.types import NULLTYPE

from rowmill.model.lifecycle import CANCEL, CLAIMABLE, REQUEUE, StateKind
from rowmill.model.queue import QueueSpec
from rowmill.operator.filters import Condition, Filter, cancellable, known_stage, prunable, requeueable
from rowmill.store.expressions import in_words, keys_in, raw_key, raw_key_in
from rowmill.store.halving import Halving
from rowmill.store.keys import Key
from rowmill.store.own.history import last_failed_stages
from rowmill.store.port import Store
from rowmill.store.queue_sql import QueueSql
from rowmill.store.refused_rows import is_of_a_row
from rowmill.store.rows import RowLoader
from rowmill.store.state_words import StateWords

BATCH = 1000
Progress = Callable[[int], None]
"""Called after each batch with the rows changed so far."""


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """How many rows were changed."""

    rows: int = 0
    refused: int = 0
    """Rows left as they are, because a constraint or a trigger of the table forbids the change."""


@dataclass(frozen=True, slots=True)
class ChangedBatch:
    """The result of one batch, the position of its last row, and whether there may be more."""

    changed: ChangeResult
    last: Key | None
    more: bool


async def requeue(
    store: Store,
    queue: QueueSpec[Any],
    wanted: Filter,
    *,
    stage: str | None = None,
    most: int | None = None,
    batch: int = BATCH,
    progress: Progress | None = None,
) -> ChangeResult:
    """Put rows back: ready now, attempts at zero, error cleared.

    Of several stages, a dead row resumes at the one that failed, as its history says, and a waiting row at its
    own; others begin at the first. `stage` overrides.
    """
    sql = store.sql(queue)
    condition, state_words = requeueable(sql, wanted), StateWords(sql)
    if stage is not None:
        known_stage(queue, stage)

    def change(connection: Connection, rows: Sequence[Any]) -> ChangeResult:
        return _requeue(connection, state_words, rows, stage, condition)

    done = await _in_batches(store, sql, condition, change, most, batch, progress)
    if done.rows:
        await notify_ready(store, queue)
    return done


# served by: the primary key
def requeue_within(connection: Connection, sql: QueueSql, keys: Sequence[Key], stage: str | None = None) -> set[Key]:
    """Put the rows with these keys back, in the caller's transaction; call `notify_ready` after it. Return the keys of
    those that are ready now. A running row stays, and so does one that somebody else has locked."""
    condition, state_words = requeueable(sql, Filter()), StateWords(sql)
    named = keys_in(sql, keys)
    wanted = sa.select(*raw_key(sql), state_words.raw_state.label("raw_state")).where(condition, named)
    rows = connection.execute(wanted.with_for_update(skip_locked=True)).all()
    if rows:
        _requeue(connection, state_words, rows, stage, condition)
    ready = in_words(sql, sql.queue.vocabulary.all_of(CLAIMABLE))
    return {tuple(row) for row in connection.execute(sa.select(*sql.queue.key).where(named, ready))}


def _requeue(
    connection: Connection, state_words: StateWords, rows: Sequence[Any], stage: str | None, condition: Condition
) -> ChangeResult:
    sql, total = state_words.sql, ChangeResult()
    for name, keys in _by_stage(connection, state_words, rows, stage).items():
        move = sa.update(sql.queue.table).values(sql.values(REQUEUE, sql.queue.step(name)))
        total = _plus(total, change_rows(connection, sql, move, keys, condition))
    return total


async def cancel(
    store: Store,
    queue: QueueSpec[Any],
    wanted: Filter,
    *,
    most: int | None = None,
    batch: int = BATCH,
    progress: Progress | None = None,
) -> ChangeResult:
    """Cancel rows that nobody has taken yet. They stay in the table, as cancelled."""
    sql = store.sql(queue)
    condition = cancellable(sql, wanted)
    move = sa.update(queue.table).values(sql.values(CANCEL, queue.steps[0]))

    def change(connection: Connection, rows: Sequence[Any]) -> ChangeResult:
        return change_rows(connection, sql, move, keys_of(queue, rows), condition)

    done = await _in_batches(store, sql, condition, change, most, batch, progress)
    if done.rows and queue.per is not None:
        await notify_ready(store, queue)
    return done


async def prune(
    store: Store,
    queue: QueueSpec[Any],
    wanted: Filter,
    older_than: timedelta,
    *,
    most: int | None = None,
    batch: int = BATCH,
    progress: Progress | None = None,
) -> ChangeResult:
    """Delete finished rows that are older than `older_than`."""
    sql, total = store.sql(queue), ChangeResult()
    for condition in prunable(sql, wanted, older_than):

        def change(connection: Connection, rows: Sequence[Any], condition: Condition = condition) -> ChangeResult:
            return change_rows(connection, sql, sa.delete(queue.table), keys_of(queue, rows), condition)

        before = total.rows
        left = None if most is None else most - before
        further = None if progress is None else lambda rows, before=before: progress(before + rows)
        total = _plus(total, await _in_batches(store, sql, condition, change, left, batch, further))
    return total


async def _in_batches(
    store: Store,
    sql: QueueSql,
    condition: Condition,
    change: Callable[[Connection, Sequence[Any]], ChangeResult],
    most: int | None,
    batch: int,
    progress: Progress | None,
) -> ChangeResult:
    """Call `change` for batches of locked rows, each in a transaction of its own."""
    total, after = ChangeResult(), None
    while most is None or total.rows < most:
        limit = batch if most is None else min(batch, most - total.rows)
        batch_done = await store.run(partial(one_batch, sql, condition, change, raw_key(sql), after, limit))
        total = _plus(total, batch_done.changed)
        if progress is not None:
            progress(total.rows)
        if not batch_done.more:
            break
        after = batch_done.last
    return total


# served by: the index in whose order the rows are gone through
def one_batch(
    sql: QueueSql,
    condition: Condition,
    change: Callable[[Connection, Sequence[Any]], ChangeResult],
    order: Sequence["sa.ColumnElement[Any]"],
    after: Key | None,
    limit: int,
    connection: Connection,
) -> ChangedBatch:
    """Call `change` for the next rows, locked, in this order (the key, then the raw state). Rows that others have
    locked are passed over."""
    state, key = StateWords(sql).raw_state.label("raw_state"), raw_key(sql)
    wanted = sa.select(*key, state, *order).where(condition).order_by(*order).limit(limit)
    if after is not None:
        wanted = wanted.where(_beyond(order, after))
    rows = list(connection.execute(wanted.with_for_update(skip_locked=True)).all())
    done = change(connection, rows) if rows else ChangeResult()
    return ChangedBatch(done, tuple(rows[-1][len(key) + 1 :]) if rows else after, len(rows) == limit)


def _beyond(columns: Sequence["sa.ColumnElement[Any]"], after: Key) -> Condition:
    parts = [sa.literal(part, NULLTYPE) for part in after]
    beyond: Condition = columns[0] > parts[0] if len(parts) == 1 else sa.tuple_(*columns) > sa.tuple_(*parts)
    return beyond


# served by: the primary key
def change_rows(
    connection: Connection,
    sql: QueueSql,
    statement: "sa.Update | sa.Delete",
    keys: Sequence[Key],
    condition: Condition,
) -> ChangeResult:
    """Change these rows where the condition still holds. A row that a constraint or a trigger refuses stays; the others
    are changed."""
    changed = refused = 0
    halving = Halving(keys)
    for part in halving:
        guarded = statement.where(raw_key_in(sql, part), condition).returning(*raw_key(sql))
        try:
            with connection.begin_nested():
                changed += len(connection.execute(guarded).all())
        except DBAPIError as error:
            if not _is_of_the_row(error):
                raise
            refused += not halving.split(part)
    return ChangeResult(changed, refused)


def _is_of_the_row(error: DBAPIError) -> bool:
    """Return whether an error is about a row, and not about rights, names or the server, which are the same for all
    rows."""
    return isinstance(error, (IntegrityError, DataError)) or is_of_a_row(getattr(error.orig, "sqlstate", None))


def _by_stage(
    connection: Connection, state_words: StateWords, rows: Sequence[Any], override: str | None
) -> dict[str, list[Key]]:
    """Return the keys of these rows, by the stage at which each begins again."""
    queue = state_words.sql.queue
    first = queue.steps[0].name
    if override is not None or len(queue.steps) == 1:
        return {override or first: keys_of(queue, rows)}
    key_of = RowLoader(state_words.sql).key_of
    texts = [queue.key_text(key_of(key)) for key in keys_of(queue, rows)]
    dead = [text for text, row in zip(texts, rows, strict=True) if state_words.kind(row.raw_state) is StateKind.DEAD]
    # A stage that is not declared any more can't be resumed.
    failed = {
        text: stage
        for text, stage in last_failed_stages(connection, queue, dead).items()
        if any(step.name == stage for step in queue.steps)
    }
    found: dict[str, list[Key]] = {}
    for key, text, row in zip(keys_of(queue, rows), texts, rows, strict=True):
        word = state_words.word(row.raw_state)
        own = None if word is None else queue.vocabulary.step_of(word)
        found.setdefault(own.name if own else failed.get(text, first), []).append(key)
    return found


def keys_of(queue: QueueSpec[Any], rows: Sequence[Any]) -> list[Key]:
    """Return the raw keys of these rows."""
    return [tuple(row[: len(queue.key)]) for row in rows]


def _plus(one: ChangeResult, other: ChangeResult) -> ChangeResult:
    return ChangeResult(one.rows + other.rows, one.refused + other.refused)


async def notify_ready(store: Store, queue: QueueSpec[Any]) -> None:
    """Drop the watermarks and wake sleeping workers: rows became ready behind them."""
    store.forget(queue)
    await store.notify_workers([queue])
