"""Schedules become ticks: rows that are ready when they are due. Every function takes a connection in a transaction.

Any worker may make them, and all of them try: the row of the schedule says how far they are made, and whoever moves it
on inserts what comes next. A tick that is there already is left alone, by its unique key.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model.schedule import Schedule
from rowmill.store.clock import as_moment, moment
from rowmill.store.expressions import insert_of
from rowmill.store.own.fleet import ALIVE_SECONDS
from rowmill.store.own.schema import own_tables

AHEAD = 60.0
"""Seconds for which ticks are made ahead: longer than a fleet may be without the worker that made the last ones."""
KEPT_EVERY = 5.0
"""Seconds after which a worker says again that it has a schedule, unless another did."""
FORGOTTEN_SECONDS = 300.0
"""After which the coming ticks of a schedule go that no worker has any more."""


@dataclass(slots=True)
class TicksMade:
    """What a look at the schedules found and did."""

    now: datetime
    """By the database's clock."""
    due: list[datetime] = field(default_factory=list)
    """When ticks become due soon."""
    changed: list[Schedule] = field(default_factory=list)
    """Of these, our declaration took the place of another."""
    overruled: list[Schedule] = field(default_factory=list)
    """These are declared otherwise by workers that live: their ticks are made there."""


def database_now(connection: Connection) -> datetime:
    kind = own_tables(connection.dialect.name).tick.c.due_at.type
    found = as_moment(connection.scalar(sa.select(sa.type_coerce(moment(connection.dialect.name), kind))))
    assert found is not None
    return found


def keep(
    connection: Connection,
    schedules: Sequence[Schedule],
    *,
    soon: float,
    ahead: float = AHEAD,
    starting: bool = False,
) -> TicksMade:
    """Make the ticks that come next, and say which become due within `soon` seconds.

    A worker that is `starting` puts its own declaration in the place of another. One that runs leaves another's in
    place for as long as somebody keeps it: two versions side by side do not take turns for ever.
    """
    own = own_tables(connection.dialect.name)
    kept = TicksMade(database_now(connection))
    by_name = {schedule.name: schedule for schedule in schedules}
    rows = {
        row.name: row for row in connection.execute(sa.select(own.schedule).where(own.schedule.c.name.in_(by_name)))
    }
    # In one order: two workers that lock the rows of several schedules must not wait for each other.
    for name, schedule in sorted(by_name.items()):
        row = rows.get(name)
        if row is None or terms_of(row) != schedule.terms:
            if row is None:
                there = declare(connection, schedule, kept.now)
            elif starting or _moment(row.kept_at) < kept.now - timedelta(seconds=ALIVE_SECONDS):
                there = _take_over(connection, schedule, row, kept.now)
                kept.changed += [schedule] * there
            else:
                there = False
                kept.overruled.append(schedule)
            row = _read(connection, name) if there else None
        if row is not None and row.paused_since is None:
            _make(connection, schedule, row, kept.now, ahead)
        elif row is not None:
            _touch(connection, schedule, row, kept.now)
    kept.due = _due_soon(connection, list(by_name), soon)
    return kept


def terms_of(row: Any) -> tuple[str, str, str, bool]:
    """What a row says of its schedule, as `Schedule.terms` does."""
    return row.expression, row.zone, row.missed, bool(row.overlap)


def _moment(value: Any) -> datetime:
    found = as_moment(value)
    assert found is not None
    return found


def _read(connection: Connection, name: str) -> Any:
    own = own_tables(connection.dialect.name).schedule
    return connection.execute(sa.select(own).where(own.c.name == name)).first()


def declare(connection: Connection, schedule: Schedule, now: datetime) -> bool:
    """Write down a schedule that the database does not know; False: it does."""
    own = own_tables(connection.dialect.name).schedule
    expression, zone, missed, overlap = schedule.terms
    new = insert_of(connection.dialect.name)(own).values(
        name=schedule.name, expression=expression, zone=zone, missed=missed, overlap=overlap,
        declared_at=now, kept_at=now, made_to=now,
    )  # fmt: skip
    return connection.execute(new.on_conflict_do_nothing()).rowcount == 1


def _take_over(connection: Connection, schedule: Schedule, row: Any, now: datetime) -> bool:
    """Put our declaration in the place of the one that was read, if it is still there. The ticks that it would have
    had go; those that are due stay, and what was missed under another expression is not made up for."""
    own = own_tables(connection.dialect.name).schedule
    expression, zone, missed, overlap = schedule.terms
    same_times = (row.expression, row.zone) == (expression, zone)
    changed = connection.execute(
        sa.update(own)
        .where(own.c.name == schedule.name, own.c.expression == row.expression, own.c.zone == row.zone)
        .where(own.c.missed == row.missed, own.c.overlap == row.overlap)
        .values(
            expression=expression,
            zone=zone,
            missed=missed,
            overlap=overlap,
            declared_at=now,
            kept_at=now,
            made_to=min(_moment(row.made_to), now) if same_times else now,
        )
    )
    if changed.rowcount:
        drop_unbegun(connection, schedule.name, after=now)
    return changed.rowcount == 1


# served by: the unique key on (schedule, due_at)
def drop_unbegun(connection: Connection, name: str, *, after: datetime | None = None) -> int:
    """Delete ticks of a schedule that nobody has begun, nor asked for by hand: those that are due after a time, or
    all. One that is claimed meanwhile is not touched: the condition is in the statement."""
    own = own_tables(connection.dialect.name).tick
    gone = sa.delete(own).where(own.c.schedule == name, own.c.state == "ready", own.c.attempts == 0, ~own.c.manual)
    if after is not None:
        gone = gone.where(own.c.due_at > after)
    count: int = connection.execute(gone).rowcount
    return count


def _make(connection: Connection, schedule: Schedule, row: Any, now: datetime, ahead: float) -> None:
    made_to = _moment(row.made_to)
    due = schedule.coming(made_to, now, ahead) if made_to < now + timedelta(seconds=ahead / 2) else []
    if not due:
        _touch(connection, schedule, row, now)
    elif _keep_row(connection, schedule, row, kept_at=now, made_to=due[-1]):
        own = own_tables(connection.dialect.name).tick
        ticks = [
            {"schedule": schedule.name, "due_at": at, "available_at": at, "lane": schedule.lane, "manual": False}
            for at in due
        ]
        connection.execute(insert_of(connection.dialect.name)(own).values(ticks).on_conflict_do_nothing())


def _touch(connection: Connection, schedule: Schedule, row: Any, now: datetime) -> None:
    if now - _moment(row.kept_at) >= timedelta(seconds=KEPT_EVERY):
        _keep_row(connection, schedule, row, kept_at=now)


def _keep_row(connection: Connection, schedule: Schedule, row: Any, **values: Any) -> bool:
    """Change the row of a schedule, if it is still as it was read: another worker may have come first."""
    own = own_tables(connection.dialect.name).schedule
    paused = own.c.paused_since.is_(None) if row.paused_since is None else own.c.paused_since.is_not(None)
    changed = connection.execute(
        sa.update(own)
        .where(own.c.name == schedule.name, own.c.made_to == row.made_to, own.c.declared_at == row.declared_at, paused)
        .values(values)
    )
    return changed.rowcount == 1


# served by: the ready index of the ticks
def _due_soon(connection: Connection, names: list[str], soon: float) -> list[datetime]:
    """When ticks can be claimed that can't be yet: new ones, and those that wait for their next try."""
    dialect = connection.dialect.name
    own = own_tables(dialect).tick
    found = connection.scalars(
        sa.select(own.c.available_at)
        .where(sa.literal_column("state IN ('ready', 'waiting')"), own.c.schedule.in_(names))
        .where(own.c.available_at > moment(dialect), own.c.available_at <= moment(dialect, soon))
        .distinct()
    )
    return [_moment(at) for at in found]


def forget(connection: Connection) -> int:
    """Delete the coming ticks of schedules that no worker has any more; answers how many. Should one come back, it
    goes on from here."""
    dialect = connection.dialect.name
    own = own_tables(dialect).schedule
    now, gone = database_now(connection), 0
    forgotten = connection.scalars(
        sa.select(own.c.name)
        .where(own.c.kept_at < moment(dialect, -FORGOTTEN_SECONDS), own.c.made_to > now)
        .with_for_update(skip_locked=True)
    ).all()
    for name in sorted(forgotten):
        gone += drop_unbegun(connection, name, after=now)
        connection.execute(sa.update(own).where(own.c.name == name).values(made_to=now))
    return gone
