"""The service that deletes finished rows which are kept no longer.

Only the leader of the upkeep does it. Two at once would do no harm: each passes over the rows that the other has
locked, and the condition is in the DELETE itself.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from rowmill.model.lifecycle import StateKind
from rowmill.model.queue import QueueSpec
from rowmill.observe.events import Events
from rowmill.operator.change import ChangedBatch, ChangeResult, change_rows, keys_of, one_batch
from rowmill.operator.filters import Condition, instant
from rowmill.store.expressions import in_words, raw_key
from rowmill.store.keys import Key
from rowmill.store.port import Disconnected, Store
from rowmill.store.postgres.session import index_plans
from rowmill.store.queue_sql import QueueSql

BATCH = 500
"""Rows deleted in one transaction: few enough that nobody waits for them."""


def old(sql: QueueSql, kind: StateKind, age: float) -> Condition:
    """Return the condition for rows that reached this final state at least `age` seconds ago."""
    finished = sql.queue.columns[sql.queue.aged_by(kind)]
    before: sa.ColumnElement[Any] = sa.literal_column(instant(sql, finished, timedelta(seconds=age)))
    return sa.and_(in_words(sql, sql.queue.vocabulary.of(kind)), finished <= before)


# served by: the index on (finished_at, or what stands for it, and the key) of the rows in this final state
def delete_some(
    connection: Connection, sql: QueueSql, kind: StateKind, age: float, after: Key | None, limit: int = BATCH
) -> ChangedBatch:
    """Delete a batch of rows that are old enough, oldest first, from a position on. The age is checked in the DELETE
    itself: a row that was requeued meanwhile stays. So does a row that another table refers to."""
    condition = old(sql, kind, age)
    order = [sa.literal_column(f"{sql.table}.{sql.role(sql.queue.aged_by(kind))}"), *raw_key(sql)]

    def change(connection: Connection, rows: Sequence[Any]) -> ChangeResult:
        # In a form from which the planner proves nothing: with old statistics it might walk the whole index of finished
        # rows for each batch, instead of looking these few up by their keys.
        guard = sa.func.coalesce(condition, sa.false())
        return change_rows(connection, sql, sa.delete(sql.queue.table), keys_of(sql.queue, rows), guard)

    with index_plans(connection):
        return one_batch(sql, condition, change, order, after, limit, connection)


EVERY = 60.0
"""Seconds between two sweeps."""
LOOK = 1.0
"""Seconds after which a worker that does not lead checks again whether it does."""
SHORTEST_REST = 0.01
AGAIN_FROM_THE_START = 3600.0
"""Seconds after which rows that a foreign key kept are tried again. Until then sweeps start behind them."""


class RetentionService:
    """Deletes old rows all the time, for the queues that have a retention without a `cron`."""

    def __init__(
        self, store: Store, queues: Sequence[QueueSpec[Any]], events: Events, *, leading: Callable[[], bool]
    ) -> None:
        self._store, self._events, self._leading = store, events, leading
        self._queues = [queue for queue in queues if queue.retention.ages() and queue.retention.cron is None]
        self._behind: dict[tuple[str, StateKind], tuple[Key, float]] = {}

    async def run(self) -> None:
        while True:
            swept = self._leading() and bool(self._queues)
            if swept:
                await self.sweep(asyncio.get_running_loop().time())
            await asyncio.sleep((EVERY if swept else LOOK) * (0.75 + random.random() / 2))

    async def sweep(self, now: float) -> None:
        """Sweep every queue once. A queue that can't be swept holds up no other."""
        for queue in self._queues:
            try:
                await sweep(self._store, queue, self._events, go_on=self._leading, behind=self._behind, now=now)
                self._events.maintenance_succeeded(f"{queue.name} retention")
            except DBAPIError as error:
                self._events.maintenance_failed(f"{queue.name} retention", type(error.orig).__name__)
            except (Disconnected, OSError):
                return  # the keeper says so


async def sweep(
    store: Store,
    queue: QueueSpec[Any],
    events: Events,
    *,
    go_on: Callable[[], bool] = lambda: True,
    behind: dict[tuple[str, StateKind], tuple[Key, float]] | None = None,
    now: float = 0.0,
) -> dict[StateKind, ChangeResult]:
    """Delete all rows of a queue that are kept no longer, in small batches with pauses between them. Return how many,
    by final state. Rows that can't be deleted are passed over and, with `behind`, not looked at again for a while."""
    found: dict[StateKind, ChangeResult] = {}
    behind = {} if behind is None else behind
    for kind, age in queue.retention.ages().items():
        start, since = behind.pop((queue.name, kind), (None, now))
        if now - since >= AGAIN_FROM_THE_START:
            start, since = None, now
        total, held = await _sweep(store, queue, partial(delete_some, kind=kind, age=age), start, go_on)
        if held is not None:
            behind[queue.name, kind] = (held, since)
        if total.rows or total.refused:
            events.pruned(queue.name, str(kind), total.rows, total.refused)
        found[kind] = total
    return found


async def _sweep(
    store: Store,
    queue: QueueSpec[Any],
    delete: Callable[..., ChangedBatch],
    start: Key | None,
    go_on: Callable[[], bool],
) -> tuple[ChangeResult, Key | None]:
    """Sweep from a position to the end. Return what was deleted, and the position behind the last row that could not
    be."""
    clock, sql = asyncio.get_running_loop().time, store.sql(queue)
    total, after, held = ChangeResult(), start, start
    while go_on():
        began = clock()
        batch = await store.run(partial(delete, sql=sql, after=after))
        total = ChangeResult(total.rows + batch.changed.rows, total.refused + batch.changed.refused)
        if batch.changed.refused:
            held = batch.last
        if not batch.more:
            break
        after = batch.last
        await asyncio.sleep(max(clock() - began, SHORTEST_REST))  # the half of the time is for others
    return total, held
