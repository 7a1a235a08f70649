"""Settles on SQLite: a batch is written at once or, if a value is refused, row by row."""

import json
from typing import Any

from sqlalchemy import Connection

from rowmill.model.lifecycle import Move
from rowmill.model.states import Step
from rowmill.store.port import Settled
from rowmill.store.queue_sql import set_clause
from rowmill.store.settle_batch import SettleBatch
from rowmill.store.sqlite.sql import HISTORY, NOW, SqliteQueueSql
from rowmill.store.sqlite.statements import SqliteQueueStatements
from rowmill.store.sqlite.writer import RolledBack, connection_problem, refused_values

RECEIPT = (
    "INSERT INTO rowmill_receipt (worker, flush, queue, stage, move, rows, seconds, at) "
    f"VALUES (:worker, :flush, :queue, :stage, :move, :rows, :seconds, {NOW})"
)


# served by: the primary key
def settle_statement(sql: SqliteQueueSql, step: Step, move: Move, columns: tuple[str, ...]) -> str:
    """Write one verdict, only where its lease still holds. Parameters by name: lease, wait, error, code, k0…, v0…"""
    pairs = sql.assignments(move, step, wait=":wait", error=":error", code=":code")
    pairs += [(sql.quote(name), f":v{n}") for n, name in enumerate(columns)]
    return f"UPDATE {sql.table} SET {set_clause(pairs)} WHERE {sql.same_key} AND {sql.lease} = :lease"


# served by: the primary key
def settle_alike_statement(sql: SqliteQueueSql, step: Step, move: Move) -> str:
    """Write verdicts of one claim that differ only in their keys. Parameters by name: lease, keys as a JSON array."""
    [key] = sql.keys
    return (
        f"UPDATE {sql.table} SET {set_clause(sql.assignments(move, step))} "
        f"WHERE {key} IN (SELECT value FROM json_each(:keys)) AND {sql.lease} = :lease"
    )


def settle_batch(
    connection: Any, statements: SqliteQueueStatements, batch: SettleBatch, worker: int, settled: Settled
) -> None:
    """Write a batch, its receipt and its history. `connection` has `execute(statement, parameters)`."""
    about = {"queue": batch.queue.name, "stage": batch.step.name, "worker": worker}
    if batch.move.failed or len(batch.verdicts) == 1 or not _all_at_once(connection, statements, batch):
        kept = _one_by_one(connection, statements, batch, about, settled)
    else:
        kept = len(batch.verdicts)
    settled.kept += kept
    receipt = {"flush": batch.number, "move": batch.move.name, "rows": kept, "seconds": batch.seconds}
    connection.execute(RECEIPT, about | receipt)


def _all_at_once(connection: Any, statements: SqliteQueueStatements, batch: SettleBatch) -> bool:
    """Write all verdicts in few statements, which takes half the time. Return False, with nothing written, if one of
    them fails."""
    connection.execute("SAVEPOINT rowmill_flush")
    try:
        written = _write(connection, statements, batch) == len(batch.verdicts)
    except Exception as error:
        if connection_problem(error):
            raise
        if not connection.in_transaction:
            raise RolledBack(refused_values(error)) from error
        written = False
    if not written:
        connection.execute("ROLLBACK TO rowmill_flush")
    connection.execute("RELEASE rowmill_flush")
    return written


def _write(connection: Any, statements: SqliteQueueStatements, batch: SettleBatch) -> int:
    """Write a batch; return how many rows were written."""
    alike = statements.alike(batch)
    if alike is None:
        given = [statements.settle_parameters(verdict) for verdict in batch.verdicts]
        changed: int = connection.executemany(
            statements.once(settle_statement, batch.step, batch.move, batch.columns), given
        ).rowcount
        return changed
    statement = statements.once(settle_alike_statement, batch.step, batch.move)
    return sum(
        connection.execute(statement, {"lease": token, "keys": json.dumps(keys)}).rowcount
        for token, keys in alike.items()
    )


def _one_by_one(
    connection: Any, statements: SqliteQueueStatements, batch: SettleBatch, about: dict[str, Any], settled: Settled
) -> int:
    """Write each verdict by itself, with its history; return how many were written."""
    statement = statements.once(settle_statement, batch.step, batch.move, batch.columns)
    kept = 0
    for verdict in batch.verdicts:
        try:
            changed = connection.execute(statement, statements.settle_parameters(verdict)).rowcount
        except Exception as error:  # the database, or a type of the user's, does not take a value
            if connection_problem(getattr(error, "orig", error)):
                raise
            if not connection.in_transaction:
                raise RolledBack(refused_values(error)) from error
            settled.refused.append((verdict, refused_values(error)))
            continue
        if changed != 1:
            settled.lost.append(verdict)
            continue
        kept += 1
        if batch.move.failed:
            lease = verdict.lease
            failure = {
                "key": batch.queue.key_text(lease.key),
                "attempt": lease.attempt,
                "started_at": lease.claimed_at.strftime("%Y-%m-%d %H:%M:%S.%f"),
                "code": verdict.code,
                "message": verdict.message,
                "traceback": verdict.failure.traceback,
            }
            connection.execute(HISTORY, about | failure)
    return kept


class Executes:
    """Adapts a SQLAlchemy connection for `settle_batch`."""

    in_transaction = True

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, statement: str, parameters: dict[str, Any] | None = None) -> Any:
        return self._connection.exec_driver_sql(statement, parameters)

    def executemany(self, statement: str, parameters: list[dict[str, Any]]) -> Any:
        return self._connection.exec_driver_sql(statement, parameters)
