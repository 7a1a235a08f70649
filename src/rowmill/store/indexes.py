"""The indexes that serve a queue's statements, and the trigger that wakes its workers."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, ProgrammingError

from rowmill.model.lifecycle import FINAL, StateKind
from rowmill.model.states import Step
from rowmill.store import expressions
from rowmill.store.postgres import wakeup
from rowmill.store.queue_sql import QueueSql

NAME_LENGTH = 63
PREFIX = "rowmill_"
"""The prefix of all index names of ours."""
IN_ORDER = "claim in order"
RETENTION = "sweep of old rows"


@dataclass(frozen=True, slots=True)
class QueueIndex:
    """One index on the user's table."""

    name: str
    expressions: tuple[str, ...]
    where: str
    serves: str

    def create(self, table: str, *, concurrently: bool = False) -> str:
        how = "CONCURRENTLY " if concurrently else ""
        return (
            f"CREATE INDEX {how}IF NOT EXISTS {self.name} ON {table} ({', '.join(self.expressions)}) WHERE {self.where}"
        )

    def attach(self, sql: QueueSql) -> None:
        """Add the index to the user's Table, for `metadata.create_all` and Alembic's autogenerate."""
        table = sql.queue.table
        name = unquoted(self.name)
        columns = {sql.name(column): column for column in table.columns}
        # A plain column among them is what ties the index to its table.
        parts = [columns.get(part, sa.text(part.replace(":", r"\:"))) for part in self.expressions]
        expressions.partial_index(sql.dialect.name, name, *parts, where=self.where)


def unquoted(name: str) -> str:
    """Return a name without quotes, as the catalogue has it."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def queue_indexes(sql: QueueSql) -> list[QueueIndex]:
    """Return every index that a queue needs: one per stage for claims, one for rescue, one for order per key, and one
    for each final state that has a retention."""
    queue = sql.queue
    priority = sql.priority
    first: tuple[str, ...] = ()
    if priority is not None:
        expression = f"({priority})" if priority.startswith("coalesce") else priority
        first = (f"{expression} {sql.priority_direction}",)
    found = [
        QueueIndex(
            index_name(sql, f"{step.name}_ready"),
            (*first, sql.available_at + sql.nulls_first, *sql.sequence),
            sql.is_in(step.claimable),
            "claim",
        )
        for step in queue.steps
    ]
    running = sql.is_in(queue.vocabulary.of(StateKind.RUNNING))
    found.append(QueueIndex(index_name(sql, "running"), (sql.leased_until,), running, "rescue"))
    if queue.per is not None:
        parts = (sql.name(queue.per), sql.running_first, *sql.per_sequence)
        found.append(QueueIndex(index_name(sql, "in_order"), parts, sql.is_in(sql.holding), IN_ORDER))
    for kind in queue.retention.ages():
        parts = (sql.role(queue.aged_by(kind)), *sql.keys)
        where = sql.is_in(queue.vocabulary.of(kind))
        found.append(QueueIndex(index_name(sql, f"{kind}_finished"), parts, where, RETENTION))
    return found


def ready_index(sql: QueueSql, step: Step) -> QueueIndex:
    """Return the index that serves the claims of a stage."""
    return queue_indexes(sql)[sql.queue.steps.index(step)]


def prune_index(sql: QueueSql) -> QueueIndex:
    """Return an optional index, for tables whose finished rows are pruned by age."""
    where = sql.is_in(sql.queue.vocabulary.all_of(FINAL))
    return QueueIndex(index_name(sql, "finished"), (sql.role("finished_at"),), where, "prune")


def index_name(sql: QueueSql, purpose: str) -> str:
    """Return a name within PostgreSQL's 63 bytes. A long one ends in a hash, so that two never collide."""
    name = f"{PREFIX}{sql.queue.table.name}_{purpose}"
    if len(name.encode()) > NAME_LENGTH:
        start = name.encode()[:40].decode(errors="ignore")
        name = f"{start}_{hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:12]}"
    return sql.quote(name)


def wake_trigger(sql: QueueSql) -> list[str]:
    """Return the statements that make every INSERT wake a sleeping worker. PostgreSQL only."""
    return wakeup.wake_trigger(sql.queue.table, sql.table)


def has_wake_trigger(connection: sa.Connection, sql: QueueSql) -> bool:
    """Return whether the trigger exists, is enabled, and notifies under the number on which workers listen."""
    number = wakeup.wake_number(sql.queue.table)
    found: Any = connection.scalar(
        sa.text(
            "SELECT 1 FROM pg_trigger WHERE tgname = 'rowmill_wake' AND tgrelid = to_regclass(:name) "
            "AND tgenabled <> 'D' AND encode(tgargs, 'escape') = :arguments"
        ),
        {"name": sql.table, "arguments": f"{number}\\000"},
    )
    return found is not None


class IndexState(StrEnum):
    GOOD = "good"
    MISSING = "missing"
    INVALID = "invalid"
    """A CREATE INDEX CONCURRENTLY failed half-way: the index slows down writes and serves no reads."""
    BUILDING = "building"
    """Somebody is creating it now."""
    OTHER = "other"
    """An index of this name exists, for other words or columns, or in another order."""


def index_states(connection: Connection, sql: QueueSql, wanted: Sequence[QueueIndex]) -> dict[str, IndexState]:
    """Return the state of each wanted index, by its name as quoted in SQL."""
    if connection.dialect.name == "postgresql":
        return _on_postgres(connection, sql, wanted)
    return _on_sqlite(connection, sql, wanted)


def bare_name(index: QueueIndex) -> str:
    """Return the index's name as the catalogue has it."""
    return unquoted(index.name)


def _on_sqlite(connection: Connection, sql: QueueSql, wanted: Sequence[QueueIndex]) -> dict[str, IndexState]:
    rows = connection.execute(
        sa.text("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = :table"),
        {"table": sql.queue.table.name},
    )
    found = {row.name: str(row.sql) for row in rows}
    states = {}
    for index in wanted:
        made = found.get(bare_name(index))
        if made is None:
            states[index.name] = IndexState.MISSING
        else:
            states[index.name] = IndexState.GOOD if is_as_wanted(made, index) else IndexState.OTHER
    return states


def is_as_wanted(made: str, index: QueueIndex) -> bool:
    """Return whether an index of SQLite is what the queue needs. SQLite keeps the CREATE statement as it was written,
    without IF NOT EXISTS."""
    wanted = f"({', '.join(index.expressions)}) WHERE {index.where}"
    return " ".join(made.split()).endswith(" ".join(wanted.split()))


CATALOGUE = """
SELECT c.relname AS name, i.indisvalid AS valid,
       ARRAY(SELECT pg_get_indexdef(i.indexrelid, n, false) FROM generate_series(1, i.indnkeyatts) AS n) AS parts,
       CAST(i.indoption AS text) AS directions, pg_get_expr(i.indpred, i.indrelid) AS predicate,
       EXISTS (SELECT 1 FROM pg_stat_progress_create_index AS p WHERE p.index_relid = i.indexrelid) AS building
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass(:table)
"""
PROBE = "pg_temp.rowmill_probe"


def _on_postgres(connection: Connection, sql: QueueSql, wanted: Sequence[QueueIndex]) -> dict[str, IndexState]:
    found = {row.name: row for row in connection.execute(sa.text(CATALOGUE), {"table": sql.table})}
    there = [index for index in wanted if bare_name(index) in found]
    expected = _as_postgres_writes_them(connection, sql, there) if there else None
    states = {}
    for index in wanted:
        made = found.get(bare_name(index))
        if made is None:
            state = IndexState.MISSING
        elif made.building:
            state = IndexState.BUILDING
        elif not made.valid:
            state = IndexState.INVALID
        elif expected is not None and _definition(made) != expected.get(bare_name(index)):
            state = IndexState.OTHER
        else:
            state = IndexState.GOOD
        states[index.name] = state
    return states


def _definition(row: Any) -> tuple[Any, ...]:
    return (tuple(row.parts), row.directions, row.predicate)


def _as_postgres_writes_them(
    connection: Connection, sql: QueueSql, wanted: Sequence[QueueIndex]
) -> dict[str, tuple[Any, ...]] | None:
    """Return how PostgreSQL's catalogue would spell these indexes, from an empty temporary copy of the table that is
    rolled back. Indexes whose columns the table lacks are left out. None where a copy can't be made (a standby, a role
    without TEMP)."""
    try:
        with connection.begin_nested() as probe:
            expressions.run(connection, f"CREATE TEMPORARY TABLE rowmill_probe (LIKE {sql.table})")
            for index in wanted:
                with suppress(ProgrammingError), connection.begin_nested():
                    expressions.run(connection, index.create(PROBE))
            rows = connection.execute(sa.text(CATALOGUE), {"table": PROBE}).all()
            probe.rollback()
    except DBAPIError:
        return None
    return {row.name: _definition(row) for row in rows}
