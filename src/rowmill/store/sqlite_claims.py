"""Claims on SQLite: which rows are taken, and in what order. They run in a write transaction, on its thread."""

import sqlite3
from typing import Any

from rowmill.model.words import Step
from rowmill.store import order_sql
from rowmill.store.sqlite_known import SqliteKnown
from rowmill.store.watermark import MAX_LEVELS, STRETCHES, Stretch


def claim(connection: sqlite3.Connection, known: SqliteKnown, step: Step, token: int, limit: int) -> list[Any]:
    """Take up to `limit` rows under this token."""
    if known.terms.queue.per is not None:
        return _claim_in_order(connection, known, step, token, limit)
    records: list[Any] = []
    in_sequence = known.in_sequence
    for stretch, level in _lanes(connection, known, step):
        statement = known.claim_statement(connection, step, stretch)
        given: list[Any] = [token, limit - len(records), step.lease]
        if known.terms.priority is not None and stretch is not Stretch.WHOLE:
            given.append(level)
        taken = connection.execute(statement, given).fetchall()
        records += in_sequence(taken)
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
