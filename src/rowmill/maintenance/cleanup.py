"""Cleans Rowmill's own tables: receipts are added up to throughput, and old history is deleted.

Every function takes a connection in a transaction.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.schedules.ticks import delete_undeclared, delete_unstarted
from rowmill.store.clock import moment
from rowmill.store.expressions import delete_oldest, insert_of
from rowmill.store.limits import sweeping
from rowmill.store.own.schedule_tables import FINISHED
from rowmill.store.own.schema import own_tables
from rowmill.worker.settings import OwnTableRetention

KNOWN_SECONDS = 86400.0
"""How long a silent worker is kept at least, however short history is kept: it may be cut off, and alive."""
UNANSWERED = 20
"""How many of the last receipts of each queue are kept for a worker that may live: their answers may have been lost."""
TIDY_MOST = 5000
"""The most entries that are deleted at once."""


def roll_up(connection: Connection) -> int:
    """Add receipts older than a minute to the throughput per minute, and delete them. The last receipts of a worker
    that may live are kept: if it was cut off, it asks for them when it is back, and would otherwise take what it wrote
    for lost leases."""
    own = own_tables(connection.dialect.name)
    dialect = connection.dialect.name
    last = _last_receipts(dialect)
    old = connection.execute(
        sa.delete(own.receipt)
        .where(own.receipt.c.at < moment(dialect, -60.0))
        .where(sa.tuple_(own.receipt.c.worker, own.receipt.c.flush).not_in(last))
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


def _last_receipts(dialect: str) -> "sa.Select[Any]":
    """Select the keys of the receipts that a worker may still ask for. Receipts of handlers' own transactions have
    numbers below zero: nobody asks for them later, and they must not push the others out."""
    own = own_tables(dialect)
    receipt, worker = own.receipt.c, own.worker.c
    living = sa.select(worker.id).where(worker.stopped_at.is_(None), worker.seen_at >= moment(dialect, -KNOWN_SECONDS))
    place = sa.func.row_number().over(partition_by=(receipt.worker, receipt.queue), order_by=receipt.at.desc())
    ranked = (
        sa.select(receipt.worker, receipt.flush, place.label("place"))
        .where(receipt.flush > 0, receipt.worker.in_(living))
        .subquery()
    )
    return sa.select(ranked.c.worker, ranked.c.flush).where(ranked.c.place <= UNANSWERED)


def tidy(connection: Connection, keep: float, most: int = TIDY_MOST, *, ages: OwnTableRetention | None = None) -> int:
    """Delete a batch of old rows from Rowmill's own tables; return how many. Failed attempts are kept for `keep`
    seconds, the rest as `ages` says (or the same), and inbox messages until they expire."""
    ages = ages or OwnTableRetention(keep, keep)
    own = own_tables(connection.dialect.name)
    before = moment(connection.dialect.name, -keep)
    attempts = delete_oldest(own.attempt, [own.attempt.c.id], own.attempt.c.ended_at, before, most)
    gone: int = connection.execute(attempts).rowcount
    gone += _tidy_findings(connection, before, most)
    gone += connection.execute(
        sa.delete(own.throughput).where(own.throughput.c.minute < moment(connection.dialect.name, -ages.throughput))
    ).rowcount
    silent = moment(connection.dialect.name, -max(ages.workers, KNOWN_SECONDS))
    gone += connection.execute(sa.delete(own.worker).where(own.worker.c.seen_at < silent)).rowcount
    gone += connection.execute(
        sa.delete(own.words).where(own.words.c.worker.not_in(sa.select(own.worker.c.id)))
    ).rowcount
    gone += sweeping.sweep(connection, most)
    inbox, now = own.inbox, moment(connection.dialect.name)
    messages = delete_oldest(inbox, [inbox.c.consumer, inbox.c.message_id], inbox.c.expires_at, now, most)
    return gone + connection.execute(messages).rowcount


# served by: the index on finished_at of the ticks
def tidy_ticks(connection: Connection, keep: float, most: int = TIDY_MOST) -> int:
    """Delete a batch of ticks that finished `keep` seconds ago, and schedules that no worker declares any more, with
    their coming ticks. Return how many ticks were deleted."""
    dialect = connection.dialect.name
    own = own_tables(dialect)
    gone = delete_undeclared(connection)
    finished: sa.ColumnElement[bool] = sa.literal_column(FINISHED)
    old = sa.and_(finished, own.tick.c.finished_at < moment(dialect, -keep))
    some = sa.select(own.tick.c.id).where(old).order_by(own.tick.c.finished_at).limit(most)
    some = some.with_for_update(skip_locked=True)
    # The condition stands twice: a tick that is put back in between stays.
    gone += connection.execute(sa.delete(own.tick).where(own.tick.c.id.in_(some), old)).rowcount
    unknown = own.schedule.c.kept_at < moment(dialect, -max(keep, KNOWN_SECONDS))
    for name in connection.scalars(sa.delete(own.schedule).where(unknown).returning(own.schedule.c.name)).all():
        gone += delete_unstarted(connection, name)
    return gone


# served by: the indexes on closed_at, and on the names of runs, which are few
def _tidy_findings(connection: Connection, before: "sa.ColumnElement[Any]", most: int) -> int:
    """Delete old closed findings and old runs of reconciliations; the last run of each stays. Return how many."""
    own = own_tables(connection.dialect.name)
    run = own.reconciliation.c
    closed = delete_oldest(own.finding, [own.finding.c.id], own.finding.c.closed_at, before, most)
    gone: int = connection.execute(closed).rowcount
    last = sa.select(sa.func.max(run.id)).group_by(run.name)
    ended = sa.delete(own.reconciliation).where(run.ended_at < before, run.id.not_in(last))
    return gone + connection.execute(ended).rowcount
