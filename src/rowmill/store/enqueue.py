"""Helpers for producers. To enqueue is to INSERT; any INSERT will do."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import sqlalchemy as sa

from rowmill.model.queue import QueueSpec
from rowmill.store.bulk_load import BulkLoader, column_of, must_be_counted, must_be_timed, ready_value, utc
from rowmill.store.expressions import insert_of
from rowmill.store.port import Store
from rowmill.store.queue_sql import QueueSql


def insert(
    sql: QueueSql, rows: Mapping[str, Any] | Sequence[Mapping[str, Any]], unique: Iterable[str] | None
) -> "sa.Insert":
    """Return an INSERT of rows, in the first stage's ready state unless they name another."""
    given = [rows] if isinstance(rows, Mapping) else list(rows)
    alike = of_one_shape(sql.queue, [complete(sql, row) for row in given])
    statement = insert_of(sql.dialect.name)(sql.queue.table).values(alike)
    if unique is None:
        return statement
    columns = [column_of(sql.queue, name) for name in unique]
    return statement.on_conflict_do_nothing(index_elements=columns, index_where=condition_of(sql, columns))


def complete(sql: QueueSql, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row by column keys, in a ready state, with values for columns that have no default."""
    now: Any = sa.literal_column(sql.now("available_at")) if must_be_timed(sql.queue) else None
    return in_utc(sql, with_state(sql.queue, row, now))


def condition_of(sql: QueueSql, columns: Sequence["sa.Column[Any]"]) -> Any:
    """Return the condition of the partial unique index over these columns. ON CONFLICT has to repeat it, or the
    database does not recognise the index."""
    for index in sql.queue.table.indexes:
        if index.unique and set(index.columns) == set(columns):
            return index.dialect_options[sql.dialect.name]["where"]
    return None


def of_one_shape(queue: QueueSpec[Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows that all name the same columns: SQLAlchemy would take those of the first row and drop the others. A
    column that a row leaves out becomes NULL. If the table has a default for it, raise: one INSERT can't mix the
    two."""
    wanted = dict.fromkeys(name for row in rows for name in row)
    for row in rows:
        for name in wanted.keys() - row.keys():
            column = queue.table.columns[name]
            if column.default is not None or column.server_default is not None or not column.nullable:
                raise ValueError(
                    f"some rows name column {name} and others leave it to its default: "
                    "give it in every row, or insert the two kinds apart"
                )
            row[name] = None
    return rows


def with_state(queue: QueueSpec[Any], row: Mapping[str, Any], now: Any = None) -> dict[str, Any]:
    """Return a row by column names, with the ready word if it names no state, and `now` as `available_at` if given."""
    named = {}
    for name, value in row.items():
        named[column_of(queue, name).key] = value
    named.setdefault(queue.columns["state"].key, ready_value(queue))
    if must_be_counted(queue):
        named.setdefault(queue.columns["attempts"].key, 0)
    if now is not None:
        named.setdefault(queue.columns["available_at"].key, now)
    return named


def in_utc(sql: QueueSql, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the queue's times in UTC, as SQLite needs them."""
    if sql.dialect.name == "sqlite":
        for column in sql.queue.columns.values():
            if column.key in row:
                row[column.key] = utc(row[column.key])
    return row


async def load(store: Store, queue: QueueSpec[Any], rows: Iterable[Mapping[str, Any]], batch: int) -> int:
    """Insert many rows in batches that commit by themselves; return how many."""
    sql, source, total = store.sql(queue), iter(rows), 0
    now = await store.run(partial(now_of, sql), write=False) if must_be_timed(queue) else None
    loading = BulkLoader(sql, now)
    while part := list(islice(source, batch)):
        await store.load(queue, loading.runs(part))
        total += len(part)
    return total


def now_of(sql: QueueSql, connection: sa.Connection) -> Any:
    """Return the database's time as a value of `available_at`."""
    column = sql.queue.columns["available_at"]
    return connection.scalar(sa.select(sa.type_coerce(sa.literal_column(sql.now("available_at")), column.type)))
