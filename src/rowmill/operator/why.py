"""Explains why a row is not worked on: everything that holds it, and what to do about it."""

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model import limits
from rowmill.model.dead_rows import ATTEMPTS_USED_UP
from rowmill.model.lifecycle import StateKind
from rowmill.model.settle_lag import MEANINGS
from rowmill.model.states import Step
from rowmill.operator import activity
from rowmill.operator.activity import seconds_between
from rowmill.operator.browse import AttemptView, RowView, find_row, history
from rowmill.store.clock import LAST, as_moment, as_stored
from rowmill.store.expressions import in_words, keys_in
from rowmill.store.keys import parse_key, scalar
from rowmill.store.own import fleet
from rowmill.store.own.history import CLAIM_REFUSED
from rowmill.store.queue_sql import QueueSql
from rowmill.store.state_words import OTHER, StateWords


class Obstacle(StrEnum):
    """What can hold a row."""

    LEASED = "leased"
    UNWRITTEN = "unwritten"
    LOCKED = "locked"
    LEASE_EXPIRED = "lease_expired"
    NO_LEASE = "no_lease"
    LEFT_OUT = "left_out"
    REFUSED = "refused"
    ATTEMPTS_USED_UP = "attempts_used_up"
    BACKOFF = "backoff"
    LIMIT = "limit"
    PAUSED = "paused"
    ORDER = "order"
    NO_HANDLER = "no_handler"
    NO_WORKER = "no_worker"
    DEAD = "dead"
    DONE = "done"
    CANCELLED = "cancelled"
    KEPT = "kept"
    UNKNOWN_WORD = "unknown_word"
    OTHER_WORD = "other_word"
    NO_STATE = "no_state"
    READY = "ready"
    """Nothing holds the row."""


@dataclass(frozen=True, slots=True)
class Hold:
    """One thing that holds a row, as a sentence, and the facts behind it."""

    reason: Obstacle
    text: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Why:
    """A row and everything that holds it, the most telling first; never empty.

    why = await articles.why(17)
    print(why)  # the sentences of `rowmill why`
    why.reason  # the first of them, as a word: "backoff"
    """

    row: RowView
    holds: tuple[Hold, ...]

    @property
    def reason(self) -> Obstacle:
        return self.holds[0].reason

    def __str__(self) -> str:
        lines = "".join(f"\n  {hold.reason}: {hold.text}" for hold in self.holds)
        return f"{self.row.key} ({self.row.state or 'NULL'}){lines}"


ClosedLimits = Callable[[Connection, RowView], Iterable[Hold]]
"""Returns the limits that let no row of this row's stage through now, whether or not it has asked yet."""


def why(
    connection: Connection, sql: QueueSql, key: str, closed: ClosedLimits = lambda *_: ()
) -> tuple[RowView, list[Hold]]:
    """Return a row and everything that holds it, the most telling first; never empty."""
    row = find_row(connection, sql, key)
    if row.state is None:
        return row, [Hold(Obstacle.NO_STATE, "it has no state (NULL), so nobody claims it: set one")]
    match row.kind:
        case StateKind.RUNNING:
            return row, [_lease(connection, sql, row, key), *_lock(connection, sql, key)]
        case StateKind.READY | StateKind.WAITING:
            step = sql.queue.step(row.stage)
            holds = list(_claimable(connection, sql, row, step, key))
            named = {hold.facts["limit"] for hold in holds if hold.reason is Obstacle.LIMIT}
            holds += [hold for hold in closed(connection, row) if hold.facts["limit"] not in named]
            return row, holds or [Hold(Obstacle.READY, "nothing holds it: a worker takes it when its turn comes")]
        case StateKind.DEAD:
            return row, [_dead(connection, sql, key), *_kept(connection, sql, row, key)]
        case StateKind.DONE:
            done = Hold(Obstacle.DONE, "it is done" + _at(row), {"finished_at": row.finished_at})
            return row, [done, *_kept(connection, sql, row, key)]
        case StateKind.CANCELLED:
            cancelled = Hold(Obstacle.CANCELLED, "it was cancelled" + _at(row), {"finished_at": row.finished_at})
            return row, [cancelled, *_kept(connection, sql, row, key)]
    if row.kind == OTHER:
        text = f"its state {row.state} is one that the queue leaves alone, as it was told: States(others=...)"
        return row, [Hold(Obstacle.OTHER_WORD, text, {"state": row.state})]
    known = ", ".join(map(StateWords(sql).text, StateWords(sql).words))
    text = f"its state {row.state} is a word that the queue does not know, so nobody claims it. Known: {known}"
    return row, [Hold(Obstacle.UNKNOWN_WORD, text, {"state": row.state})]


def _at(row: RowView) -> str:
    return f", since {row.finished_at:%Y-%m-%d %H:%M:%S} UTC" if row.finished_at else ""


# served by: the primary key
def _kept(connection: Connection, sql: QueueSql, row: RowView, key: str) -> Iterator[Hold]:
    """Yield until when a finished row is kept, if its queue deletes such rows."""
    queue, kind = sql.queue, StateKind(row.kind)
    age = queue.retention.ages().get(kind)
    if age is None:
        return
    column = as_stored(queue.columns[queue.aged_by(kind)], connection.dialect.name)
    since = as_moment(connection.scalar(sa.select(column).where(keys_in(sql, [parse_key(queue, key)]))), queue.epoch)
    if since is not None:
        until = since + timedelta(seconds=min(age, (LAST - since).total_seconds()))
        yield Hold(Obstacle.KEPT, f"it is kept until {until:%Y-%m-%d %H:%M:%S} UTC, and deleted then", {"until": until})


def _lease(connection: Connection, sql: QueueSql, row: RowView, key: str) -> Hold:
    if row.leased_until is None:
        text = "it is called running, but has no lease. The next rescue gives it one, and the row back when that ends"
        return Hold(Obstacle.NO_LEASE, text)
    left = _seconds_left(connection, sql, "leased_until", key)
    if row.worker is None and left >= 0:
        text = f"other code than Rowmill's called it running. It is given back when its lease ends, in {left:.0f} s"
        return Hold(Obstacle.NO_LEASE, text, {"leased_until": row.leased_until, "seconds_left": round(left, 3)})
    holder = None if row.worker is None else activity.worker(connection, row.worker)
    facts: dict[str, Any] = {"worker": row.worker, "leased_until": row.leased_until, "seconds_left": round(left, 3)}
    who = "other code" if row.worker is None else f"worker {row.worker}"
    if holder is not None:
        facts |= {"host": holder.host, "pid": holder.pid, "alive": holder.alive, "seen_at": holder.seen_at}
        who += f" ({holder.host}, process {holder.pid}, {'alive' if holder.alive else 'no sign of life'})"
    if left < 0:
        text = f"the lease of {who} ran out {-left:.0f} s ago. The next rescue gives the row back: rowmill rescue"
        return Hold(Obstacle.LEASE_EXPIRED, text, facts)
    lag = None if holder is None else holder.settle_lags.get(sql.queue.name)
    if holder is not None and holder.alive and lag is not None and key in lag.keys:
        late = {"reason": lag.reason, "rows": lag.rows, "unwritten_seconds": lag.seconds}
        meaning = MEANINGS.get(lag.reason, lag.reason)
        text = f"{who} has finished it, and could not write that for up to {lag.seconds:.0f} s: {meaning}"
        return Hold(Obstacle.UNWRITTEN, text, facts | late)
    return Hold(Obstacle.LEASED, f"{who} works on it; its lease ends in {left:.0f} s unless it is renewed", facts)


LOCKERS = """
SELECT l.pid, coalesce(a.application_name, '') AS application, coalesce(a.state, '') AS state,
       extract(epoch FROM clock_timestamp() - a.xact_start) AS seconds
FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'transactionid' AND l.granted AND l.transactionid::text = :transaction
"""


# served by: the primary key
def _lock(connection: Connection, sql: QueueSql, key: str) -> Iterator[Hold]:
    """Yield each session that has the row locked. SQLite locks no rows."""
    if connection.dialect.name != "postgresql":
        return
    mine = keys_in(sql, [parse_key(sql.queue, key)])
    xmax = sa.literal_column("xmax::text", sa.Text)
    transaction = connection.scalar(sa.select(xmax).select_from(sql.queue.table).where(mine))
    for one in connection.execute(sa.text(LOCKERS), {"transaction": transaction}):
        seconds = None if one.seconds is None else round(float(one.seconds), 1)
        since = "" if seconds is None else f", for {seconds:.0f} s"
        text = (
            f"process {one.pid} ({one.application or 'unnamed'}, {one.state or 'unknown'}) has it locked{since}. "
            f"Nothing is written to it until that transaction ends: SELECT pg_terminate_backend({one.pid})"
        )
        yield Hold(Obstacle.LOCKED, text, {"pid": one.pid, "application": one.application, "seconds": seconds})


def _claimable(connection: Connection, sql: QueueSql, row: RowView, step: Step, key: str) -> Iterator[Hold]:
    queue = sql.queue
    last = _last_failure(connection, sql, key)
    if queue.where is not None and not _may_be_claimed(connection, sql, key):
        text = (
            f"this application's filter leaves it out: queue {queue.name} is declared with where {sql.condition}. "
            "Workers of another application may take it"
        )
        yield Hold(Obstacle.LEFT_OUT, text, {"where": sql.condition})
    if last is not None and last.code == CLAIM_REFUSED:
        text = (
            f"table {queue.table.name} refused to let it be claimed, at {last.ended_at:%Y-%m-%d %H:%M:%S} UTC: "
            f"{last.message}. Mend the row, or what forbids it; it is tried again every minute"
        )
        yield Hold(Obstacle.REFUSED, text, {"reason": last.message, "at": last.ended_at, "stage": last.stage})
    if row.max_attempts is not None and row.attempts >= row.max_attempts:
        text = (
            f"its {row.max_attempts} attempts are used up ({row.attempts} made): the next claim buries it, with the "
            f"code {ATTEMPTS_USED_UP}. If it should run: "
            + shlex.join(["rowmill", "requeue", queue.name, "--key", key])
        )
        yield Hold(Obstacle.ATTEMPTS_USED_UP, text, {"attempts": row.attempts, "limit": row.max_attempts})
    pauses = fleet.paused(connection, queue)
    for stage in (fleet.WHOLE, step.name):
        if stage in pauses:
            what = f"stage {stage}" if stage else f"queue {queue.name}"
            command = shlex.join(["rowmill", "resume", queue.name, *(["--stage", stage] if stage else [])])
            since = {"stage": stage or None, "since": as_moment(pauses[stage])}
            yield Hold(Obstacle.PAUSED, f"{what} is paused. Go on with: {command}", since)
    if row.available_at is not None:
        left = _seconds_left(connection, sql, "available_at", key)
        if left > 0:
            until = {"available_at": row.available_at, "seconds_left": round(left, 3)}
            yield _limit(row, left, until) or _backoff(row, last, left, until)
    head = _held_by(connection, sql, key)
    if head is not None and queue.per is not None:
        yield Hold(Obstacle.ORDER, f"row {head['key']} of the same {queue.per.name} {head.pop('why')}", head)
    if step.name not in queue.handlers:
        yield Hold(Obstacle.NO_HANDLER, f"stage {step.name} has no handler in this application", {"stage": step.name})
    if not any(queue.name in one.queues for one in activity.workers(connection) if one.alive):
        yield Hold(Obstacle.NO_WORKER, f"no living worker serves queue {queue.name}. Start one with: rowmill work")


# served by: the primary key
def _may_be_claimed(connection: Connection, sql: QueueSql, key: str) -> bool:
    """Return whether the queue's filter lets this row be claimed."""
    fits: sa.ColumnElement[Any] = sa.literal_column(f"({sql.condition})")
    mine = keys_in(sql, [parse_key(sql.queue, key)])
    return bool(connection.scalar(sa.select(fits).select_from(sql.queue.table).where(mine)))


def _last_failure(connection: Connection, sql: QueueSql, key: str) -> AttemptView | None:
    return next(iter(reversed(history(connection, sql, key))), None)


def _backoff(row: RowView, last: AttemptView | None, left: float, until: dict[str, Any]) -> Hold:
    after = f" after {row.attempts} attempts" if row.attempts else ""
    if row.error:
        until["code"] = row.error.partition(":")[0] if last is None else last.code
        after += f" ({until['code']})"
    if row.available_at == LAST:
        text = "its time never comes: it is infinite, or after the year 9999. Put the row back with: rowmill requeue"
        return Hold(Obstacle.BACKOFF, text, until)
    return Hold(Obstacle.BACKOFF, f"it waits for its time{after}: {left:.0f} s more", until)


def _limit(row: RowView, left: float, until: dict[str, Any]) -> Hold | None:
    """Return what holds a row that a limit has put back, from the note that it carries."""
    code, _, rest = (row.error or "").partition(": ")
    reason = next((reason for reason in limits.RefusalReason if reason.code == code), None)
    if reason is None:
        return None
    name, _, key = rest.partition(" ")
    what = f"limit {name}" + (f" (key {key})" if key else "")
    text = f"it waits for {what} until {row.available_at:%Y-%m-%d %H:%M:%S} UTC, {left:.0f} s more: "
    on = f". Go on with: {shlex.join(['rowmill', 'limits', 'on', name])}" if reason is limits.RefusalReason.OFF else ""
    facts = {"limit": name, "key": key, "why": reason.value}
    return Hold(Obstacle.LIMIT, text + limits.MEANINGS[reason] + on, facts | until)


def _dead(connection: Connection, sql: QueueSql, key: str) -> Hold:
    queue, last = sql.queue, _last_failure(connection, sql, key)
    retry = f"Try again with: {shlex.join(['rowmill', 'requeue', queue.name, '--key', key])}"
    if last is None:
        return Hold(Obstacle.DEAD, f"it is dead, and no failed attempt of it is known. {retry}")
    facts = {"code": last.code, "stage": last.stage, "attempt": last.attempt, "ended_at": last.ended_at}
    return Hold(
        Obstacle.DEAD,
        f"it is dead: attempt {last.attempt} of stage {last.stage} failed with {last.code}. {retry}",
        facts,
    )


# served by: the primary key
def _seconds_left(connection: Connection, sql: QueueSql, role: str, key: str) -> float:
    """Return the seconds until a time, by the database's clock."""
    column = sql.queue.columns[role]
    now = sa.literal_column(sql.now(role), column.type).label("now")
    row = connection.execute(
        sa.select(as_stored(column, connection.dialect.name).label("at"), now).where(
            keys_in(sql, [parse_key(sql.queue, key)])
        )
    ).one()
    return seconds_between(sql.queue, row.now, row.at)


# served by: the in-order index
def _held_by(connection: Connection, sql: QueueSql, key: str) -> dict[str, Any] | None:
    """Return the head of the same key, if it is another row: the one that runs, or the first unfinished one."""
    queue = sql.queue
    if queue.per is None:
        return None
    # By name: == between columns makes SQL, not an answer.
    sequence = list({column.name: column for column in (*queue.per_by, *queue.key)}.values())
    mine = [parse_key(queue, key)]
    this = connection.execute(sa.select(queue.per.label("per_key"), *sequence).where(keys_in(sql, mine))).one()
    values = [sa.literal(value, column.type) for value, column in zip(this[1:], sequence, strict=True)]
    runs, earlier = in_words(sql, queue.vocabulary.of(StateKind.RUNNING)), sa.tuple_(*sequence) < sa.tuple_(*values)
    row = connection.execute(
        sa.select(*queue.key, StateWords(sql).raw_state.label("r_state"), earlier.label("is_earlier"))
        .where(queue.per == this.per_key, in_words(sql, sql.holding))
        .where(sa.or_(runs, earlier))
        .order_by(sa.literal_column(sql.running_first), *sequence)
        .limit(1)
    ).first()
    if row is None:
        return None
    state = str(row.r_state)
    reason = f"comes first, and is {state}" if row.is_earlier else f"is {state}: they are worked on one at a time"
    return {"key": queue.key_text(scalar(tuple(row[: len(queue.key)]))), "state": state, "why": reason}
