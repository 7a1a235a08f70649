"""Renewals on PostgreSQL."""

from collections.abc import Callable, Sequence
from typing import Any

import asyncpg

from rowmill.model.lease import Lease
from rowmill.model.queue import Queue
from rowmill.store.known import Known
from rowmill.store.line import Line
from rowmill.store.refusals import is_of_a_row


async def renew(line: Line, known: Callable[[Queue[Any]], Known], leases: Sequence[Lease[Any]]) -> list[Lease[Any]]:
    """Push the end of these leases on; answers those that are lost. In the order of the keys, so that two statements
    that meet the same rows lock them in the same order."""
    lost: list[Lease[Any]] = []
    by_lease: dict[tuple[str, float], list[Lease[Any]]] = {}
    for lease in leases:
        by_lease.setdefault((lease.queue.name, lease.step.lease), []).append(lease)
    for group in by_lease.values():
        of_queue = known(group[0].queue)
        group.sort(key=lambda lease: of_queue.place(lease.record))
        lost += await _renew(line, of_queue, group)
    return lost


async def _renew(line: Line, known: Known, leases: Sequence[Lease[Any]]) -> list[Lease[Any]]:
    """Push the end of these leases on, which are of one length; answers those that are lost. One that the table refuses
    to have renewed is not lost yet, and keeps no other."""
    tokens, keys = [lease.token for lease in leases], known.key_arrays(leases)
    try:
        rows = await line.fetch(known.renew_statement, leases[0].step.lease, tokens, *keys)
    except asyncpg.PostgresError as error:
        if not is_of_a_row(error.sqlstate):
            raise
        half = len(leases) // 2
        return await _renew(line, known, leases[:half]) + await _renew(line, known, leases[half:]) if half else []
    held = {row[0] for row in rows}
    if len(held) < len(leases):
        held |= {row[0] for row in await line.fetch(known.holds_statement, tokens, *keys)}
    return [lease for place, lease in enumerate(leases, start=1) if place not in held]
