"""What an operator sees of schedules and does to them: next and last run, history, run now, pause, resume.

Every function takes a connection in a transaction.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model.schedule import Schedule
from rowmill.schedules.ticks import declare, delete_unstarted, terms_of
from rowmill.store.clock import as_moment, database_now, moment
from rowmill.store.expressions import insert_of
from rowmill.store.own.schema import own_tables

TRIES = 1000


@dataclass(frozen=True, slots=True)
class TickView:
    """A tick as operators see it."""

    id: int
    due_at: datetime | None
    state: str
    attempts: int
    manual: bool
    started_at: datetime | None
    finished_at: datetime | None
    seconds: float | None
    """Duration of its last attempt."""
    error: str | None


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as operators see it."""

    name: str
    expression: str
    zone: str
    missed: str
    overlap: bool
    paused_since: datetime | None
    next_at: datetime | None
    last: TickView | None
    """The last tick that a worker started."""
    note: str
    """A remark for the operator: a difference between the declaration here and the one in the database. Usually
    empty."""


def schedules(connection: Connection, declared: Mapping[str, Schedule]) -> list[ScheduleView]:
    """List the schedules that this application declares or that the database knows."""
    own = own_tables(connection.dialect.name).schedule
    now = database_now(connection)
    rows = {row.name: row for row in connection.execute(sa.select(own))}
    return [_view(connection, name, declared.get(name), rows.get(name), now) for name in sorted({*declared, *rows})]


def _view(connection: Connection, name: str, ours: Schedule | None, row: Any, now: datetime) -> ScheduleView:
    note = ""
    if ours is None:
        note = "not declared by this application"
    elif row is None:
        note = "no worker has started with it yet"
    elif terms_of(row) != ours.terms:
        note = f"declared otherwise here: {ours.timing.text} ({ours.timing.zone}), missed {ours.missed}"
    if row is not None:
        expression, zone, missed, overlap = terms_of(row)
    else:
        assert ours is not None
        expression, zone, missed, overlap = ours.terms
    paused = None if row is None else as_moment(row.paused_since)
    coming = None if paused else _next(connection, name)
    if coming is None and paused is None and ours is not None and not note.startswith("declared"):
        coming = ours.timing.following(now)
    return ScheduleView(name, expression, zone, missed, overlap, paused, coming, _last(connection, name), note)


# served by: the unique key on (schedule, due_at), from its end
def _last(connection: Connection, name: str) -> TickView | None:
    tick = own_tables(connection.dialect.name).tick
    begun = (tick.c.schedule == name, tick.c.attempts > 0, tick.c.state != "cancelled")
    row = connection.execute(sa.select(tick).where(*begun).order_by(tick.c.due_at.desc()).limit(1)).first()
    return None if row is None else _tick_view(row)


# served by: the same
def _next(connection: Connection, name: str) -> datetime | None:
    tick = own_tables(connection.dialect.name).tick
    waits = (tick.c.schedule == name, tick.c.state == "ready", tick.c.attempts == 0)
    return as_moment(connection.scalar(sa.select(tick.c.due_at).where(*waits).order_by(tick.c.due_at).limit(1)))


# served by: the same
def history(connection: Connection, name: str, limit: int) -> list[TickView]:
    """List due ticks of a schedule, newest first."""
    tick = own_tables(connection.dialect.name).tick
    due = (tick.c.schedule == name, tick.c.due_at <= moment(connection.dialect.name))
    rows = connection.execute(sa.select(tick).where(*due).order_by(tick.c.due_at.desc()).limit(limit))
    return [_tick_view(row) for row in rows]


def _tick_view(row: Any) -> TickView:
    started, finished = as_moment(row.started_at), as_moment(row.finished_at)
    took = (finished - started).total_seconds() if started and finished else None
    return TickView(
        row.id, as_moment(row.due_at), row.state, row.attempts, bool(row.manual), started, finished, took, row.error
    )


def run_now(connection: Connection, schedule: Schedule) -> int:
    """Insert a tick that is due now, even if the schedule is paused. Return its key."""
    dialect = connection.dialect.name
    tick = own_tables(dialect).tick
    for attempt in range(TRIES):  # another tick may be due in the same millisecond
        now = moment(dialect, attempt / 1000)
        new = insert_of(dialect)(tick).values(
            schedule=schedule.name, due_at=now, available_at=moment(dialect), lane=schedule.lane, manual=True
        )
        key: int | None = connection.execute(new.on_conflict_do_nothing().returning(tick.c.id)).scalar()
        if key is not None:
            return key
    raise RuntimeError(f"no time is free for a tick of {schedule.name}")


def pause(connection: Connection, schedule: Schedule) -> bool:
    """Stop inserting and starting ticks. Ticks that have started still finish, including their retries. Return False if
    it was paused already."""
    own, now = own_tables(connection.dialect.name).schedule, moment(connection.dialect.name)
    declare(connection, schedule, database_now(connection))
    new = sa.update(own).where(own.c.name == schedule.name, own.c.paused_since.is_(None)).values(paused_since=now)
    changed = connection.execute(new).rowcount == 1
    delete_unstarted(connection, schedule.name)
    return changed


def resume(connection: Connection, schedule: Schedule) -> bool:
    """Continue from now on. Ticks that were missed during the pause are not run. Return False if it was not paused."""
    own, now = own_tables(connection.dialect.name).schedule, moment(connection.dialect.name)
    ended = sa.update(own).where(own.c.name == schedule.name, own.c.paused_since.is_not(None))
    return connection.execute(ended.values(paused_since=None, made_to=now)).rowcount == 1
