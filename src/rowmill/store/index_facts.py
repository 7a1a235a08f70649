"""Which of a queue's indexes a database has, and whether they are what the queue needs."""

from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, ProgrammingError

from rowmill.store import raw_sql
from rowmill.store.indexes import QueueIndex, unquoted
from rowmill.store.terms import Terms


class IndexState(StrEnum):
    GOOD = "good"
    MISSING = "missing"
    INVALID = "invalid"
    """A CREATE INDEX CONCURRENTLY failed half-way: it costs every write and serves no read."""
    BUILDING = "building"
    """Somebody is making it now."""
    OTHER = "other"
    """There under its name, but for other words, columns or another order."""


def index_states(connection: Connection, terms: Terms, wanted: Sequence[QueueIndex]) -> dict[str, IndexState]:
    """The state of each wanted index, by its name as it is quoted in SQL."""
    if connection.dialect.name == "postgresql":
        return _on_postgres(connection, terms, wanted)
    return _on_sqlite(connection, terms, wanted)


def bare_name(index: QueueIndex) -> str:
    """The name as the catalogue has it."""
    return unquoted(index.name)


def _on_sqlite(connection: Connection, terms: Terms, wanted: Sequence[QueueIndex]) -> dict[str, IndexState]:
    rows = connection.execute(
        sa.text("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name = :table"),
        {"table": terms.queue.table.name},
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
    """Is an index of SQLite's what the queue needs? It keeps the statement as it was written, without IF NOT EXISTS."""
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


def _on_postgres(connection: Connection, terms: Terms, wanted: Sequence[QueueIndex]) -> dict[str, IndexState]:
    found = {row.name: row for row in connection.execute(sa.text(CATALOGUE), {"table": terms.table})}
    there = [index for index in wanted if bare_name(index) in found]
    expected = _as_postgres_writes_them(connection, terms, there) if there else None
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
    connection: Connection, terms: Terms, wanted: Sequence[QueueIndex]
) -> dict[str, tuple[Any, ...]] | None:
    """How the catalogue would spell these indexes: asked on an empty copy of the table, which is rolled back. Without
    those whose columns the table lacks. None where we may not make a copy (a standby, a role without TEMP)."""
    try:
        with connection.begin_nested() as probe:
            raw_sql.run(connection, f"CREATE TEMPORARY TABLE rowmill_probe (LIKE {terms.table})")
            for index in wanted:
                with suppress(ProgrammingError), connection.begin_nested():
                    raw_sql.run(connection, index.create(PROBE))
            rows = connection.execute(sa.text(CATALOGUE), {"table": PROBE}).all()
            probe.rollback()
    except DBAPIError:
        return None
    return {row.name: _definition(row) for row in rows}
