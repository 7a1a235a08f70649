"""Stored runs of reconciliations. At most one run of each name at a time, by the database's clock.

Every function takes a connection in a transaction.
"""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.store.clock import as_moment, moment
from rowmill.store.expressions import insert_of
from rowmill.store.own.schema import own_tables

ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class RunView:
    """A run in the history."""

    id: int
    name: str
    host: str
    pid: int
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str | None
    """ok, incomplete, failed or abandoned; None while it runs."""
    findings: int
    corrected: int
    remaining: int
    closed: int
    kinds: Mapping[str, int] = field(default_factory=dict)
    unreadable: Sequence[Mapping[str, Any]] = ()


# served by: the unique index on the name of runs that have not ended
def begin(connection: Connection, name: str, seconds: float) -> int | None:
    """Begin a run with a lease of `seconds`. Return its number, or None while another run of that name is active.
    A run whose lease expired is marked as abandoned: its process died."""
    own, dialect = own_tables(connection.dialect.name).reconciliation, connection.dialect.name
    connection.execute(
        sa.update(own)
        .where(own.c.name == name, own.c.ended_at.is_(None), own.c.until < moment(dialect))
        .values(ended_at=moment(dialect), outcome=ABANDONED)
    )
    first = insert_of(dialect)(own).values(
        name=name, host=socket.gethostname(), pid=os.getpid(),
        started_at=moment(dialect), until=moment(dialect, seconds),
    )  # fmt: skip
    number: int | None = connection.scalar(
        first.on_conflict_do_nothing(index_elements=["name"], index_where=own.c.ended_at.is_(None)).returning(own.c.id)
    )
    return number


# served by: the primary key
def hold(connection: Connection, run: int, seconds: float, corrected: int = 0) -> bool:
    """Extend the run's lease, and count corrections. Return False if another run took over: then nothing may be
    written. No other run can take over before this transaction ends."""
    own, dialect = own_tables(connection.dialect.name).reconciliation, connection.dialect.name
    held = connection.execute(
        sa.update(own)
        .where(own.c.id == run, own.c.ended_at.is_(None))
        .values(until=moment(dialect, seconds), corrected=own.c.corrected + corrected)
    )
    return held.rowcount == 1


# served by: the primary key
def end(connection: Connection, run: int, outcome: str, **results: Any) -> bool:
    """End the run, and store its results. Return False if another run took over."""
    own, dialect = own_tables(connection.dialect.name).reconciliation, connection.dialect.name
    ended = connection.execute(
        sa.update(own)
        .where(own.c.id == run, own.c.ended_at.is_(None))
        .values(ended_at=moment(dialect), outcome=outcome, **results)
    )
    return ended.rowcount == 1


# served by: the index on (name, id)
def history(connection: Connection, name: str, limit: int = 20) -> list[RunView]:
    """Return the last runs, newest first."""
    return _views(connection, sa.true(), name, limit)


# served by: the index on (name, id); one at most has not ended
def last_ended(connection: Connection, name: str) -> RunView | None:
    own = own_tables(connection.dialect.name).reconciliation
    return next(iter(_views(connection, own.c.ended_at.is_not(None), name, 1)), None)


def _views(connection: Connection, which: "sa.ColumnElement[bool]", name: str, limit: int) -> list[RunView]:
    own = own_tables(connection.dialect.name).reconciliation
    rows = connection.execute(sa.select(own).where(own.c.name == name, which).order_by(own.c.id.desc()).limit(limit))
    return [
        RunView(
            row.id, row.name, row.host, row.pid, as_moment(row.started_at), as_moment(row.ended_at), row.outcome,
            row.findings, row.corrected, row.remaining, row.closed, row.kinds or {}, row.unreadable or (),
        )
        for row in rows
    ]  # fmt: skip
