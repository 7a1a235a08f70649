"""Have a document processed again."""

from typing import TYPE_CHECKING

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.events.outcomes import aggregate_of
from rowmill_systems.knowledge.logs import log_event
from rowmill_systems.knowledge.models import HIDDEN, DocumentStatus
from rowmill_systems.knowledge.queues import PROCESS, add_event
from rowmill_systems.knowledge.rows import change_document, lock_document

if TYPE_CHECKING:
    from uuid import UUID

    from rowmill_systems.knowledge.knowledge import Knowledge

UNKNOWN_REASON = "unknown"
LONGEST_REASON = 100


async def reprocess_document(knowledge: "Knowledge", event: rm.outbox.Event) -> None:
    """Handle `document.reprocess`: PENDING, error and retries cleared, and `document.process` in one transaction."""
    document_id, reason = aggregate_of(event), UNKNOWN_REASON
    if isinstance(event.payload, dict):
        reason = str(event.payload.get("reason", reason))[:LONGEST_REASON]
    async with event.settling() as session:
        queued = await (await session.connection()).run_sync(lambda c: queue_again(c, document_id))
    name = "document.reprocessed" if queued else "document.skipped"
    log_event(name, document_id=document_id, reason=reason)


# served by: the primary key
def queue_again(connection: sa.Connection, document_id: "UUID") -> bool:
    """Write the event that processes a document, unless it is being deleted. Search shows what it had until then."""
    document = lock_document(connection, document_id)
    if document is None or document.status in HIDDEN:
        return False
    event_id = add_event(connection, PROCESS, document_id, document_id=str(document_id))
    change_document(
        connection,
        document_id,
        status=DocumentStatus.PENDING,
        event_id=event_id,
        stage=None,
        progress_done=0,
        progress_total=None,
        retry_count=0,
        last_error=None,
        error_code=None,
    )
    return True
