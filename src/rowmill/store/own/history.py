"""The history that the engine keeps beside the rows: failed attempts, and rows that could not be claimed."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model.lease import Lease
from rowmill.model.queue import QueueSpec
from rowmill.model.states import Step
from rowmill.store.clock import moment
from rowmill.store.own.schema import own_tables

CLAIM_REFUSED = "claim_refused"
"""The code of a row that the table did not let be claimed. It never began."""


def crashed_keys(connection: Connection, queue: QueueSpec[Any], leases: Sequence[Lease[Any]]) -> set[Any]:
    """Return the keys among these whose last failed attempt at their stage was the death of its worker."""
    by_text = {queue.key_text(lease.key): lease for lease in leases}
    attempt = own_tables(connection.dialect.name).attempt
    rows = connection.execute(
        sa.select(attempt.c.key, attempt.c.stage, attempt.c.code)
        .where(attempt.c.queue == queue.name, attempt.c.key.in_(list(by_text)), attempt.c.code != CLAIM_REFUSED)
        .order_by(attempt.c.id)
    )
    last = {row.key: row for row in rows}
    codes = (queue.crash_codes.requeued, queue.crash_codes.buried)
    return {by_text[key].key for key, row in last.items() if row.code in codes and row.stage == by_text[key].stage}


# served by: the history's index on (queue, key, id)
def last_failed_stages(connection: Connection, queue: QueueSpec[Any], keys: Sequence[str]) -> dict[str, str]:
    """Return the stage of the last failed attempt, by the text of the key."""
    attempt = own_tables(connection.dialect.name).attempt
    rows = connection.execute(
        sa.select(attempt.c.key, attempt.c.stage)
        .where(attempt.c.queue == queue.name, attempt.c.key.in_(list(keys)))
        .order_by(attempt.c.id)
    )
    return {row.key: row.stage for row in rows}


# served by: the history's index on (queue, key, id)
def refused_keys(connection: Connection, queue: QueueSpec[Any], keys: Sequence[str]) -> list[str]:
    """Return the keys whose last entry is that the table did not let them be claimed."""
    attempt = own_tables(connection.dialect.name).attempt
    rows = connection.execute(
        sa.select(attempt.c.key, attempt.c.code)
        .where(attempt.c.queue == queue.name, attempt.c.key.in_(list(keys)))
        .order_by(attempt.c.id)
    )
    last = {row.key: row.code for row in rows}
    return [key for key in keys if last.get(key) == CLAIM_REFUSED]


def note_refused(
    connection: Connection, queue: QueueSpec[Any], step: Step, worker: int, refused: Sequence[tuple[str, str]]
) -> None:
    """Record that the table did not let these rows be claimed: by the text of the key, each with the reason."""
    own, about = own_tables(connection.dialect.name), {"queue": queue.name, "stage": step.name, "worker": worker}
    connection.execute(
        sa.insert(own.attempt).values(ended_at=moment(connection.dialect.name)),
        [about | {"key": key, "attempt": 0, "code": CLAIM_REFUSED, "message": reason} for key, reason in refused],
    )
