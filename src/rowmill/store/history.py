"""Reads of what the engine keeps beside the rows."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model.lease import Lease
from rowmill.model.queue import Queue
from rowmill.store.schema import own_tables


def crashed_keys(connection: Connection, queue: Queue[Any], leases: Sequence[Lease[Any]]) -> set[Any]:
    """The keys among these whose last failed attempt at their stage was the death of its worker."""
    by_text = {queue.key_text(lease.key): lease for lease in leases}
    attempt = own_tables(connection.dialect.name).attempt
    rows = connection.execute(
        sa.select(attempt.c.key, attempt.c.stage, attempt.c.code)
        .where(attempt.c.queue == queue.name, attempt.c.key.in_(list(by_text)))
        .order_by(attempt.c.id)
    )
    last = {row.key: row for row in rows}
    codes = (queue.crash.requeued, queue.crash.buried)
    return {by_text[key].key for key, row in last.items() if row.code in codes and row.stage == by_text[key].stage}


# served by: the history's index on (queue, key, id)
def last_failed_stages(connection: Connection, queue: Queue[Any], keys: Sequence[str]) -> dict[str, str]:
    """The stage of the last failed attempt, by the text of the key."""
    attempt = own_tables(connection.dialect.name).attempt
    rows = connection.execute(
        sa.select(attempt.c.key, attempt.c.stage)
        .where(attempt.c.queue == queue.name, attempt.c.key.in_(list(keys)))
        .order_by(attempt.c.id)
    )
    return {row.key: row.stage for row in rows}
