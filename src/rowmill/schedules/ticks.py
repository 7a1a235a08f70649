"""Inserts ticks: rows that become ready when a schedule is due. Every function takes a connection in a transaction.

All workers try it. The row of a schedule stores up to when its ticks are inserted; the worker that moves this time on
inserts the next ticks. The unique key of a tick prevents duplicates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model.schedule import Schedule
from rowmill.store.clock import as_moment, database_now, moment
from rowmill.store.expressions import insert_of
from rowmill.store.own.fleet import ALIVE_SECONDS
from rowmill.store.own.schema import own_tables

AHEAD = 60.0
"""Seconds for which ticks are inserted ahead. Longer than the time that a fleet takes to replace the worker that
inserted the last ones."""
CONFIRM_EVERY = 5.0
"""Seconds after which a worker confirms a schedule again, unless another worker did."""
UNDECLARED_SECONDS = 300.0
"""Seconds after which the upcoming ticks of a schedule are deleted if no worker declares it any more."""


@dataclass(slots=True)
class TicksMade:
    """The result of one pass over the schedules."""

    now: datetime
    """The database's time."""
    due: list[datetime] = field(default_factory=list)
    """When ticks become due soon."""
    changed: list[Schedule] = field(default_factory=list)
    """Schedules whose stored declaration was replaced by ours."""
    overruled: list[Schedule] = field(default_factory=list)
    """Schedules that live workers declare differently. Those workers insert the ticks."""


def make_ticks(
    connection: Connection,
    schedules: Sequence[Schedule],
    *,
    soon: float,
    ahead: float = AHEAD,
    starting: bool = False,
) -> TicksMade:
    """Insert the next ticks, and return which become due within `soon` seconds.

    A worker that is `starting` replaces the stored declaration with its own. A running worker keeps another declaration
    for as long as its worker is alive, so that two versions side by side do not replace each other forever.
    """
    own = own_tables(connection.dialect.name)
    made = TicksMade(database_now(connection))
    by_name = {schedule.name: schedule for schedule in schedules}
    rows = {
        row.name: row for row in connection.execute(sa.select(own.schedule).where(own.schedule.c.name.in_(by_name)))
    }
    # Always in the same order, so that two workers can't deadlock on the rows of several schedules.
    for name, schedule in sorted(by_name.items()):
        row = rows.get(name)
        if row is None or terms_of(row) != schedule.terms:
            if row is None:
                there = declare(connection, schedule, made.now)
            elif starting or _moment(row.kept_at) < made.now - timedelta(seconds=ALIVE_SECONDS):
                there = _take_over(connection, schedule, row, made.now)
                made.changed += [schedule] * there
            else:
                there = False
                made.overruled.append(schedule)
            row = _read(connection, name) if there else None
        if row is not None and row.paused_since is None:
            _make(connection, schedule, row, made.now, ahead)
        elif row is not None:
            _confirm(connection, schedule, row, made.now)
    made.due = _due_soon(connection, list(by_name), soon)
    return made


def terms_of(row: Any) -> tuple[str, str, str, bool]:
    """Return the declaration that a row stores, in the form of `Schedule.terms`."""
    return row.expression, row.zone, row.missed, bool(row.overlap)


def _moment(value: Any) -> datetime:
    found = as_moment(value)
    assert found is not None
    return found


def _read(connection: Connection, name: str) -> Any:
    own = own_tables(connection.dialect.name).schedule
    return connection.execute(sa.select(own).where(own.c.name == name)).first()


def declare(connection: Connection, schedule: Schedule, now: datetime) -> bool:
    """Insert a new schedule. Return False if it exists."""
    own = own_tables(connection.dialect.name).schedule
    expression, zone, missed, overlap = schedule.terms
    new = insert_of(connection.dialect.name)(own).values(
        name=schedule.name, expression=expression, zone=zone, missed=missed, overlap=overlap,
        declared_at=now, kept_at=now, made_to=now,
    )  # fmt: skip
    return connection.execute(new.on_conflict_do_nothing()).rowcount == 1


def _take_over(connection: Connection, schedule: Schedule, row: Any, now: datetime) -> bool:
    """Replace the stored declaration with ours, if it is still the one that was read. Its upcoming ticks are deleted;
    due ones stay. Ticks missed under another expression are not made up for."""
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
        delete_unstarted(connection, schedule.name, after=now)
    return changed.rowcount == 1


# served by: the unique key on (schedule, due_at)
def delete_unstarted(connection: Connection, name: str, *, after: datetime | None = None) -> int:
    """Delete ticks that have not started and were not requested by hand: those due after a time, or all. The condition
    is part of the statement, so a tick that was just claimed is made."""
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
        _confirm(connection, schedule, row, now)
    elif _update_row(connection, schedule, row, kept_at=now, made_to=due[-1]):
        own = own_tables(connection.dialect.name).tick
        ticks = [
            {"schedule": schedule.name, "due_at": at, "available_at": at, "lane": schedule.lane, "manual": False}
            for at in due
        ]
        connection.execute(insert_of(connection.dialect.name)(own).values(ticks).on_conflict_do_nothing())


def _confirm(connection: Connection, schedule: Schedule, row: Any, now: datetime) -> None:
    if now - _moment(row.kept_at) >= timedelta(seconds=CONFIRM_EVERY):
        _update_row(connection, schedule, row, kept_at=now)


def _update_row(connection: Connection, schedule: Schedule, row: Any, **values: Any) -> bool:
    """Update the row of a schedule if it is unchanged since it was read. Return False if another worker was faster."""
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
    """Return the times at which ticks become claimable: new ones, and those that wait for a retry."""
    dialect = connection.dialect.name
    own = own_tables(dialect).tick
    found = connection.scalars(
        sa.select(own.c.available_at)
        .where(sa.literal_column("state IN ('ready', 'waiting')"), own.c.schedule.in_(names))
        .where(own.c.available_at > moment(dialect), own.c.available_at <= moment(dialect, soon))
        .distinct()
    )
    return [_moment(at) for at in found]


def delete_undeclared(connection: Connection) -> int:
    """Delete upcoming ticks of schedules that no worker declares any more. Return their number. A schedule that comes
    back continues from then on."""
    dialect = connection.dialect.name
    own = own_tables(dialect).schedule
    now, gone = database_now(connection), 0
    undeclared = connection.scalars(
        sa.select(own.c.name)
        .where(own.c.kept_at < moment(dialect, -UNDECLARED_SECONDS), own.c.made_to > now)
        .with_for_update(skip_locked=True)
    ).all()
    for name in sorted(undeclared):
        gone += delete_unstarted(connection, name, after=now)
        connection.execute(sa.update(own).where(own.c.name == name).values(made_to=now))
    return gone
