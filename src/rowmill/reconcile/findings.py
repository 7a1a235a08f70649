"""Stored findings: recorded, corrected once while they are open, closed when a run does not find them again.

Every function takes a connection in a transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.store.clock import as_moment, moment
from rowmill.store.expressions import insert_of
from rowmill.store.own.schema import own_tables

CLOSE_MOST = 5000
"""Findings that are closed in one transaction."""
UNDECLARED_SECONDS = 7 * 86400.0
"""Seconds after which findings of a rule that is no longer declared are closed. Not at once: during a deploy, processes
with and without the rule run side by side."""

Name = tuple[str, str]
"""A finding's kind and the text of its key."""


@dataclass(frozen=True, slots=True)
class NewFinding:
    """A finding in the form that is stored."""

    kind: str
    key: str
    present: str
    absent: str


@dataclass(frozen=True, slots=True)
class OpenFinding:
    """What is stored about an open finding."""

    id: int
    new: bool
    found_at: datetime | None
    corrected_at: datetime | None
    due: bool
    """True if it was not corrected yet, or long enough ago to be corrected again."""


def _due(connection: Connection, again_after: float | None) -> "sa.ColumnElement[bool]":
    corrected = own_tables(connection.dialect.name).finding.c.corrected_at
    if again_after is None:
        return corrected.is_(None)
    return sa.or_(corrected.is_(None), corrected < moment(connection.dialect.name, -again_after))


# served by: the unique index on open findings
def record(
    connection: Connection, name: str, run: int, entries: Sequence[NewFinding], again_after: float | None
) -> dict[Name, OpenFinding]:
    """Insert the findings of this run. For findings that are open already, only update when they were last seen."""
    own, dialect = own_tables(connection.dialect.name).finding, connection.dialect.name
    rows = [
        {
            "reconciliation": name, "kind": entry.kind, "key": entry.key,
            "present": entry.present, "absent": entry.absent,
            "first_run": run, "last_run": run, "found_at": moment(dialect), "seen_at": moment(dialect),
        }
        for entry in entries
    ]  # fmt: skip
    put = insert_of(dialect)(own).values(rows)
    ids = connection.scalars(
        put.on_conflict_do_update(
            index_elements=["reconciliation", "kind", "key"],
            index_where=own.c.closed_at.is_(None),
            set_={"last_run": run, "seen_at": moment(dialect)},
        ).returning(own.c.id)
    ).all()
    # A second statement: SQLite 3.40 evaluates `column IS NULL` in RETURNING as false if another column is NOT NULL.
    stored = connection.execute(sa.select(*_columns(connection, again_after)).where(own.c.id.in_(ids)))
    return {(row.kind, row.key): _open_finding(row, run) for row in stored}


# served by: the unique index on open findings
def open_findings(
    connection: Connection, name: str, kind: str, keys: Sequence[str], again_after: float | None
) -> dict[Name, OpenFinding]:
    """Return which of these findings are open already. Writes nothing."""
    own = own_tables(connection.dialect.name).finding
    rows = connection.execute(
        sa.select(*_columns(connection, again_after)).where(_open(connection, name, kind), own.c.key.in_(keys))
    )
    return {(row.kind, row.key): _open_finding(row, None) for row in rows}


# served by: the unique index on open findings
def keep_open(connection: Connection, name: str, run: int, kind: str, keys: Sequence[str]) -> int:
    """Keep open findings of items in flight open: they are neither confirmed nor resolved."""
    own = own_tables(connection.dialect.name).finding
    kept = sa.update(own).where(_open(connection, name, kind), own.c.key.in_(keys)).values(last_run=run)
    return connection.execute(kept).rowcount


@dataclass(frozen=True, slots=True)
class RecordedFinding:
    """A finding that is open: a run found it, and none since has found it resolved."""

    kind: str
    key: str
    """The key as text."""
    found_at: datetime | None
    seen_at: datetime | None
    corrected_at: datetime | None
    """When it was corrected last; None: not yet, or it is only reported."""
    corrections: int


# served by: the unique index on open findings
def recorded(
    connection: Connection, name: str, kind: str | None, after: Name | None, limit: int
) -> list[RecordedFinding]:
    """Return open findings, ordered by kind and key, from a position on."""
    own = own_tables(connection.dialect.name).finding
    wanted = sa.select(own).where(own.c.reconciliation == name, own.c.closed_at.is_(None))
    if kind is not None:
        wanted = wanted.where(own.c.kind == kind)
    if after is not None:
        wanted = wanted.where(sa.tuple_(own.c.kind, own.c.key) > sa.tuple_(*map(sa.literal, after)))
    return [
        RecordedFinding(
            row.kind, row.key, as_moment(row.found_at), as_moment(row.seen_at), as_moment(row.corrected_at),
            row.corrections,
        )
        for row in connection.execute(wanted.order_by(own.c.kind, own.c.key).limit(limit))
    ]  # fmt: skip


# served by: the primary key
def mark_corrected(connection: Connection, ids: Sequence[int]) -> None:
    own, dialect = own_tables(connection.dialect.name).finding, connection.dialect.name
    connection.execute(
        sa.update(own).where(own.c.id.in_(ids)).values(corrected_at=moment(dialect), corrections=own.c.corrections + 1)
    )


# served by: the unique index on open findings
def close(connection: Connection, name: str, run: int, kind: str) -> int:
    """Close one batch of findings that this run did not see. Return their number."""
    own = own_tables(connection.dialect.name).finding
    unseen = sa.select(own.c.id).where(_open(connection, name, kind), own.c.last_run != run).limit(CLOSE_MOST)
    return _close(connection, unseen)


# served by: the unique index on open findings
def close_undeclared(connection: Connection, name: str, kinds: Sequence[str]) -> int:
    """Close findings of rules that are no longer declared."""
    own, long_ago = own_tables(connection.dialect.name).finding, moment(connection.dialect.name, -UNDECLARED_SECONDS)
    return _close(
        connection,
        sa.select(own.c.id)
        .where(own.c.reconciliation == name, own.c.closed_at.is_(None))
        .where(own.c.kind.not_in(kinds), own.c.seen_at < long_ago)
        .limit(CLOSE_MOST),
    )


def _close(connection: Connection, which: "sa.Select[tuple[int]]") -> int:
    own = own_tables(connection.dialect.name).finding
    now = moment(connection.dialect.name)
    return connection.execute(sa.update(own).where(own.c.id.in_(which)).values(closed_at=now)).rowcount


def _open(connection: Connection, name: str, kind: str) -> "sa.ColumnElement[bool]":
    own = own_tables(connection.dialect.name).finding
    return sa.and_(own.c.reconciliation == name, own.c.kind == kind, own.c.closed_at.is_(None))


def _columns(connection: Connection, again_after: float | None) -> list["sa.ColumnElement[Any]"]:
    own = own_tables(connection.dialect.name).finding.c
    due = _due(connection, again_after).label("due")
    return [own.id, own.kind, own.key, own.first_run, own.found_at, own.corrected_at, due]


def _open_finding(row: Any, run: int | None) -> OpenFinding:
    new = row.first_run == run
    return OpenFinding(row.id, new, as_moment(row.found_at), as_moment(row.corrected_at), bool(row.due))
