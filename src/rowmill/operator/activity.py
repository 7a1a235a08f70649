"""The activity of a queue: how long rows wait, how many are settled per minute, what fails, which workers live."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model.alerts import Alerts, QueueObservation
from rowmill.model.errors import CODE_LENGTH
from rowmill.model.lifecycle import DIE, GIVEN_BACK, StateKind
from rowmill.model.queue import QueueSpec
from rowmill.model.settle_lag import SettleLag, from_text
from rowmill.model.states import Step
from rowmill.operator import counts
from rowmill.operator.counts import CAP, How
from rowmill.store import expressions, order_per_key
from rowmill.store.clock import as_moment, as_stored, moment
from rowmill.store.own.fleet import ALIVE_SECONDS
from rowmill.store.own.schema import own_tables
from rowmill.store.postgres.session import index_plans
from rowmill.store.queue_sql import QueueSql

MOST_LEVELS = 50
"""The most priorities in which the oldest row is looked for."""
MOST_FAILURES = 100_000
"""The most failures that are counted by code, newest first."""


@dataclass(slots=True)
class Minute:
    """The rows settled in one minute, by move."""

    minute: datetime
    moves: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    """Seconds that handlers ran."""


@dataclass(frozen=True, slots=True)
class SettleRate:
    """How fast rows are settled now."""

    per_minute: float
    """Rows per minute, over the last full minutes and the current one."""
    over_minutes: int
    """How many minutes those are."""
    idle_minutes: int | None
    """Minutes since rows were last settled; 0 for the current one, None if not in the minutes looked at."""


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
    """Whether it sent a heartbeat lately and did not sign off."""
    settle_lags: dict[str, SettleLag] = field(default_factory=dict)
    """By queue: what it had finished and could not write, at its last heartbeat."""


# served by: the ready index, one descent per priority and stretch
def oldest_ready(connection: Connection, sql: QueueSql) -> float | None:
    """Return how many seconds the oldest row that could be worked on has waited. None if there is none, or if rows do
    not say since when (no `available_at`, and no `created_at` mapped)."""
    with index_plans(connection):
        ages = [age for step in sql.queue.steps for age in _heads(connection, sql, step)]
    return max(ages, default=None)


def _heads(connection: Connection, sql: QueueSql, step: Step) -> Iterator[float]:
    queue = sql.queue
    levels: list[str] = [""]
    if sql.priority is not None:
        found = connection.exec_driver_sql(order_per_key.priorities(sql, step)).fetchmany(MOST_LEVELS)
        levels = [f"{sql.priority} = {Decimal(str(row[0]))} AND " for row in found]
    for level in levels:
        for available, role in ((f"{sql.available_at} IS NULL", "created_at"), (sql.due, "available_at")):
            if role not in queue.columns:
                continue
            column = queue.columns[role]
            now = sa.literal_column(sql.now(role), column.type).label("now")
            head = connection.execute(
                sa.select(as_stored(column, connection.dialect.name).label("since"), now)
                .where(sa.literal_column(f"{level}{sql.is_in(step.claimable)}{sql.may_claim()} AND {available}"))
                .order_by(expressions.as_text(sql.order))
                .limit(1)
            ).first()
            if head is not None and head.since is not None:
                yield max(seconds_between(queue, head.since, head.now), 0.0)


def seconds_between(queue: QueueSpec[Any], earlier: Any, later: Any) -> float:
    """Return an expression for the seconds between two times of the same column."""
    first, second = as_moment(earlier, queue.epoch), as_moment(later, queue.epoch)
    return 0.0 if first is None or second is None else (second - first).total_seconds()


# served by: the primary key of the throughput; receipts are few
def throughput(connection: Connection, queue: QueueSpec[Any], minutes: int = 60) -> list[Minute]:
    """Return what was settled in each of the last minutes, oldest first, from the roll-up and from receipts that are
    not in it yet."""
    own, dialect = own_tables(connection.dialect.name), connection.dialect.name
    since = moment(dialect, -60.0 * minutes)
    at = own.receipt.c.at
    minute = (
        sa.func.date_trunc("minute", at)
        if dialect == "postgresql"
        else sa.func.strftime("%Y-%m-%d %H:%M:00.000000", at, type_=at.type)
    )
    # One statement: what is rolled up between two would be in neither of them.
    parts = [
        sa.select(minute_of.label("minute"), table.c.move, table.c.rows, table.c.seconds)
        .where(table.c.queue == queue.name, settled_at >= since)
        for table, minute_of, settled_at in (
            (own.throughput, own.throughput.c.minute, own.throughput.c.minute), (own.receipt, minute, at),
        )
    ]  # fmt: skip
    every = sa.union_all(*parts).subquery("every").c
    sums = sa.func.sum(every.rows).label("rows"), sa.func.sum(every.seconds).label("seconds")
    found: dict[datetime, Minute] = {}
    for row in connection.execute(sa.select(every.minute, every.move, *sums).group_by(every.minute, every.move)):
        when = as_moment(row.minute)
        if when is not None:
            one = found.setdefault(when, Minute(when))
            one.moves[row.move] = one.moves.get(row.move, 0) + int(row.rows)
            one.seconds += float(row.seconds)
    return [found[when] for when in sorted(found)]


def settle_rate(minutes: list[Minute], now: datetime, over: int = 5) -> SettleRate:
    """Return the rate over the last `over` minutes, including minutes without rows. Rows that were given back without
    having run do not count: a provider that is off would look like work."""
    this = now.replace(second=0, microsecond=0)
    since = this - timedelta(minutes=over)
    settled = {
        minute.minute: sum(rows for move, rows in minute.moves.items() if move not in GIVEN_BACK) for minute in minutes
    }
    rows = sum(rows for minute, rows in settled.items() if minute >= since)
    last = max((minute for minute, rows in settled.items() if rows), default=None)
    idle = None if last is None else max(int((this - last).total_seconds() // 60), 0)
    return SettleRate(rows / ((now - since).total_seconds() / 60), over, idle)


def read_at_one_moment(connection: Connection) -> None:
    """Make all reads of this transaction see one moment, so that numbers add up. Call it first. SQLite does so
    anyway."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")


def database_time(connection: Connection) -> datetime:
    """Return the database's time, in UTC."""
    found = as_moment(connection.scalar(sa.select(moment(connection.dialect.name))))
    assert found is not None
    return found


# served by: the history's index on ended_at
def failures(connection: Connection, queue: QueueSpec[Any], seconds: float = 3600.0) -> Failures:
    """Count the failed attempts of the last `seconds` by code; at most the newest MOST_FAILURES."""
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
    """Return the workers that sent a heartbeat lately, latest first."""
    table = own_tables(connection.dialect.name).worker
    lately = table.c.seen_at >= moment(connection.dialect.name, -within)
    return _workers(connection, lately)


# served by: the primary key
def worker(connection: Connection, number: int) -> WorkerView | None:
    """Return the worker of that number; None if it was deleted from the fleet."""
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


CODE = re.compile(r"\w[\w.:/-]*")
"""The pattern of a code at the front of an error. The text behind it may quote a row, and is never returned."""


@dataclass(frozen=True, slots=True)
class DeadRows:
    """How many rows are dead, and of what."""

    rows: int = 0
    codes: dict[str, int] = field(default_factory=dict)
    """Rows by code, most frequent first."""
    without_code: int = 0
    """Rows whose error has no code: another program wrote it, or there is none."""
    count: How = How.EXACT


# served by: a scan of a small table; on a big one, the index for the retention of dead rows, or a sample
def dead_rows(connection: Connection, sql: QueueSql, *, cap: int = CAP) -> DeadRows:
    """Count the dead rows by code. On a big table, count the newest `cap` if an index lists dead rows by age; otherwise
    estimate from a sample, in which rare codes may be missing."""
    dead = sql.is_in(sql.queue.vocabulary.of(StateKind.DEAD)) + sql.part
    code = _code(sql)
    whole = f"SELECT {code}, count(*) FROM {sql.table} WHERE {dead} GROUP BY 1"
    if counts.is_small(connection, sql):
        return _summed(sql, _rows(connection, whole), How.EXACT)
    if StateKind.DEAD in sql.queue.retention.ages():
        aged = sql.role(sql.queue.aged_by(StateKind.DEAD))
        newest = f"SELECT {code} AS code FROM {sql.table} WHERE {dead} ORDER BY {aged} DESC LIMIT {int(cap) + 1}"
        with index_plans(connection):
            found = _rows(connection, f"SELECT code, count(*) FROM ({newest}) AS newest GROUP BY 1")
        return _summed(sql, found, How.CAPPED if sum(found.values()) > cap else How.EXACT)
    sampled = counts.sampled(connection, sql, f"CASE WHEN {dead} THEN {code} END")
    if sampled is None:
        return _summed(sql, _rows(connection, whole), How.EXACT)
    return _summed(sql, {code: rows for code, rows in sampled.items() if code is not None}, How.ESTIMATED)


def _code(sql: QueueSql) -> str:
    """Return an expression for the code of a row, empty if it has none. Long text and text with blanks is cut off, or
    each row would be a group of its own."""
    column = sql.queue.columns.get("error_code")
    if column is not None:
        return f"coalesce(substr(CAST({sql.name(column)} AS text), 1, {CODE_LENGTH}), '')"
    find = "strpos" if sql.dialect.name == "postgresql" else "instr"
    error = f"CAST({sql.role('error')} AS text)"
    first = f"substr({error}, 1, {find}({error} || ': ', ': ') - 1)"
    return f"CASE WHEN length({first}) <= {CODE_LENGTH} AND {find}({first}, ' ') = 0 THEN {first} ELSE '' END"


def _rows(connection: Connection, statement: str) -> dict[str, int]:
    return {row[0]: row[1] for row in connection.exec_driver_sql(statement)}


def _summed(sql: QueueSql, found: Mapping[Any, int], count: How) -> DeadRows:
    own_column = "error_code" in sql.queue.columns
    codes: dict[str, int] = {}
    without = 0
    for code, rows in sorted(found.items(), key=lambda one: (-one[1], one[0])):
        if code and (own_column or CODE.fullmatch(code)):
            codes[code] = rows
        else:
            without += rows
    return DeadRows(sum(found.values()), codes, without, count)


LATELY = 3600.0
"""Seconds over which dead rows are counted."""
DAY = 86400.0


# served by: the ready index, the throughput's primary key, the history's index on ended_at; workers are few
def observe_queue(connection: Connection, sql: QueueSql, limits: Alerts) -> QueueObservation:
    """Return what alerts need to know of a queue. Only what has a limit is looked at."""
    queue = sql.queue
    backlog, died = 0, 0
    unattended: float | None = None
    if limits.backlog is not None:
        depth = counts.depth(connection, sql, limits.backlog)
        backlog = depth.rows + (depth.count is How.CAPPED)
    if limits.died is not None:
        minutes = throughput(connection, queue, int(LATELY // 60))
        died = sum(minute.moves.get(DIE.name, 0) for minute in minutes)
        died += failures(connection, queue, LATELY).codes.get(queue.crash_codes.buried, 0)  # by a rescue
    if limits.unattended is not None:
        known = workers(connection, within=max(DAY, limits.unattended))
        unattended = min((worker.seen_seconds_ago for worker in known if queue.name in worker.queues), default=None)
    unwritten = _unwritten(connection, queue.name) if limits.unwritten is not None else None
    oldest = oldest_ready(connection, sql) if limits.oldest is not None else None
    return QueueObservation(backlog, oldest, died, unattended, unwritten)


def _unwritten(connection: Connection, queue: str) -> float | None:
    """Return how many seconds a living worker has not been able to write what it has finished; None if none waits."""
    lags = [one.settle_lags[queue] for one in workers(connection) if one.alive and queue in one.settle_lags]
    return max((lag.seconds for lag in lags if lag.rows), default=None)
