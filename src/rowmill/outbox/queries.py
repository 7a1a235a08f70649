"""Queries for operators: counts and lists of events."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Connection

from rowmill.model.lifecycle import CLAIMABLE, StateKind
from rowmill.operator import activity
from rowmill.operator.activity import seconds_between
from rowmill.operator.browse import RowView, progress, row_view
from rowmill.operator.filters import Filter, failed_with
from rowmill.store.clock import as_moment, as_stored
from rowmill.store.expressions import in_words
from rowmill.store.postgres.session import index_plans
from rowmill.store.queue_sql import QueueSql

RECENT = 100
"""Number of events in the average processing time."""


@dataclass(frozen=True, slots=True)
class OutboxStats:
    """Counts of an outbox. All of them are exact."""

    pending_events: int
    """Unfinished events: waiting, due or running."""
    failed_events: int
    """Dead events, which are kept for inspection."""
    processed_last_hour: int
    processed_last_24h: int
    queue_depth: int
    """Events that are due and not running yet."""
    average_processing_time_ms: float | None
    """Average milliseconds from insert to processed, over the last hundred events; None if there are none."""
    parked_events: int
    """Pending events whose type has no handler."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class EventView:
    """An event as operators see it, without its payload."""

    event_type: str
    aggregate_id: str | None
    created_at: datetime | None
    row: RowView


# served by: the ready index, the running index, and an index on (state, finished_at) where there is one
def stats(connection: Connection, sql: QueueSql, parked: str) -> OutboxStats:
    """Count the events of an outbox. `parked` is the error code of events whose type has no handler."""
    queue = sql.queue
    with index_plans(connection):
        claimable, due, waiting = connection.execute(
            sa.select(
                sa.func.count(),
                sa.func.count().filter(sa.literal_column(f"({sql.available_at} IS NULL OR {sql.due})")),
                sa.func.count().filter(failed_with(sql, parked)),
            )
            .select_from(queue.table)
            .where(in_words(sql, queue.vocabulary.all_of(CLAIMABLE)))
        ).one()
        running, dead = (_count(connection, sql, kind) for kind in (StateKind.RUNNING, StateKind.DEAD))
        average = _average(connection, sql)
    return OutboxStats(
        pending_events=claimable + running,
        failed_events=dead,
        processed_last_hour=_processed(connection, sql, 60),
        processed_last_24h=_processed(connection, sql, 24 * 60),
        queue_depth=due,
        average_processing_time_ms=average,
        parked_events=waiting,
    )


def _count(connection: Connection, sql: QueueSql, kind: StateKind) -> int:
    queue = sql.queue
    wanted = sa.select(sa.func.count()).select_from(queue.table).where(in_words(sql, queue.vocabulary.of(kind)))
    if kind is StateKind.DEAD and queue.sets_finished_at(kind):  # matches the condition of the index on finished events
        wanted = wanted.where(queue.columns["finished_at"].is_not(None))
    return connection.scalar(wanted) or 0


def _processed(connection: Connection, sql: QueueSql, minutes: int) -> int:
    """Count processed events by the throughput per minute. That is exact at any volume, and includes deleted events."""
    return sum(minute.moves.get("done", 0) for minute in activity.throughput(connection, sql.queue, minutes))


def _average(connection: Connection, sql: QueueSql) -> float | None:
    queue = sql.queue
    created, finished = queue.columns.get("created_at"), queue.columns["finished_at"]
    if created is None:
        return None
    rows = connection.execute(
        sa.select(
            as_stored(created, connection.dialect.name).label("created"),
            as_stored(finished, connection.dialect.name).label("finished"),
        )
        .where(in_words(sql, queue.vocabulary.done), finished.is_not(None))
        .order_by(finished.desc())
        .limit(RECENT)
    ).all()
    if not rows:
        return None
    seconds = sum(max(seconds_between(queue, row.created, row.finished), 0.0) for row in rows)
    return round(seconds / len(rows) * 1000, 3)


# served by: as the filter; in the order of the primary key
def list_events(
    connection: Connection,
    sql: QueueSql,
    named: tuple["Column[Any]", "Column[Any]"],
    wanted: Filter,
    limit: int,
    *,
    event_type: str | None = None,
    aggregate_id: str | None = None,
) -> list[EventView]:
    """List events in the order of their keys. `named` are the columns of their type and their aggregate."""
    queue, (kind, aggregate) = sql.queue, named
    conditions = wanted.conditions(sql)
    if event_type is not None:
        conditions.append(kind == event_type)
    if aggregate_id is not None:
        conditions.append(sa.cast(aggregate, sa.Text) == aggregate_id)
    created = queue.columns.get("created_at")
    columns = [kind.label("e_type"), aggregate.label("e_aggregate")]
    created_at = sa.null() if created is None else as_stored(created, connection.dialect.name)
    columns.append(created_at.label("e_created"))
    rows = connection.execute(
        sa.select(*progress(sql), *columns).where(sa.true(), *conditions).order_by(*queue.key).limit(limit)
    )
    return [
        EventView(
            str(row.e_type),
            None if row.e_aggregate is None else str(row.e_aggregate),
            as_moment(row.e_created, queue.epoch),
            row_view(sql, row),
        )
        for row in rows
    ]
