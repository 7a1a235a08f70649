"""The fleet: workers register, send heartbeats, elect a leader, and agree on state words.

Every function takes a connection in a transaction.
"""

import json
import os
import socket
from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from rowmill.model.errors import DeclarationError
from rowmill.model.queue import QueueSpec
from rowmill.store.clock import moment
from rowmill.store.expressions import insert_of
from rowmill.store.own.schema import full_name, own_tables
from rowmill.store.port import Heartbeat
from rowmill.store.postgres.wakeup import WAKE_LOCK
from rowmill.store.queue_sql import QueueSql

ALIVE_SECONDS = 30.0


def register(connection: Connection, queues: Sequence[QueueSpec[Any]]) -> int:
    """Register a worker; return its number, which no other ever had."""
    own = own_tables(connection.dialect.name)
    now = moment(connection.dialect.name)
    number: int = connection.execute(
        sa.insert(own.worker)
        .values(
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=", ".join(queue.name for queue in queues),
            started_at=now,
            seen_at=now,
        )
        .returning(own.worker.c.id)
    ).scalar_one()
    return number


def join(connection: Connection, queues: Sequence[QueueSql]) -> int:
    """Register a worker, and check that its state words agree with those of the others."""
    number = register(connection, [one.queue for one in queues])
    for one in queues:
        agree_on_words(connection, one, number)
    return number


def record_heartbeat(connection: Connection, worker: int, settle_lag: str | None = None) -> set[tuple[str, str]] | None:
    """Record a heartbeat, with what could not be written. Return what is paused as (queue, stage), with an empty stage
    for the whole queue. Return None if the database does not know this worker: it was set back, by a failover to a
    standby that was behind, or from a backup."""
    own = own_tables(connection.dialect.name)
    now = moment(connection.dialect.name)
    sign = sa.update(own.worker).where(own.worker.c.id == worker).values(seen_at=now, settle_lag=settle_lag)
    known = connection.execute(sign)
    if not known.rowcount:
        return None
    return {(row.queue, row.stage) for row in connection.execute(sa.select(own.pause.c.queue, own.pause.c.stage))}


# served by: the primary key
def living(connection: Connection, workers: Collection[int], *, within: float | None) -> set[int]:
    """Return which of these workers have not signed off and, if given, were seen `within` so many seconds."""
    if not workers:
        return set()
    table = own_tables(connection.dialect.name).worker
    query = sa.select(table.c.id).where(table.c.id.in_(sorted(workers)), table.c.stopped_at.is_(None))
    if within is not None:
        query = query.where(table.c.seen_at >= moment(connection.dialect.name, -within))
    return set(connection.scalars(query))


def heartbeat(
    connection: Connection, worker: int, leadership: str, seconds: float, settle_lag: str | None
) -> Heartbeat | None:
    """Record a heartbeat, and try to lead. Return None if the database does not know this worker."""
    paused = record_heartbeat(connection, worker, settle_lag)
    return None if paused is None else Heartbeat(paused, lead(connection, worker, seconds, leadership))


def sign_off(connection: Connection, worker: int) -> None:
    own = own_tables(connection.dialect.name)
    now = moment(connection.dialect.name)
    connection.execute(
        sa.update(own.worker).where(own.worker.c.id == worker).values(seen_at=now, stopped_at=now, settle_lag=None)
    )
    connection.execute(sa.delete(own.leader).where(own.leader.c.worker == worker))
    connection.execute(sa.delete(own.words).where(own.words.c.worker == worker))


def lead(connection: Connection, worker: int, seconds: float, name: str = "upkeep") -> bool:
    """Try to become or stay the leader. One row and the database's clock decide; each statement may commit by
    itself."""
    own = own_tables(connection.dialect.name)
    dialect = connection.dialect.name
    taken = connection.execute(
        sa.update(own.leader)
        .where(own.leader.c.name == name)
        .where(sa.or_(own.leader.c.worker == worker, own.leader.c.until < moment(dialect)))
        .values(worker=worker, until=moment(dialect, seconds))
    ).rowcount
    if taken:
        return True
    if connection.scalar(sa.select(own.leader.c.worker).where(own.leader.c.name == name)) is not None:
        return False
    first = insert_of(dialect)(own.leader).values(name=name, worker=worker, until=moment(dialect, seconds))
    return connection.execute(first.on_conflict_do_nothing()).rowcount == 1


def agree_on_words(connection: Connection, sql: QueueSql, worker: int) -> None:
    """Refuse to start beside a living worker that declares other state words for the same table: each would not know
    the other's states."""
    own, queue = own_tables(connection.dialect.name), sql.queue
    ours = json.dumps(_words_of(sql), sort_keys=True)
    name = full_name(queue.table, connection.dialect.name)
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(WAKE_LOCK, 1)))  # two may start at once
    found = connection.execute(
        sa.select(own.words.c.queue, own.words.c.words, own.worker.c.id, own.worker.c.host, own.worker.c.pid)
        .join_from(own.words, own.worker, own.worker.c.id == own.words.c.worker)
        .where(own.words.c.table_name == name, own.words.c.words != ours, own.worker.c.stopped_at.is_(None))
        .where(own.worker.c.seen_at > moment(connection.dialect.name, -ALIVE_SECONDS))
    ).first()
    if found is not None:
        raise DeclarationError(
            queue.name,
            [
                f"worker {found.id} ({found.host}, process {found.pid}) works on table {name} as queue {found.queue} "
                f"with other words: {found.words} there, {ours} here. "
                "Use the same words in both, or stop that worker first"
            ],
        )
    connection.execute(sa.insert(own.words).values(table_name=name, queue=queue.name, words=ours, worker=worker))


def _words_of(sql: QueueSql) -> dict[str, list[str]]:
    """Return every meaning with its words, as they are stored in the table."""
    found: dict[str, list[str]] = {}
    for word, meaning in sql.queue.vocabulary.meanings():
        found.setdefault(meaning, []).append(sql.word(word).strip("'"))
    return found


WHOLE = ""
"""The stage of a pause that is for all stages."""


def pause(connection: Connection, queue: QueueSpec[Any], stage: str | None = None) -> bool:
    """Stop claims of a queue, or of one of its stages. Running rows finish. Return whether it was not paused before."""
    own = own_tables(connection.dialect.name).pause
    new = sa.insert(own).values(queue=queue.name, stage=stage or WHOLE, since=moment(connection.dialect.name))
    try:
        with connection.begin_nested():
            connection.execute(new)
    except IntegrityError:
        return False
    return True


def resume(connection: Connection, queue: QueueSpec[Any], stage: str | None = None) -> int:
    """Resume one stage, or a queue and all of its stages. Return how many pauses ended."""
    own = own_tables(connection.dialect.name).pause
    ended = sa.delete(own).where(own.c.queue == queue.name)
    if stage is not None:
        ended = ended.where(own.c.stage == stage)
    count: int = connection.execute(ended).rowcount
    return count


def paused(connection: Connection, queue: QueueSpec[Any]) -> dict[str, Any]:
    """Return what is paused of a queue, and since when. The stage is empty for the whole queue."""
    own = own_tables(connection.dialect.name).pause
    rows = connection.execute(sa.select(own.c.stage, own.c.since).where(own.c.queue == queue.name))
    return {row.stage: row.since for row in rows}
