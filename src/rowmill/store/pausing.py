"""Queues and stages that are paused. Workers read it with each sign of life and claim no rows of them."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from rowmill.model.queue import Queue
from rowmill.store.moment import moment
from rowmill.store.schema import own_tables

WHOLE = ""
"""In place of a stage: all of them."""


def pause(connection: Connection, queue: Queue[Any], stage: str | None = None) -> bool:
    """Claim no more rows of a queue, or of one of its stages; answers whether that is new. Running rows finish."""
    own = own_tables(connection.dialect.name).pause
    new = sa.insert(own).values(queue=queue.name, stage=stage or WHOLE, since=moment(connection.dialect.name))
    try:
        with connection.begin_nested():
            connection.execute(new)
    except IntegrityError:
        return False
    return True


def resume(connection: Connection, queue: Queue[Any], stage: str | None = None) -> int:
    """Go on: with one stage, or with the queue and all of its stages; answers how many pauses ended."""
    own = own_tables(connection.dialect.name).pause
    ended = sa.delete(own).where(own.c.queue == queue.name)
    if stage is not None:
        ended = ended.where(own.c.stage == stage)
    count: int = connection.execute(ended).rowcount
    return count


def paused(connection: Connection, queue: Queue[Any]) -> dict[str, Any]:
    """What is paused of a queue, and since when; the stage is empty where it is the whole queue."""
    own = own_tables(connection.dialect.name).pause
    rows = connection.execute(sa.select(own.c.stage, own.c.since).where(own.c.queue == queue.name))
    return {row.stage: row.since for row in rows}
