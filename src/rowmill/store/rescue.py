"""Rescues rows of dead workers: gives them back, or buries them when no attempts are left.

Every function takes a connection in a transaction.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from rowmill.model.dead_rows import DeadRow
from rowmill.model.lease import Lease, worker_of
from rowmill.model.lifecycle import BURY, PARK, RESCUE, Move
from rowmill.model.states import Step
from rowmill.store.clock import moment
from rowmill.store.expressions import in_words, raw_key, raw_key_in
from rowmill.store.own.schema import own_tables
from rowmill.store.postgres.session import index_plans
from rowmill.store.queue_sql import QueueSql
from rowmill.store.refused_rows import PASSING
from rowmill.store.rows import RowLoader


@dataclass(frozen=True, slots=True)
class Rescued:
    returned: int = 0
    buried: int = 0
    refused: int = 0
    """Rows that the table refuses to change. They stay as they are."""
    deaths: tuple[DeadRow, ...] = field(default=(), compare=False)
    """The buried rows, for a queue with a listener."""


Ready = Callable[[Connection, Sequence[Any]], Sequence[Any]]
"""Picks rows. Each has its key, and then `held`, its token."""
LOCK_TIMEOUT = "1s"
"""For tables that are locked as a whole, so that other queues are swept too. Locked rows are passed over anyway."""


# served by: the partial index on running rows, (leased_until)
def rescue(
    connection: Connection,
    sql: QueueSql,
    step: Step,
    most: int,
    *,
    back: float | None = None,
    sparing: Collection[int] = (),
    ready: Ready | None = None,
    retry_alone: bool = False,
) -> Rescued:
    """Rescue rows of one stage whose lease has expired: give them back, or bury them when no attempts are left. With
    `back`, only those that expired in the last so many seconds; never those with a token in `sparing`, whose handlers
    are known to live. `ready` picks the rows that may be rescued now; all if it is not given.

    With `retry_alone`, a row on its last attempt is buried only if it ran alone in its worker, as `note_running_alone`
    has noted. Any other row may only have been near when its worker died: it gets its attempt back, and is tried alone
    the next time.

    The guards are in the UPDATE itself: a row that was renewed or settled since it was looked at is not
    touched. A row that runs without any lease (somebody else wrote the word) first gets one.
    """
    _set_lock_timeout(connection)
    with index_plans(connection):
        _give_missing_leases(connection, sql, step, most)
        found = connection.execute(expired_rows(sql, step, most, back=back, sparing=sparing)).all()
    if ready is not None:
        found = ready(connection, found)
    if not found:
        return Rescued()
    try:
        with connection.begin_nested():
            return _give_back(connection, sql, step, found, retry_alone)
    except DBAPIError as error:
        if not is_refusal(error):
            raise
    return _one_by_one(connection, sql, step, found, retry_alone)


# served by: the partial index on running rows, (leased_until)
def expired_rows(
    sql: QueueSql, step: Step, most: int, *, back: float | None = None, sparing: Collection[int] = ()
) -> "sa.Select[Any]":
    """Select rows of one stage whose lease has expired, and lock them. See `rescue`."""
    until, held = sql.queue.columns["leased_until"], sql.queue.columns["lease"]
    attempts = sa.func.coalesce(sql.queue.columns["attempts"], 0)
    found = sa.select(*raw_key(sql), held.label("held"), attempts.label("made"))
    found = found.where(running_here(sql, step), until < sa.literal_column(sql.now("leased_until")))
    if back is not None:
        found = found.where(until >= sa.literal_column(sql.later("leased_until", repr(-back))))
    if sparing:
        spared = sa.bindparam("spared", sorted(sparing), sa.BigInteger, expanding=True)
        found = found.where(sa.or_(held.is_(None), held.not_in(spared)))
    return found.order_by(until).limit(most).with_for_update(skip_locked=True, key_share=not sql.writes_a_key)


def _set_lock_timeout(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":  # for this transaction alone
        connection.exec_driver_sql(f"SELECT set_config('lock_timeout', '{LOCK_TIMEOUT}', true)")


def running_here(sql: QueueSql, step: Step) -> "sa.ColumnElement[bool]":
    """Return the condition for running rows of this queue's part of the table."""
    return sa.literal_column(sql.is_in(step.running) + sql.part)


def _give_missing_leases(connection: Connection, sql: QueueSql, step: Step, most: int) -> None:
    queue = sql.queue
    until = queue.columns["leased_until"]
    keys = connection.execute(
        sa.select(*raw_key(sql))
        .where(running_here(sql, step), until.is_(None))
        .order_by(until)
        .limit(most)
        .with_for_update(skip_locked=True, key_share=not sql.writes_a_key)
    ).all()
    if keys and not _give_leases(connection, sql, step, keys):
        for key in keys:
            _give_leases(connection, sql, step, [key])


def _give_leases(connection: Connection, sql: QueueSql, step: Step, keys: Sequence[Any]) -> bool:
    """Give rows that run without a lease one. Return False, with nothing changed, if the table refuses that for one of
    them."""
    until = sql.queue.columns["leased_until"]
    try:
        with connection.begin_nested():
            connection.execute(
                sa.update(sql.queue.table)
                .where(raw_key_in(sql, [tuple(key) for key in keys]), in_words(sql, step.running), until.is_(None))
                .values({until: sa.literal_column(sql.later("leased_until", repr(float(step.lease))))})
            )
    except DBAPIError as error:
        if not is_refusal(error):
            raise
        return False
    return True


def _give_back(connection: Connection, sql: QueueSql, step: Step, rows: Sequence[Any], retry_alone: bool) -> Rescued:
    used_up = guard_of(sql, step, BURY)
    retried: Sequence[Any] = ()
    if retry_alone:
        not_alone = sql.queue.columns["error"].is_(None)
        several: sa.ColumnElement[bool] = sa.literal_column(f"{sql.limit(step)} > 1", sa.Boolean)
        retried = _rescue_as(PARK, connection, sql, step, rows, sa.and_(used_up, several, not_alone))
    buried = _rescue_as(BURY, connection, sql, step, rows, used_up)
    returned = _rescue_as(RESCUE, connection, sql, step, rows, guard_of(sql, step, RESCUE))
    return Rescued(len(returned) + len(retried), len(buried), deaths=_deaths(connection, sql, buried))


def _one_by_one(connection: Connection, sql: QueueSql, step: Step, rows: Sequence[Any], retry_alone: bool) -> Rescued:
    """Rescue rows one by one, because the table refuses one of them, as a unique key over open rows may. That one is
    buried and holds up no other. One that can't even be buried stays as it is."""
    returned = buried = refused = 0
    deaths: list[DeadRow] = []
    for row in rows:
        try:
            with connection.begin_nested():
                found = _give_back(connection, sql, step, [row], retry_alone)
        except DBAPIError as error:
            if not is_refusal(error):
                raise
            try:
                with connection.begin_nested():
                    dead = _rescue_as(BURY, connection, sql, step, [row], sa.true())
                    found = Rescued(buried=len(dead), deaths=_deaths(connection, sql, dead))
            except DBAPIError as second:
                if not is_refusal(second):
                    raise
                found = Rescued(refused=1)
        returned += found.returned
        buried += found.buried
        refused += found.refused
        deaths += found.deaths
    return Rescued(returned, buried, refused, tuple(deaths))


def _rescue_as(
    move: Move,
    connection: Connection,
    sql: QueueSql,
    step: Step,
    rows: Sequence[Any],
    guard: "sa.ColumnElement[bool]",
) -> list[Any]:
    """Make one move for these rows; return those that were changed."""
    width = len(sql.queue.key)
    about = {tuple(row[:width]): row for row in rows}
    changed = connection.execute(rescued_rows(sql, step, move, list(about), guard)).all()
    found = [about[tuple(row)] for row in changed]
    _record_crashes(connection, sql, step, move, found)
    return found


# served by: the primary key
def rescued_rows(
    sql: QueueSql, step: Step, move: Move, keys: list[Any], guard: "sa.ColumnElement[bool]"
) -> "sa.UpdateBase":
    """Return the UPDATE that gives rows back, or buries them, where their lease is still expired."""
    queue = sql.queue
    until = queue.columns["leased_until"]
    return (
        sa.update(queue.table)
        .where(raw_key_in(sql, keys), in_words(sql, step.running))
        .where(until < sa.literal_column(sql.now("leased_until")), guard)
        .values(sql.values(move, step, queue.crash_codes.buried if move is BURY else queue.crash_codes.requeued))
        .returning(*raw_key(sql))
    )


def guard_of(sql: QueueSql, step: Step, move: Move) -> "sa.ColumnElement[bool]":
    """Return the condition of a move: rows whose attempts are used up are buried, the others given back."""
    used_up = sql.used_up(step)
    return sa.literal_column(used_up if move is BURY else f"NOT ({used_up})", sa.Boolean)


# served by: the primary key
def _deaths(connection: Connection, sql: QueueSql, rows: Sequence[Any]) -> tuple[DeadRow, ...]:
    queue, width = sql.queue, len(sql.queue.key)
    if queue.dead_row_listener is None or not rows:
        return ()
    made = {tuple(row[:width]): row.made for row in rows}
    found = connection.execute(
        sa.select(*raw_key(sql), *queue.dead_row_listener.columns).where(raw_key_in(sql, list(made)))
    ).all()
    names, key_of = [column.name for column in queue.dead_row_listener.columns], RowLoader(sql).key_of
    return tuple(
        DeadRow(
            key_of(row[:width]), made[tuple(row[:width])], queue.crash_codes.buried,
            facts=dict(zip(names, row[width:], strict=True)),
        )
        for row in found
    )  # fmt: skip


def _record_crashes(connection: Connection, sql: QueueSql, step: Step, move: Move, rows: Sequence[Any]) -> None:
    if not rows:
        return
    queue, own = sql.queue, own_tables(connection.dialect.name)
    code = queue.crash_codes.buried if move is BURY else queue.crash_codes.requeued
    key_of = RowLoader(sql).key_of
    connection.execute(
        sa.insert(own.attempt).values(ended_at=moment(connection.dialect.name)),
        [
            {
                "queue": queue.name,
                "key": queue.key_text(key_of(row[: len(queue.key)])),
                "stage": step.name,
                "attempt": row.made,
                "worker": worker_of(row.held or 0),
                "code": code,
                "message": "the worker died, or was cut off, while it held the row",
            }
            for row in rows
        ],
    )


# served by: the primary key
def note_running_alone(connection: Connection, sql: QueueSql, lease: Lease[Any]) -> bool:
    """Note on a running row that it begins its last attempt, alone. Return False if its lease is gone. The note is the
    error of the crash that made it a suspect, which its claim has cleared."""
    queue = sql.queue
    noted = connection.execute(
        sa.update(queue.table)
        .where(raw_key_in(sql, [RowLoader(sql).raw_key(lease.record)]), queue.columns["lease"] == lease.token)
        .values({queue.columns["error"]: sa.literal_column(sql.text(queue.crash_codes.requeued))})
    )
    return noted.rowcount == 1


def is_refusal(error: DBAPIError) -> bool:
    """Return whether the database refuses what is written, and is not just busy, away or in trouble."""
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return not str(state).startswith(PASSING)
    return isinstance(error, (IntegrityError, DataError))
