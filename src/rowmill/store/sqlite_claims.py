"""Claims on SQLite: which rows are taken, and in what order. They run in a write transaction, on its thread."""

import sqlite3
from collections.abc import Callable
from typing import Any

from rowmill.model.queue import Queue
from rowmill.model.words import Step
from rowmill.store import order_sql
from rowmill.store.sqlite_known import SqliteKnown
from rowmill.store.watermark import MAX_LEVELS, STRETCHES, Stretch

CLASSES: dict[type, int] = {type(None): 0, int: 1, float: 1, str: 2, bytes: 3}
"""SQLite's order of values of different types, which any column may hold."""


def claim(connection: sqlite3.Connection, known: SqliteKnown, step: Step, token: int, limit: int) -> list[Any]:
    """Take up to `limit` rows under this token."""
    if known.terms.queue.per is not None:
        return _claim_in_order(connection, known, step, token, limit)
    records: list[Any] = []
    sequence = _sequence(known.terms.queue)
    for stretch, level in _lanes(connection, known, step):
        statement = known.claim_statement(connection, step, stretch)
        given: list[Any] = [token, limit - len(records), step.lease]
        if known.terms.priority is not None and stretch is not Stretch.WHOLE:
            given.append(level)
        taken = connection.execute(statement, given).fetchall()
        records += sorted(taken, key=sequence)
        if len(records) >= limit:
            break
    return records


def _claim_in_order(
    connection: sqlite3.Connection, known: SqliteKnown, step: Step, token: int, limit: int
) -> list[Any]:
    """The oldest first; where the oldest are all held back by others of their key, every key's head."""
    records: list[Any] = []
    for find in order_sql.finders(known.terms):
        statement = known.in_order_statement(connection, step, find)
        if len(records) < limit:
            records += connection.execute(statement, (token, limit - len(records), step.lease)).fetchall()
    return records


def _lanes(connection: sqlite3.Connection, known: SqliteKnown, step: Step) -> list[tuple[Stretch, Any]]:
    levels: list[Any] = [None]
    if known.terms.priority is not None:
        levels = [row[0] for row in connection.execute(known.priorities_statement(connection, step))]
    if len(levels) > MAX_LEVELS:
        return [(Stretch.WHOLE, None)]
    return [(stretch, level) for level in levels for stretch in STRETCHES]


def _sequence(queue: Queue[Any]) -> Callable[[Any], Any]:
    """RETURNING keeps no order: this puts claimed rows back into the order of the claim."""
    columns = list(queue.table.columns)
    places = [columns.index(column) for column in (queue.columns["available_at"], *queue.order_by, *queue.key)]
    level = None if queue.priority is None else columns.index(queue.priority)
    sign = 1 if queue.lower_first else -1

    def key(record: Any) -> Any:
        first = [] if level is None else [sign * (record[level] or 0)]
        return first + [(CLASSES.get(type(record[place]), 1), record[place]) for place in places]

    return key
