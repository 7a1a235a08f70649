"""Run a migration plan."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from rowmill.adopt import steps as fills
from rowmill.adopt.steps import MigrationPlan, MigrationStep, StepKind
from rowmill.model.errors import RowmillError
from rowmill.store import expressions
from rowmill.store.own import schema
from rowmill.store.port import Store
from rowmill.store.sqlite.writer import refused_values

OnProgress = Callable[[MigrationStep, int], None]
"""Called with a step and the number of rows it has changed so far (0 when it starts)."""

LOCK_SECONDS = 5
TRIES = 6
LOCK_NOT_AVAILABLE = "55P03"


class AdoptionFailed(RowmillError):
    """A step failed. The steps before it are done: run the command again to continue."""


async def carry_out(store: Store, plan: MigrationPlan, on_progress: OnProgress = lambda change, rows: None) -> None:
    """Run every step. Idempotent: the next plan leaves out steps that are done.

    SQLite runs all steps in one transaction. PostgreSQL runs each statement by itself, so that no lock is held for
    long. A lock that is not granted within seconds is given up and requested again, so that other sessions do not queue
    behind it.
    """
    if plan.obstacles:
        raise AdoptionFailed("not before this is out of the way: " + "; ".join(plan.obstacles))
    if store.dialect.name == "sqlite":
        await store.run(lambda connection: _all(connection, plan, on_progress))
        return
    async with store.engine.connect() as connection:
        await _on_postgres(store, await connection.execution_options(isolation_level="AUTOCOMMIT"), plan, on_progress)


async def _on_postgres(store: Store, connection: AsyncConnection, plan: MigrationPlan, on_progress: OnProgress) -> None:
    await connection.run_sync(expressions.run, "SET statement_timeout = 0")
    try:
        for change in plan.changes:
            if change.part is StepKind.OWN:
                on_progress(change, 0)
                await store.run(schema.migrate)
            else:
                await connection.run_sync(_step, change, on_progress)
    finally:
        # The connection goes back into a pool: not with our settings.
        for setting in ("statement_timeout", "lock_timeout"):
            await connection.run_sync(expressions.run, f"RESET {setting}")


def _all(connection: Connection, plan: MigrationPlan, on_progress: OnProgress) -> None:
    for change in plan.changes:
        if change.part is StepKind.OWN:
            on_progress(change, 0)
            schema.migrate(connection)
        else:
            _step(connection, change, on_progress)


def _step(connection: Connection, change: MigrationStep, on_progress: OnProgress) -> None:
    on_progress(change, 0)
    try:
        if change.fill is None:
            for statement in change.statements:
                _run(connection, statement, alone=change.alone)
            return
        rows = 0
        for changed in fills.run(connection, change.fill):
            rows += changed
            on_progress(change, rows)
    except DBAPIError as error:
        raise AdoptionFailed(
            f"{change.what}: the database says: {database_message(error)}. Run it again to go on from there"
        ) from error


def _run(connection: Connection, statement: str, *, alone: bool) -> None:
    if connection.dialect.name == "sqlite":
        expressions.run(connection, statement)
        return
    # CREATE INDEX CONCURRENTLY waits for old transactions, holding up nobody: a time-out would leave an invalid index.
    expressions.run(connection, f"SET lock_timeout = {0 if alone else LOCK_SECONDS * 1000}")
    for attempt in range(1, TRIES + 1):
        try:
            expressions.run(connection, statement)
            return
        except DBAPIError as error:
            if attempt == TRIES or _code(error) != LOCK_NOT_AVAILABLE:
                raise


def database_message(error: DBAPIError) -> str:
    """Return the database's error message on one line. If it may quote a row, return only the object's name."""
    original: Any = getattr(error.orig, "__cause__", None) or error.orig
    if getattr(original, "sqlite_errorname", "").startswith("SQLITE_CONSTRAINT"):
        return refused_values(original)
    lines = str(original).splitlines()
    if str(_code(error) or "").startswith(("22", "23", "P0")) or not lines:
        where = getattr(original, "constraint_name", None) or getattr(original, "column_name", None)
        return f"{type(original).__name__} ({where})" if where else type(original).__name__
    return lines[0]


def _code(error: DBAPIError) -> Any:
    return getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
