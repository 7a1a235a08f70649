"""What piles up in Rowmill's own tables: receipts are added up, old history goes.

Every function takes a connection in a transaction.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.store import inbox
from rowmill.store.dialect_insert import insert_of
from rowmill.store.moment import moment
from rowmill.store.schema import own_tables

KNOWN_SECONDS = 86400.0
"""For how long a silent worker is known at least, however short history is kept: it may be cut off, and alive."""
TIDY_MOST = 5000
"""Entries of the history that are deleted at once."""


def roll_up(connection: Connection) -> int:
    """Add receipts older than a minute to the throughput per minute, and drop them."""
    own = own_tables(connection.dialect.name)
    dialect = connection.dialect.name
    old = connection.execute(
        sa.delete(own.receipt)
        .where(own.receipt.c.at < moment(dialect, -60.0))
        .returning(
            own.receipt.c.queue,
            own.receipt.c.stage,
            own.receipt.c.move,
            own.receipt.c.rows,
            own.receipt.c.seconds,
            own.receipt.c.at,
        )
    ).all()
    sums: dict[tuple[Any, ...], list[float]] = {}
    for row in old:
        minute = row.at.replace(second=0, microsecond=0)
        total = sums.setdefault((row.queue, row.stage, minute, row.move), [0, 0.0])
        total[0] += row.rows
        total[1] += row.seconds
    for (queue, stage, minute, move), (rows, seconds) in sums.items():
        put = insert_of(dialect)(own.throughput).values(
            queue=queue, stage=stage, minute=minute, move=move, rows=rows, seconds=seconds
        )
        connection.execute(
            put.on_conflict_do_update(
                index_elements=["queue", "stage", "minute", "move"],
                set_={"rows": own.throughput.c.rows + rows, "seconds": own.throughput.c.seconds + seconds},
            )
        )
    return len(old)


def tidy(connection: Connection, keep: float, most: int = TIDY_MOST) -> int:
    """Delete a batch of our own history that is older than `keep` seconds, and of messages whose time in the inbox
    is over; answers how much."""
    own = own_tables(connection.dialect.name)
    before = moment(connection.dialect.name, -keep)
    old = (
        sa.select(own.attempt.c.id).where(own.attempt.c.ended_at < before).order_by(own.attempt.c.ended_at).limit(most)
    )
    gone: int = connection.execute(sa.delete(own.attempt).where(own.attempt.c.id.in_(old))).rowcount
    gone += connection.execute(sa.delete(own.throughput).where(own.throughput.c.minute < before)).rowcount
    silent = moment(connection.dialect.name, -max(keep, KNOWN_SECONDS))
    gone += connection.execute(sa.delete(own.worker).where(own.worker.c.seen_at < silent)).rowcount
    gone += connection.execute(
        sa.delete(own.words).where(own.words.c.worker.not_in(sa.select(own.worker.c.id)))
    ).rowcount
    return gone + inbox.prune(connection, inbox.own(connection.dialect.name), most)
