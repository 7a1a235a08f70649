"""Wait until no run of a knowledge base is going on, before its collection is dropped."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.models import KbDocument, OutboxEvent
from rowmill_systems.knowledge.queues import PROCESS

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

LOOKS, LOOK_SECONDS = 10, 0.2
RUNS_WAIT = 1.0


async def wait_for_runs(knowledge: "Knowledge", kb_id: UUID) -> rm.RetryLater | None:
    """Wait a moment for runs of a knowledge base that no run may begin in any more. Return the outcome of an event that
    has to wait longer, or None.

    Those that are claimed meanwhile find out and end at once: only those of the first look count.
    """
    going = await knowledge.mill.run(partial(runs_of, kb_id=kb_id), write=False)
    for _ in range(LOOKS):
        if not going:
            return None
        await asyncio.sleep(LOOK_SECONDS)
        going &= await knowledge.mill.run(partial(runs_of, kb_id=kb_id), write=False)
    return rm.RetryLater(RUNS_WAIT, "runs_end_first", count_attempt=False) if going else None


# served by: the index of running events, the primary key
def runs_of(connection: sa.Connection, kb_id: UUID) -> set[tuple[int, int]]:
    """Return the events, each with its lease, by which workers process documents of a knowledge base just now."""
    running = sa.select(OutboxEvent.id, OutboxEvent.lease, OutboxEvent.aggregate_id).where(
        OutboxEvent.state == "processing", OutboxEvent.event_type == PROCESS
    )
    found = {(row.id, row.lease): id for row in connection.execute(running) if (id := _id_of(row.aggregate_id))}
    documents = sa.select(KbDocument.id).where(KbDocument.id.in_(found.values()), KbDocument.kb_id == kb_id)
    ours = set(connection.scalars(documents))
    return {run for run, document_id in found.items() if document_id in ours}


def _id_of(aggregate_id: str | None) -> UUID | None:
    try:
        return UUID(str(aggregate_id))
    except ValueError:
        return None
