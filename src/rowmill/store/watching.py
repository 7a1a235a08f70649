"""What a watcher sees of a queue: a few reads that stay cheap on big tables."""

from sqlalchemy import Connection

from rowmill.model.alerts import Alerts, Seen
from rowmill.model.lifecycle import DIE
from rowmill.store import activity, counts
from rowmill.store.counts import How
from rowmill.store.terms import Terms

LATELY = 3600.0
"""Seconds over which the dead are counted."""
DAY = 86400.0


# served by: the ready index, the throughput's primary key, the history's index on ended_at; workers are few
def see(connection: Connection, terms: Terms, limits: Alerts) -> Seen:
    """Only what is asked about is looked at."""
    queue = terms.queue
    backlog, died = 0, 0
    unattended: float | None = None
    if limits.backlog is not None:
        depth = counts.depth(connection, terms, limits.backlog)
        backlog = depth.rows + (depth.count is How.CAPPED)
    if limits.died is not None:
        minutes = activity.throughput(connection, queue, int(LATELY // 60))
        died = sum(minute.moves.get(DIE.name, 0) for minute in minutes)
        died += activity.failures(connection, queue, LATELY).codes.get(queue.crash.buried, 0)  # by a rescue
    if limits.unattended is not None:
        known = activity.workers(connection, within=max(DAY, limits.unattended))
        unattended = min((worker.seen_seconds_ago for worker in known if queue.name in worker.queues), default=None)
    unwritten = _unwritten(connection, queue.name) if limits.unwritten is not None else None
    oldest = activity.oldest_ready(connection, terms) if limits.oldest is not None else None
    return Seen(backlog, oldest, died, unattended, unwritten)


def _unwritten(connection: Connection, queue: str) -> float | None:
    """For how long a living worker has not been able to write what it has finished."""
    lags = [one.settle_lags[queue] for one in activity.workers(connection) if one.alive and queue in one.settle_lags]
    return max((lag.seconds for lag in lags if lag.rows), default=None)
