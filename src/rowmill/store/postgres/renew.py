"""Renewals on PostgreSQL: the statement, and what is done with its result."""

from collections.abc import Callable, Sequence
from typing import Any

import asyncpg

from rowmill.model.lease import Lease
from rowmill.model.queue import QueueSpec
from rowmill.store.halving import Halving
from rowmill.store.port import LockTimeout, Renewed
from rowmill.store.postgres.connection import ConnectionPool
from rowmill.store.postgres.sql import PostgresQueueSql, fenced, free, holds_statement, same_key
from rowmill.store.postgres.statements import QueueStatements
from rowmill.store.postgres.values import numbers
from rowmill.store.refused_rows import is_of_a_row


# served by: the primary key
def renew_statement(sql: PostgresQueueSql) -> str:
    """Extend leases by $1 seconds, each only where it still holds. $2 tokens, then the parts of the keys.

    A row that a transaction of the user's has locked is passed over, and not renewed: while we waited for it, all other
    leases of the process could expire. `holds_statement` tells such rows from lost ones.
    """
    return (
        f"UPDATE {sql.table} AS t SET {sql.leased_until} = {sql.later('leased_until', '$1::float8')} "
        f"FROM {free(sql, fenced(sql), first=2)} "
        f"WHERE {same_key(sql)} AND t.{sql.lease} = g_lease RETURNING g_place"
    )


async def renew_leases(
    pool: ConnectionPool, statements: Callable[[QueueSpec[Any]], QueueStatements], leases: Sequence[Lease[Any]]
) -> Renewed:
    """Extend leases. Rows are locked in the order of their keys, so that two statements that meet the same rows do not
    deadlock."""
    renewed = Renewed()
    by_lease: dict[tuple[str, float], list[Lease[Any]]] = {}
    for lease in leases:
        by_lease.setdefault((lease.queue.name, lease.step.lease), []).append(lease)
    for group in by_lease.values():
        of_queue = statements(group[0].queue)
        group.sort(key=lambda lease: of_queue.place(lease.record))
        try:
            await _renew(pool, of_queue, group, renewed)
        except LockTimeout:  # the table as a whole
            renewed.delayed += group
    return renewed


async def _renew(
    pool: ConnectionPool, statements: QueueStatements, leases: Sequence[Lease[Any]], renewed: Renewed
) -> None:
    """Extend these leases, which are of one length. A lease that the table refuses to extend is not lost yet, and keeps
    no other from being extended."""
    halving = Halving(leases)
    for part in halving:
        tokens, keys = numbers([lease.token for lease in part]), statements.key_arrays(part)
        try:
            rows = await pool.fetch(statements.once(renew_statement), part[0].step.lease, tokens, *keys)
        except asyncpg.PostgresError as error:
            if not is_of_a_row(error.sqlstate):
                raise
            halving.split(part)
            continue
        done = {row[0] for row in rows}
        if len(done) < len(part):
            held = {row[0] for row in await pool.fetch(statements.once(holds_statement), tokens, *keys)}
            for place, lease in enumerate(part, start=1):
                if place not in done:
                    (renewed.delayed if place in held else renewed.lost).append(lease)
