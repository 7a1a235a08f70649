"""Columns that were left out of a claim, read when a handler asks for them."""

from sys import getsizeof
from typing import Any

from rowmill.model.errors import BadRequest, ColumnNotLoaded, LeaseLost
from rowmill.model.lease import Lease
from rowmill.store.port import GONE, Store
from rowmill.store.rows import RowLoader


async def fetch(store: Store, lease: Lease[Any], name: str) -> tuple[Any, int]:
    """Return the value of a column, and the bytes that it brought. It is read by the row's key, only while the lease
    holds, unless the row has it already."""
    queue = lease.queue
    column = queue.names.get(name)
    if column is None:
        known = ", ".join(one.name for one in queue.table.columns)
        raise BadRequest(f"table {queue.table.name} has no column {name}. It has: {known}")
    load, row = RowLoader(store.terms(queue)), lease.row
    try:
        return load.get(row, column), 0
    except ColumnNotLoaded:
        pass
    raw = await store.value(lease, column)
    if raw is GONE:
        lease.lost = True
        raise LeaseLost(
            f"row {queue.key_text(lease.key)} of {queue.name} is held by somebody else now: nothing is read"
        )
    value = load.value(column, raw)
    load.put(row, column, value)
    return value, getsizeof(raw)
