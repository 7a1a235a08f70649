"""To enqueue is to INSERT. These are conveniences for it."""

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
    """An INSERT of rows in the first stage's ready state, unless they say otherwise."""
    given = [rows] if isinstance(rows, Mapping) else list(rows)
    alike = of_one_shape(sql.queue, [complete(sql, row) for row in given])
    statement = insert_of(sql.dialect.name)(sql.queue.table).values(alike)
    if unique is None:
        return statement
    columns = [column_of(sql.queue, name) for name in unique]
    return statement.on_conflict_do_nothing(index_elements=columns, index_where=condition_of(sql, columns))


def complete(sql: QueueSql, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row by column keys, ready to be worked on, with what the table has no default for."""
    now: Any = sa.literal_column(sql.now("available_at")) if must_be_timed(sql.queue) else None
    return in_utc(sql, with_state(sql.queue, row, now))


def condition_of(sql: QueueSql, columns: Sequence["sa.Column[Any]"]) -> Any:
    """The condition of the partial unique index over these columns, such as one open row per name: without it the
    database would not know the index again."""
    for index in sql.queue.table.indexes:
        if index.unique and set(index.columns) == set(columns):
            return index.dialect_options[sql.dialect.name]["where"]
    return None


def of_one_shape(queue: QueueSpec[Any], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that name the same columns. SQLAlchemy takes those of the first row and drops what others have besides.
    A column that a row leaves out is NULL, unless the table has a default for it, which one INSERT can't mix."""
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
    """The row by column names, ready if it does not say otherwise; available `now` if that has to be said."""
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
    """The row with the queue's times as SQLite has to have them."""
    if sql.dialect.name == "sqlite":
        for column in sql.queue.columns.values():
            if column.key in row:
                row[column.key] = utc(row[column.key])
    return row


async def load(store: Store, queue: QueueSpec[Any], rows: Iterable[Mapping[str, Any]], batch: int) -> int:
    """Insert many rows in batches that commit by themselves."""
    sql, source, total = store.sql(queue), iter(rows), 0
    now = await store.run(partial(now_of, sql), write=False) if must_be_timed(queue) else None
    loading = BulkLoader(sql, now)
    while part := list(islice(source, batch)):
        await store.load(queue, loading.runs(part))
        total += len(part)
    return total


def now_of(sql: QueueSql, connection: sa.Connection) -> Any:
    """The database's time, as a value for `available_at`."""
    column = sql.queue.columns["available_at"]
    return connection.scalar(sa.select(sa.type_coerce(sa.literal_column(sql.now("available_at")), column.type)))
