"""Change the salt of temporary ids: derive every id anew, and rewrite requests and target tables.

Progress is in `company_meta`, in the transaction of each batch: after a kill at any point, the next call goes on where
the last commit left off. Meanwhile ids of both salts are recognised, and a process with the old salt may work on.
"""

from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.companies.logs import EventLog
from rowmill_systems.companies.models import CompaniesTables, tables_of
from rowmill_systems.companies.salts import (
    FINGERPRINT,
    ROTATION,
    SaltMismatch,
    Salts,
    fingerprint,
    read_meta,
    write_meta,
)
from rowmill_systems.companies.temp_ids import temp_id
from rowmill_systems.companies.write_back import ROWS, registered_targets, write_back

BATCH = 500
"""Requests that one transaction rewrites."""


@dataclass(frozen=True, slots=True)
class RotationReport:
    """What a rotation did, over all of its calls."""

    requests: int
    """Requests whose id was derived anew."""
    rows: int
    """Rows of target tables that were rewritten."""
    failed: tuple[str, ...] = ()
    """Targets that could not be written. Rotate again once they can."""


@dataclass(frozen=True, slots=True)
class RotationPlan:
    """What a rotation would do."""

    requests: int
    """Requests whose id it would derive anew."""
    targets: tuple[str, ...] = ()
    """Columns in which it would look for ids of the previous salt."""
    interrupted: bool = False
    """Whether it would go on with a rotation that was interrupted."""


@dataclass(frozen=True, slots=True)
class RotationProgress:
    """How far a rotation is: the other salt's fingerprint, the last request, and the counts so far."""

    old: str
    last_id: int = 0
    requests: int = 0
    rows: int = 0

    def __str__(self) -> str:
        return f"{self.old} {self.last_id} {self.requests} {self.rows}"

    @classmethod
    def read(cls, text: str) -> "RotationProgress":
        old, *numbers = text.split()
        return cls(old, *map(int, numbers))


def rotate_salt(
    engine: sa.Engine,
    salts: Salts,
    log: EventLog,
    *,
    batch: int = BATCH,
    progress: Callable[[RotationReport], None] | None = None,
) -> RotationReport:
    """Rewrite all temporary ids from `salts.previous` to `salts.current`. Idempotent, and resumable.

    Raises SaltMismatch if the database knows neither of the two.
    """
    tables = tables_of(engine.dialect.name)
    _check_both(salts)
    with engine.begin() as connection:
        _begin(connection, tables, salts)
    failed: set[str] = set()
    while True:
        with engine.begin() as connection:
            done, more, bad = _rotate_batch(connection, tables, salts, log, batch)
        failed.update(bad)
        report = RotationReport(done.requests, done.rows, tuple(sorted(failed)))
        if progress is not None:
            progress(report)
        if not more:
            break
    with engine.begin() as connection:  # with a target that failed, the next call begins at the first request again
        again = str(RotationProgress(done.old, rows=done.rows)) if failed else None
        write_meta(connection, tables, ROTATION, again)
    return report


# served by: the primary key
def plan_rotation(engine: sa.Engine, salts: Salts) -> RotationPlan:
    """Return what `rotate_salt` would do. Changes nothing, and raises what it would raise."""
    tables = tables_of(engine.dialect.name)
    _check_both(salts)
    with engine.connect() as connection:
        running = _running(connection, tables, salts)
        after = 0 if running is None else running.last_id
        c = tables.requests.c
        requests = connection.scalar(sa.select(sa.func.count()).where(c.id > after, c.normalized_name != ""))
        targets = [f"{each.table_name}.{each.column_name}" for each in registered_targets(connection, tables)]
    return RotationPlan(requests or 0, tuple(targets), running is not None)


def _check_both(salts: Salts) -> None:
    if not salts.previous:
        raise rm.errors.BadRequest(
            "a rotation needs both salts: set WDH_TEMP_ID_SALT to the new one, and WDH_TEMP_ID_SALT_PREVIOUS to the "
            "old one"
        )
    if salts.previous == salts.current:
        raise rm.errors.BadRequest("both salts are the same: there is nothing to rotate")


def _begin(connection: sa.Connection, tables: CompaniesTables, salts: Salts) -> None:
    """Note the rotation, or find the one that was interrupted."""
    if _running(connection, tables, salts) is None:
        write_meta(connection, tables, ROTATION, str(RotationProgress(fingerprint(salts.previous))))
        write_meta(connection, tables, FINGERPRINT, fingerprint(salts.current))


def _running(connection: sa.Connection, tables: CompaniesTables, salts: Salts) -> RotationProgress | None:
    """Return the rotation that was interrupted. Raises SaltMismatch if these salts are not the ones to go on with."""
    kept, old, new = (
        read_meta(connection, tables, FINGERPRINT), fingerprint(salts.previous), fingerprint(salts.current)
    )  # fmt: skip
    noted = read_meta(connection, tables, ROTATION)
    running = None if noted is None else RotationProgress.read(noted)
    if running is not None and (running.old != old or kept != new):
        raise SaltMismatch(
            "another rotation was interrupted, from and to other salts. Finish it first, with the salts that it had"
        )
    if kept not in (old, new, None):
        raise SaltMismatch(
            "the temporary ids in this database were made with neither of these salts. Set WDH_TEMP_ID_SALT_PREVIOUS "
            "to the one that they were made with"
        )
    return running


# served by: the primary key
def _rotate_batch(
    connection: sa.Connection, tables: CompaniesTables, salts: Salts, log: EventLog, batch: int
) -> tuple[RotationProgress, bool, tuple[str, ...]]:
    c = tables.requests.c
    text = read_meta(connection, tables, ROTATION)
    if text is None:
        raise rm.errors.RowmillError("another process has finished this rotation meanwhile")
    at = RotationProgress.read(text)
    rows = connection.execute(
        sa.select(c.id, c.normalized_name, c.temp_id)
        .where(c.id > at.last_id, c.normalized_name != "")
        .order_by(c.id)
        .limit(batch)
        .with_for_update()
    ).all()
    if not rows:
        return at, False, ()
    made = {row.id: salts.temp_id(row.normalized_name) for row in rows}
    replacements = {}
    for row in rows:
        for old in {temp_id(row.normalized_name, salts.previous), row.temp_id} - {None, made[row.id]}:
            replacements[str(old)] = made[row.id]
    change = sa.update(tables.requests).where(c.id == sa.bindparam("of_id")).values(temp_id=sa.bindparam("made"))
    connection.execute(change, [{"of_id": key, "made": value} for key, value in made.items()])
    written = 0
    while True:  # all of them: a row that keeps the old id would be found by nobody
        report = write_back(connection, tables, replacements, log, wait=True)
        written += report.rows
        if report.rows < ROWS:
            break
    done = RotationProgress(at.old, rows[-1].id, at.requests + len(rows), at.rows + written)
    write_meta(connection, tables, ROTATION, str(done))
    return done, True, report.failed
