"""What goes on: how long rows wait, how many are settled per minute, what fails, who works."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model.queue import Queue
from rowmill.model.settle_lag import SettleLag, from_text
from rowmill.model.words import Step
from rowmill.store import order_sql, raw_sql
from rowmill.store.counts import How
from rowmill.store.fleet import ALIVE_SECONDS
from rowmill.store.index_plans import index_plans
from rowmill.store.moment import as_moment, as_stored, moment
from rowmill.store.schema import own_tables
from rowmill.store.terms import Terms

MOST_LEVELS = 50
"""Priorities that are looked at for the oldest row."""
MOST_FAILURES = 100_000
"""Failures that are counted by code, newest first."""


@dataclass(slots=True)
class Minute:
    """What was settled in one minute, by move."""

    minute: datetime
    moves: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    """That handlers ran."""


@dataclass(frozen=True, slots=True)
class SettleRate:
    """How fast rows are settled now."""

    per_minute: float
    """Rows a minute, over the last clock minutes and the one that runs."""
    over_minutes: int
    """How many clock minutes those are."""
    idle_minutes: int | None
    """Clock minutes since rows were last settled; 0: in this one. None: not in the minutes that were looked at."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Failed attempts by code, most frequent first."""

    codes: dict[str, int]
    count: How
    """CAPPED: only the newest were counted, and there are more."""


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker of the fleet."""

    id: int
    host: str
    pid: int
    queues: list[str]
    started_at: datetime | None
    seen_at: datetime | None
    seen_seconds_ago: float
    stopped: bool
    alive: bool
    """It gave a sign of life lately, and did not sign off."""
    settle_lags: dict[str, SettleLag] = field(default_factory=dict)
    """By queue: what it has finished and could not write yet, as of that sign of life."""


# served by: the ready index, one descent per priority and stretch
def oldest_ready(connection: Connection, terms: Terms) -> float | None:
    """For how many seconds the oldest row that could be worked on has been waiting. None when there is none, or when
    such rows do not say since when (no `available_at`, and no `created_at` mapped)."""
    with index_plans(connection):
        ages = [age for step in terms.queue.steps for age in _heads(connection, terms, step)]
    return max(ages, default=None)


def _heads(connection: Connection, terms: Terms, step: Step) -> Iterator[float]:
    queue = terms.queue
    levels: list[str] = [""]
    if terms.priority is not None:
        found = connection.exec_driver_sql(order_sql.priorities(terms, step)).fetchmany(MOST_LEVELS)
        levels = [f"{terms.priority} = {Decimal(str(row[0]))} AND " for row in found]
    for level in levels:
        for available, role in ((f"{terms.available_at} IS NULL", "created_at"), (terms.due, "available_at")):
            if role not in queue.columns:
                continue
            column = queue.columns[role]
            now = sa.literal_column(terms.now(role), column.type).label("now")
            head = connection.execute(
                sa.select(as_stored(column, connection.dialect.name).label("since"), now)
                .where(sa.literal_column(f"{level}{terms.is_in(step.claimable)}{terms.may_claim()} AND {available}"))
                .order_by(raw_sql.as_text(terms.order))
                .limit(1)
            ).first()
            if head is not None and head.since is not None:
                yield max(seconds_between(queue, head.since, head.now), 0.0)


def seconds_between(queue: Queue[Any], earlier: Any, later: Any) -> float:
    """The time between two times of the same column."""
    first, second = as_moment(earlier, queue.epoch), as_moment(later, queue.epoch)
    return 0.0 if first is None or second is None else (second - first).total_seconds()


# served by: the primary key of the throughput; receipts are few
def throughput(connection: Connection, queue: Queue[Any], minutes: int = 60) -> list[Minute]:
    """What was settled in each of the last minutes, oldest first: what is rolled up, and receipts that are not yet."""
    own, dialect = own_tables(connection.dialect.name), connection.dialect.name
    since = moment(dialect, -60.0 * minutes)
    at = own.receipt.c.at
    minute = (
        sa.func.date_trunc("minute", at)
        if dialect == "postgresql"
        else sa.func.strftime("%Y-%m-%d %H:%M:00.000000", at, type_=at.type)
    )
    found: dict[datetime, Minute] = {}
    for table, column in ((own.throughput, own.throughput.c.minute), (own.receipt, minute)):
        rows = connection.execute(
            sa.select(
                column.label("minute"), table.c.move,
                sa.func.sum(table.c.rows).label("rows"), sa.func.sum(table.c.seconds).label("seconds"),
            )
            .where(table.c.queue == queue.name, (at if table is own.receipt else column) >= since)
            .group_by(column, table.c.move)
        )  # fmt: skip
        for row in rows:
            when = as_moment(row.minute)
            if when is not None:
                one = found.setdefault(when, Minute(when))
                one.moves[row.move] = one.moves.get(row.move, 0) + int(row.rows)
                one.seconds += float(row.seconds)
    return [found[when] for when in sorted(found)]


def settle_rate(minutes: list[Minute], now: datetime, over: int = 5) -> SettleRate:
    """The rate of the last `over` clock minutes, whether or not something was settled in each of them."""
    this = now.replace(second=0, microsecond=0)
    since = this - timedelta(minutes=over)
    rows = sum(sum(minute.moves.values()) for minute in minutes if minute.minute >= since)
    last = max((minute.minute for minute in minutes if any(minute.moves.values())), default=None)
    idle = None if last is None else max(int((this - last).total_seconds() // 60), 0)
    return SettleRate(rows / ((now - since).total_seconds() / 60), over, idle)


def database_time(connection: Connection) -> datetime:
    """The database's clock, in UTC."""
    found = as_moment(connection.scalar(sa.select(moment(connection.dialect.name))))
    assert found is not None
    return found


# served by: the history's index on ended_at
def failures(connection: Connection, queue: Queue[Any], seconds: float = 3600.0) -> Failures:
    """Failed attempts of the last time by code. Of more than MOST_FAILURES, the newest are counted."""
    attempt = own_tables(connection.dialect.name).attempt
    recent = (
        sa.select(attempt.c.code)
        .where(attempt.c.queue == queue.name, attempt.c.ended_at >= moment(connection.dialect.name, -seconds))
        .order_by(attempt.c.ended_at.desc())
        .limit(MOST_FAILURES + 1)
        .subquery()
    )
    count = sa.func.count().label("failures")
    rows = connection.execute(
        sa.select(recent.c.code, count).group_by(recent.c.code).order_by(count.desc(), recent.c.code)
    )
    codes = {row.code: row.failures for row in rows}
    return Failures(codes, How.CAPPED if sum(codes.values()) > MOST_FAILURES else How.EXACT)


# served by: nothing, workers are few
def workers(connection: Connection, *, within: float = 3600.0) -> list[WorkerView]:
    """Workers that gave a sign of life lately, the latest first."""
    table = own_tables(connection.dialect.name).worker
    lately = table.c.seen_at >= moment(connection.dialect.name, -within)
    return _workers(connection, lately)


# served by: the primary key
def worker(connection: Connection, number: int) -> WorkerView | None:
    """The worker of that number, if it is still known."""
    return next(iter(_workers(connection, own_tables(connection.dialect.name).worker.c.id == number)), None)


def _workers(connection: Connection, condition: "sa.ColumnElement[bool]") -> list[WorkerView]:
    table = own_tables(connection.dialect.name).worker
    now = sa.type_coerce(moment(connection.dialect.name), table.c.seen_at.type).label("now")
    order = (table.c.seen_at.desc(), table.c.id.desc())
    rows = connection.execute(sa.select(table, now).where(condition).order_by(*order).limit(1000))
    return [_worker_view(row) for row in rows]


def _worker_view(row: Any) -> WorkerView:
    seen, now = as_moment(row.seen_at), as_moment(row.now)
    ago = (now - seen).total_seconds() if seen is not None and now is not None else 0.0
    stopped = row.stopped_at is not None
    return WorkerView(
        id=row.id, host=row.host, pid=row.pid, queues=[name for name in row.queues.split(", ") if name],
        started_at=as_moment(row.started_at), seen_at=seen, seen_seconds_ago=max(ago, 0.0),
        stopped=stopped, alive=not stopped and ago <= ALIVE_SECONDS, settle_lags=from_text(row.settle_lag),
    )  # fmt: skip
