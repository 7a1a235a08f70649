"""A plan, carried out."""

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

Tell = Callable[[MigrationStep, int], None]
"""Called with a step and the rows it has changed so far (0 when it begins)."""

LOCK_SECONDS = 5
TRIES = 6
LOCK_NOT_AVAILABLE = "55P03"


class AdoptionFailed(RowmillError):
    """A step could not be made. Those before it stand: run it again to go on from there."""


async def carry_out(store: Store, plan: MigrationPlan, tell: Tell = lambda change, rows: None) -> None:
    """Make every step. Twice is fine: a step that was made is not in the next plan.

    SQLite: all in one transaction. PostgreSQL: each statement by itself, so that no lock is held for long; a
    lock that isn't given within seconds is let go and asked for again, so that nobody queues up behind us.
    """
    if plan.obstacles:
        raise AdoptionFailed("not before this is out of the way: " + "; ".join(plan.obstacles))
    if store.dialect.name == "sqlite":
        await store.run(lambda connection: _all(connection, plan, tell))
        return
    async with store.engine.connect() as connection:
        await _on_postgres(store, await connection.execution_options(isolation_level="AUTOCOMMIT"), plan, tell)


async def _on_postgres(store: Store, connection: AsyncConnection, plan: MigrationPlan, tell: Tell) -> None:
    await connection.run_sync(expressions.run, "SET statement_timeout = 0")
    try:
        for change in plan.changes:
            if change.part is StepKind.OWN:
                tell(change, 0)
                await store.run(schema.migrate)
            else:
                await connection.run_sync(_step, change, tell)
    finally:
        # The connection goes back into a pool: not with our settings.
        for setting in ("statement_timeout", "lock_timeout"):
            await connection.run_sync(expressions.run, f"RESET {setting}")


def _all(connection: Connection, plan: MigrationPlan, tell: Tell) -> None:
    for change in plan.changes:
        if change.part is StepKind.OWN:
            tell(change, 0)
            schema.migrate(connection)
        else:
            _step(connection, change, tell)


def _step(connection: Connection, change: MigrationStep, tell: Tell) -> None:
    tell(change, 0)
    try:
        if change.fill is None:
            for statement in change.statements:
                _run(connection, statement, alone=change.alone)
            return
        rows = 0
        for changed in fills.run(connection, change.fill):
            rows += changed
            tell(change, rows)
    except DBAPIError as error:
        raise AdoptionFailed(
            f"{change.what}: the database says: {database_said(error)}. Run it again to go on from there"
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


def database_said(error: DBAPIError) -> str:
    """The database's own words, in a line; where they may quote a row, only what they are about."""
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
