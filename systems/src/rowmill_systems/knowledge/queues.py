"""The two queues: events of the outbox, and uploads that may have been abandoned."""

from typing import Any
from uuid import UUID

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.models import KbUpload, OutboxEvent
from rowmill_systems.knowledge.settings import MAX_OUTBOX_ATTEMPTS, KnowledgeSettings

PROCESS, DELETE, REPROCESS = "document.process", "document.delete", "document.reprocess"
SWEEP = "document.sweep"
KB_DELETE, KB_REEMBED = "kb.delete", "kb.reembed"
UNFINISHED_EVENTS = ("pending", "processing", "waiting")
EVENT_TYPES = (PROCESS, DELETE, REPROCESS, SWEEP, KB_DELETE, KB_REEMBED)

RETRY = rm.Retry(attempts=MAX_OUTBOX_ATTEMPTS, backoff=rm.steps(10, 40, 160, 600), jitter=0.2)
"""An outage of ten minutes kills no event."""
REMOVAL_RETRY = rm.Retry(attempts=20, backoff=rm.exponential(30, cap=3600))
"""Over more than half a day: what an upload left is in nobody's way."""
UPLOADS_KEPT = rm.days(7)


def declare_outbox(mill: rm.Mill, settings: KnowledgeSettings) -> rm.outbox.Outbox:
    """Declare the outbox, in order for each document and each knowledge base.

    Plain SQL of operators stays true: `processed_at IS NULL AND attempts < 5` is pending, `attempts >= 5` failed. So
    no handler may give up early (`rm.Dead`, PermanentError): an event is dead only with its attempts used up. A dead
    event does not block later ones: generations make that harmless, and a deletion must not wait for a person.
    """
    return mill.outbox(
        OutboxEvent,
        counts="failures",
        finished_on="done",
        on_dead="skip",
        retry=RETRY,
        lease=settings.lease_seconds,
        concurrency=settings.concurrent_events,
    )


def declare_uploads(mill: rm.Mill) -> rm.Queue[KbUpload]:
    """Declare the queue of uploads. One that is accepted is deleted; one that is not comes due, and is cleaned up."""
    return mill.queue(
        KbUpload,
        columns=rm.Columns(state="state", created_at="created_at", finished_at="finished_at"),
        states=rm.States(ready="open", running="removing", done="removed", dead="failed"),
        retry=REMOVAL_RETRY,
        retention=rm.Retention(done=UPLOADS_KEPT),
    )


def add_event(connection: sa.Connection, event_type: str, aggregate_id: UUID, **payload: Any) -> int:
    """Write an event in the caller's transaction. Return its id."""
    row = {"event_type": event_type, "aggregate_id": str(aggregate_id), "payload": payload}
    insert = sa.insert(OutboxEvent).values(row).returning(OutboxEvent.id)
    return int(connection.execute(insert).scalar_one())


# served by: the index of unfinished events by aggregate
def is_on_its_way(connection: sa.Connection, event_type: str, aggregate_id: UUID) -> bool:
    """Tell whether an event of this type is still to be processed. A dead one is not."""
    unfinished = sa.select(sa.literal(1)).where(
        OutboxEvent.aggregate_id == str(aggregate_id),
        OutboxEvent.event_type == event_type,
        OutboxEvent.state.in_(UNFINISHED_EVENTS),
    )
    return connection.execute(unfinished.limit(1)).first() is not None
