"""Prepares a database: Rowmill's own tables, and the indexes and triggers of the declared queues."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from rowmill.model.errors import SchemaMismatch
from rowmill.store import expressions, indexes, table_checks
from rowmill.store.indexes import IndexState, QueueIndex, bare_name, index_states
from rowmill.store.own import schema
from rowmill.store.port import Store
from rowmill.store.queue_sql import QueueSql

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection

LOCK = (0x726F7769, 0)
"""The advisory lock for making indexes on tables with rows ("rowi")."""
LOCK_SECONDS = 0.2
"""Seconds between two tries to get it. To wait for it inside a statement would block CREATE INDEX CONCURRENTLY."""
UNFINISHED = (IndexState.MISSING, IndexState.INVALID, IndexState.BUILDING)


async def migrate(store: Store, queues: Sequence[QueueSql], *, tables: bool) -> list[int]:
    """Bring Rowmill's own tables to this version, and create the queues' indexes and triggers. With `tables`, create
    missing tables of queues too. Return the steps taken.

    Everything runs in one transaction, except for indexes on PostgreSQL tables that have rows: these are created
    concurrently, which does not block writers and can't be done in a transaction.
    """
    steps, later = await store.run(lambda connection: _in_transaction(connection, queues, tables))
    if later:
        async with store.engine.connect() as connection:
            await _beside_writers(store, await connection.execution_options(isolation_level="AUTOCOMMIT"), later)
    return steps


def _in_transaction(
    connection: Connection, queues: Sequence[QueueSql], tables: bool
) -> tuple[list[int], list[QueueSql]]:
    """Migrate what fits into one transaction. Return the steps taken, and the queues whose indexes are still to be
    made."""
    steps, later = schema.migrate(connection), []
    for sql in queues:
        table = sql.queue.table
        if tables:
            table_checks.make_schema(connection, table)
            table.create(connection, checkfirst=True)
        if not table_checks.has_table(connection, table):
            continue
        unfinished = _unfinished(connection, sql)
        if unfinished and _is_written_to(connection, sql):
            later.append(sql)
        else:
            for index, state in unfinished:
                _make(connection, sql, index, state)
        if connection.dialect.name == "postgresql" and not indexes.has_wake_trigger(connection, sql):
            for statement in indexes.wake_trigger(sql):
                connection.exec_driver_sql(statement)
    return steps, later


def _unfinished(connection: Connection, sql: QueueSql) -> list[tuple[QueueIndex, IndexState]]:
    """Return the indexes that are missing, that somebody is making, or that a failed attempt left invalid. An index for
    other words or columns stays: `adopt` replaces it."""
    wanted = indexes.queue_indexes(sql)
    states = index_states(connection, sql, wanted)
    return [(index, states[index.name]) for index in wanted if states[index.name] in UNFINISHED]


def _is_written_to(connection: Connection, sql: QueueSql) -> bool:
    """Return whether the table has rows, so that others may want to write while an index is made. A partitioned table
    can't have an index made concurrently."""
    if connection.dialect.name != "postgresql":
        return False
    kind = sa.text("SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass(:name)")
    if connection.scalar(kind, {"name": sql.table}):
        return False
    return bool(expressions.run(connection, f"SELECT EXISTS (SELECT FROM {sql.table})").scalar())


async def _beside_writers(store: Store, connection: "AsyncConnection", queues: Sequence[QueueSql]) -> None:
    """Create indexes concurrently, one process at a time: an index that another makes just now looks like one that a
    failed attempt left."""
    lock = "({}, {})".format(*LOCK)
    while not await connection.scalar(sa.text(f"SELECT pg_try_advisory_lock{lock}")):
        await asyncio.sleep(LOCK_SECONDS)
    try:
        # It waits for old transactions, holding up nobody: a time-out would leave an invalid index.
        await connection.run_sync(expressions.run, "SET statement_timeout = 0")
        await connection.run_sync(expressions.run, "SET lock_timeout = 0")
        for sql in queues:
            for index, state in await store.run(partial(_unfinished, sql=sql)):
                await connection.run_sync(partial(_make, concurrently=True), sql, index, state)
    finally:
        # The connection goes back into a pool: not with our settings, nor with the lock.
        with suppress(DBAPIError):
            await connection.run_sync(expressions.run, "RESET statement_timeout")
            await connection.run_sync(expressions.run, "RESET lock_timeout")
            await connection.execute(sa.text(f"SELECT pg_advisory_unlock{lock}"))


def _make(
    connection: Connection, sql: QueueSql, index: QueueIndex, state: IndexState, *, concurrently: bool = False
) -> None:
    if state is IndexState.BUILDING:
        return
    how = "CONCURRENTLY " if concurrently else ""
    prefix = f"{sql.quote(sql.queue.table.schema)}." if sql.queue.table.schema else ""
    try:
        if state is IndexState.INVALID:  # IF NOT EXISTS would find it, and leave it
            expressions.run(connection, f"DROP INDEX {how}IF EXISTS {prefix}{index.name}")
        expressions.run(connection, index.create(sql.table, concurrently=concurrently))
    except DBAPIError as error:
        reason = next(iter(str(error.orig).splitlines()), type(error.orig).__name__)
        raise SchemaMismatch(
            f"index {bare_name(index)} of table {sql.queue.table.name} could not be made. The database says: "
            f"{reason}. Run rowmill migrate again: it removes what is left of it, and goes on from there"
        ) from error
