"""Reads rows for operators: lists of rows, and one row with its history."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model.errors import BadRequest, UnknownRow
from rowmill.model.lease import worker_of
from rowmill.model.option_names import listed
from rowmill.operator.filters import Filter
from rowmill.store.clock import as_moment, as_stored
from rowmill.store.expressions import keys_in
from rowmill.store.keys import parse_key, scalar
from rowmill.store.own.schema import own_tables
from rowmill.store.queue_sql import QueueSql
from rowmill.store.state_words import StateWords

MOST_HISTORY = 100
MOST_KEYS = 5
"""The most keys that an error lists."""
TIMES = ("available_at", "leased_until", "finished_at")


@dataclass(frozen=True, slots=True)
class RowView:
    """The progress of a row."""

    key: str
    state: str | None
    kind: str
    stage: str | None
    attempts: int
    max_attempts: int | None
    """The row's limit of attempts at its stage; None if there is none, or the row is at no stage."""
    available_at: datetime | None
    leased_until: datetime | None
    worker: int | None
    finished_at: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True)
class AttemptView:
    """An attempt that failed."""

    stage: str
    attempt: int
    worker: int
    started_at: datetime | None
    ended_at: datetime | None
    code: str
    message: str
    traceback: str | None
    """Where it was raised, if the worker kept that."""


@dataclass(frozen=True, slots=True)
class Sort:
    """An order other than that of the keys."""

    column: str
    descending: bool = False


# served by: as the filter; in the order of the primary key, or of an index that begins with the column of `sort`
def list_rows(
    connection: Connection, sql: QueueSql, wanted: Filter, limit: int, sort: Sort | None = None
) -> list[RowView]:
    """Return rows in the order of their keys, or of `sort`, at most `limit`."""
    chosen = _listing(connection, sql, progress(sql), wanted, limit, sort)
    return [row_view(sql, row) for row in connection.execute(chosen)]


# served by: as `list_rows`
def list_values(
    connection: Connection,
    sql: QueueSql,
    wanted: Filter,
    limit: int,
    columns: Sequence[str],
    sort: Sort | None = None,
) -> list[dict[str, Any]]:
    """Return the values of the same rows in some columns, in the same order."""
    chosen = [_column(sql, name) for name in columns]
    rows = _read(connection, sql, chosen, lambda shown: _listing(connection, sql, shown, wanted, limit, sort))
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _listing(
    connection: Connection, sql: QueueSql, shown: Sequence[Any], wanted: Filter, limit: int, sort: Sort | None
) -> "sa.Select[Any]":
    order: list[Any] = list(sql.queue.key)
    if sort is not None:
        column = _column(sql, sort.column)
        known = sortable(connection, sql)
        if sort.column not in known:
            raise BadRequest(
                f"no index of table {sql.queue.table.fullname} begins with {sort.column}: to sort by it would read "
                f"all rows. Sort by: {', '.join(known)}"
            )
        order = [each.desc() if sort.descending else each for each in (column, *order) if each is not None]
    return sa.select(*shown).where(sa.true(), *wanted.conditions(sql)).order_by(*order).limit(limit)


def sortable(connection: Connection, sql: QueueSql) -> list[str]:
    """Return the columns by which rows can be sorted: those with which an index over all rows begins."""
    table, inspector = sql.queue.table, sa.inspect(connection)
    leading = inspector.get_pk_constraint(table.name, schema=table.schema)["constrained_columns"][:1]
    for index in inspector.get_indexes(table.name, schema=table.schema):
        whole = not any(name.endswith("_where") for name in index.get("dialect_options", {}))
        leading += [name for name in index["column_names"][:1] if name is not None and whole]
    for unique in inspector.get_unique_constraints(table.name, schema=table.schema):
        leading += unique["column_names"][:1]
    return [column.name for column in table.columns if column.name in leading]


def _column(sql: QueueSql, name: str) -> "sa.Column[Any]":
    """Return the column of that name. Raises BadRequest that lists the columns."""
    for column in sql.queue.table.columns:
        if column.name == name:
            return column
    known = listed([column.name for column in sql.queue.table.columns], name)
    raise BadRequest(f"table {sql.queue.table.fullname} has no column {name!r}. Its columns: {known}")


# served by: the primary key
def find_rows(connection: Connection, sql: QueueSql, keys: Sequence[str]) -> list[RowView]:
    """Return the progress of the rows with these keys, in that order. Raises UnknownRow for keys that no row has."""
    if not keys:
        return []
    found = {row.key: row for row in list_rows(connection, sql, Filter(keys=tuple(keys)), len(keys))}
    texts = {key: sql.queue.key_text(scalar(parse_key(sql.queue, key))) for key in keys}
    if missing := [key for key, text in texts.items() if text not in found]:
        raise unknown_row(sql, *missing)
    return [found[text] for text in texts.values()]


# served by: the primary key
def find_row(connection: Connection, sql: QueueSql, key: str) -> RowView:
    """Return the progress of one row."""
    row = connection.execute(sa.select(*progress(sql)).where(keys_in(sql, [parse_key(sql.queue, key)]))).first()
    if row is None:
        raise unknown_row(sql, key)
    return row_view(sql, row)


# served by: the primary key
def values(connection: Connection, sql: QueueSql, key: str) -> dict[str, Any]:
    """Return everything that a row holds, by column."""
    columns = list(sql.queue.table.columns)
    this = keys_in(sql, [parse_key(sql.queue, key)])
    rows = _read(connection, sql, columns, lambda shown: sa.select(*shown).where(this))
    if not rows:
        raise unknown_row(sql, key)
    return {column.name: value for column, value in zip(columns, rows[0], strict=True)}


def _read(
    connection: Connection,
    sql: QueueSql,
    columns: Sequence["sa.Column[Any]"],
    statement: Callable[[Sequence[Any]], "sa.Select[Any]"],
) -> Sequence[Any]:
    """Run a statement that selects these columns. A value that does not fit its column's type is returned as it is
    stored."""
    state = sql.queue.columns["state"]
    shown = [StateWords(sql).raw_state.label(c.name) if c is state else c for c in columns]
    try:
        return connection.execute(statement(shown)).all()
    except (ValueError, TypeError):
        bare = [sa.type_coerce(column, sa.types.NullType()).label(column.name) for column in shown]
        return connection.execute(statement(bare)).all()


# served by: the history's index on (queue, key, id)
def history(connection: Connection, sql: QueueSql, key: str) -> list[AttemptView]:
    """Return the failed attempts of a row, oldest first; of many, the last ones."""
    queue, attempt = sql.queue, own_tables(connection.dialect.name).attempt
    text = queue.key_text(scalar(parse_key(queue, key)))
    rows = connection.execute(
        sa.select(attempt)
        .where(attempt.c.queue == queue.name, attempt.c.key == text)
        .order_by(attempt.c.id.desc())
        .limit(MOST_HISTORY)
    ).all()
    return [
        AttemptView(
            row.stage,
            row.attempt,
            row.worker,
            as_moment(row.started_at),
            as_moment(row.ended_at),
            row.code,
            row.message,
            row.traceback,
        )
        for row in reversed(rows)
    ]


def progress(sql: QueueSql) -> list["sa.ColumnElement[Any]"]:
    queue = sql.queue
    roles = ("attempts", "lease", "error", *(["max_attempts"] if "max_attempts" in queue.columns else []), *TIMES)
    stored = {role: as_stored(queue.columns[role], sql.dialect.name) for role in TIMES}
    columns = ((stored.get(role, queue.columns[role])).label(f"r_{role}") for role in roles)
    return [*queue.key, StateWords(sql).raw_state.label("r_state"), *columns]


def row_view(sql: QueueSql, row: Any) -> RowView:
    queue, state_words = sql.queue, StateWords(sql)
    word = state_words.word(row.r_state)
    step = None if word is None else queue.vocabulary.step_of(word)
    own = getattr(row, "r_max_attempts", None)
    retry = None if step is None else step.retry.with_limit(own if isinstance(own, int) else None)
    times = {role: as_moment(getattr(row, f"r_{role}"), queue.epoch) for role in TIMES}
    return RowView(
        key=queue.key_text(scalar(tuple(row[: len(queue.key)]))),
        state=None if row.r_state is None else str(state_words.plain(row.r_state)),
        kind=state_words.meaning(row.r_state),
        stage=None if step is None else step.name,
        attempts=row.r_attempts or 0,
        max_attempts=None if retry is None or retry.unlimited else retry.attempts,
        worker=None if row.r_lease is None else worker_of(row.r_lease),
        error=row.r_error,
        **times,
    )


def unknown_row(sql: QueueSql, *keys: str) -> UnknownRow:
    if len(keys) == 1:
        return UnknownRow(f"queue {sql.queue.name} has no row with the key {keys[0]}")
    listed = ", ".join(keys[:MOST_KEYS]) + (f" and {len(keys) - MOST_KEYS:,} more" if len(keys) > MOST_KEYS else "")
    return UnknownRow(f"queue {sql.queue.name} has no rows with the keys {listed}")
