"""Renewals on PostgreSQL."""

from collections.abc import Callable, Sequence
from typing import Any

import asyncpg

from rowmill.model.lease import Lease
from rowmill.model.queue import QueueSpec
from rowmill.store.port import LockTimeout, Renewed
from rowmill.store.postgres.connection import ConnectionPool
from rowmill.store.postgres.statements import QueueStatements, numbers
from rowmill.store.refused_rows import is_of_a_row


async def renew(
    pool: ConnectionPool, known: Callable[[QueueSpec[Any]], QueueStatements], leases: Sequence[Lease[Any]]
) -> Renewed:
    """Push the end of these leases on. In the order of the keys, so that two statements that meet the same rows lock
    them in the same order."""
    renewed = Renewed()
    by_lease: dict[tuple[str, float], list[Lease[Any]]] = {}
    for lease in leases:
        by_lease.setdefault((lease.queue.name, lease.step.lease), []).append(lease)
    for group in by_lease.values():
        of_queue = known(group[0].queue)
        group.sort(key=lambda lease: of_queue.place(lease.record))
        try:
            await _renew(pool, of_queue, group, renewed)
        except LockTimeout:  # the table as a whole
            renewed.delayed += group
    return renewed


async def _renew(pool: ConnectionPool, known: QueueStatements, leases: Sequence[Lease[Any]], renewed: Renewed) -> None:
    """Push the end of these leases on, which are of one length. One that the table refuses to have renewed is not lost
    yet, and keeps no other."""
    tokens, keys = numbers([lease.token for lease in leases]), known.key_arrays(leases)
    try:
        rows = await pool.fetch(known.renew_statement, leases[0].step.lease, tokens, *keys)
    except asyncpg.PostgresError as error:
        if not is_of_a_row(error.sqlstate):
            raise
        half = len(leases) // 2
        for part in (leases[:half], leases[half:]) if half else ():
            await _renew(pool, known, part, renewed)
        return
    done = {row[0] for row in rows}
    if len(done) < len(leases):
        held = {row[0] for row in await pool.fetch(known.holds_statement, tokens, *keys)}
        for place, lease in enumerate(leases, start=1):
            if place not in done:
                (renewed.delayed if place in held else renewed.lost).append(lease)
