"""Turns rows into records for a bulk load (COPY, executemany), column by column."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any

from sqlalchemy import Column, ColumnDefault

from rowmill.model.queue import QueueSpec
from rowmill.model.states import as_value
from rowmill.store.queue_sql import QueueSql

Run = tuple[list["Column[Any]"], Iterable[tuple[Any, ...]]]
"""Records that fill the same columns. They are made while the database takes the ones before."""


class BulkLoader:
    """Turns rows of one queue into records. `now` is the value of `available_at` for tables that have no default for
    it."""

    def __init__(self, sql: QueueSql, now: Any = None) -> None:
        self._sql = sql
        self._now = now
        self._shapes: dict[tuple[str, ...], RecordShape] = {}

    def runs(self, rows: Iterable[Mapping[str, Any]]) -> list[Run]:
        """Group consecutive rows that name the same columns, in the order they came. A column that a row does not name
        is left to the table's default: it must not become NULL because another row names it."""
        return [self._shape(names).run(list(part)) for names, part in groupby(rows, key=tuple)]

    def _shape(self, names: tuple[str, ...]) -> "RecordShape":
        if names not in self._shapes:
            self._shapes[names] = RecordShape(self._sql, names, self._now)
        return self._shapes[names]


class RecordShape:
    """Makes records of rows that name the same columns."""

    def __init__(self, sql: QueueSql, names: Sequence[str], now: Any) -> None:
        self._given = {column_of(sql.queue, name): (name, _taken(sql, name)) for name in names}
        fixed, self._made = _left_out(sql.queue, self._given.keys(), now)
        self._fixed = {column: _bound(sql.binder(column), value) for column, value in fixed.items()}
        self._binders = {column: sql.binder(column) for column in self._made}

    def run(self, rows: Sequence[Mapping[str, Any]]) -> Run:
        columns: list[Column[Any]] = [*self._given, *self._fixed, *self._made]
        values: list[Iterable[Any]] = []
        for name, take in self._given.values():
            column = map(itemgetter(name), rows)
            values.append(column if take is None else map(take, column))
        values += [repeat(value, len(rows)) for value in self._fixed.values()]
        values += [[_bound(self._binders[column], make(None)) for _ in rows] for column, make in self._made.items()]
        return columns, zip(*values, strict=True)


def column_of(queue: QueueSpec[Any], name: str) -> "Column[Any]":
    column = queue.names.get(name)
    if column is None:
        raise KeyError(f"table {queue.table.name} has no column {name}")
    return column


def must_be_timed(queue: QueueSpec[Any]) -> bool:
    """Return whether `available_at` has no default, so that an INSERT has to give it."""
    column = queue.columns["available_at"]
    return not column.nullable and column.default is None and column.server_default is None


def must_be_counted(queue: QueueSpec[Any]) -> bool:
    """Return whether `attempts` has no default, so that an INSERT has to give it."""
    column = queue.columns["attempts"]
    return not column.nullable and column.default is None and column.server_default is None


def ready_value(queue: QueueSpec[Any]) -> Any:
    """Return the first stage's ready word as a value of the state column."""
    return as_value(queue.steps[0].ready[0], queue.columns["state"].type)


def utc(value: Any) -> Any:
    """Return a time in UTC. SQLite stores the digits of a time and drops its zone, so the queue's times have to be in
    UTC."""
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo is not None else value


def _left_out(
    queue: QueueSpec[Any], given: Iterable["Column[Any]"], now: Any
) -> "tuple[dict[Column[Any], Any], dict[Column[Any], Callable[[Any], Any]]]":
    """Return the values of columns that a row does not name and that the table does not fill: the queue's own, and
    those with a Python default, as fixed values and as functions."""
    fixed: dict[Column[Any], Any] = {}
    made: dict[Column[Any], Callable[[Any], Any]] = {}
    for column in queue.table.columns:
        default = column.default
        if isinstance(default, ColumnDefault) and default.is_scalar:
            fixed[column] = default.arg
        elif isinstance(default, ColumnDefault) and default.is_callable:
            made[column] = default.arg
    own = {queue.columns["state"]: ready_value(queue)}
    if must_be_counted(queue):
        own[queue.columns["attempts"]] = 0
    if now is not None:
        own[queue.columns["available_at"]] = now
    fixed |= own
    for column in given:
        fixed.pop(column, None)
    return fixed, {column: make for column, make in made.items() if column not in fixed and column not in given}


def _taken(sql: QueueSql, name: str) -> Callable[[Any], Any] | None:
    """Return the function that converts a row's value to what the driver takes."""
    column = column_of(sql.queue, name)
    bind = sql.binder(column)
    if sql.dialect.name == "sqlite" and column in sql.queue.columns.values():
        return lambda value: _bound(bind, utc(value))
    return bind


def _bound(bind: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if bind is None else bind(value)
