"""Wait until no run of a knowledge base is going on, before its collection is dropped."""

from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.models import KbDocument, OutboxEvent
from rowmill_systems.knowledge.queues import PROCESS

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

RUNS_WAIT = 1.0


async def wait_for_runs(knowledge: "Knowledge", kb_id: UUID) -> rm.RetryLater | None:
    """Return the outcome of an event that has to wait for runs of the knowledge base; None if there are none."""
    running = await knowledge.mill.run(lambda connection: count_runs(connection, kb_id), write=False)
    return rm.RetryLater(RUNS_WAIT, "runs_end_first", count_attempt=False) if running else None


# served by: the index of running events, the primary key
def count_runs(connection: sa.Connection, kb_id: UUID) -> int:
    """Count the documents of a knowledge base that a worker processes just now."""
    leased = sa.select(OutboxEvent.aggregate_id).where(
        OutboxEvent.state == "processing", OutboxEvent.event_type == PROCESS
    )
    ids = [UUID(text) for text in connection.scalars(leased) if _is_id(text)]
    wanted = sa.select(sa.func.count()).where(KbDocument.id.in_(ids), KbDocument.kb_id == kb_id)
    return int(connection.execute(wanted).scalar_one()) if ids else 0


def _is_id(text: str | None) -> bool:
    try:
        UUID(str(text))
    except ValueError:
        return False
    return True
