"""Find, list, delete and process again documents."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import sqlalchemy as sa

from rowmill_systems.knowledge.errors import DocumentMissing
from rowmill_systems.knowledge.models import HIDDEN, DocumentStatus, KbDocument, KbStatus, KnowledgeBase, OutboxEvent
from rowmill_systems.knowledge.queues import DELETE, REPROCESS, UNFINISHED_EVENTS, add_event
from rowmill_systems.knowledge.rows import all_rows, change_document, lock_document, read_document

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

RECONCILIATION = "reconciliation"
"""The reason of those that the comparison of the stores asks for."""


async def request_deletion(knowledge: "Knowledge", document_id: UUID) -> None:
    """Hide a document, and have an event remove it from all stores. Raises DocumentMissing; idempotent."""
    await knowledge.mill.run(lambda connection: _request_deletion(connection, document_id))


# served by: the primary keys
def _request_deletion(connection: sa.Connection, document_id: UUID) -> None:
    document = lock_document(connection, document_id)
    if document is None:
        raise DocumentMissing(f"there is no document {document_id}")
    if document.status == DocumentStatus.ARCHIVED or is_being_deleted(connection, document):
        return
    event_id = add_event(connection, DELETE, document_id, document_id=str(document_id))
    change_document(
        connection,
        document_id,
        status=DocumentStatus.DELETING,
        generation=KbDocument.generation + 1,
        event_id=event_id,
        stage=None,
    )


# served by: the primary key
def is_being_deleted(connection: sa.Connection, document: KbDocument) -> bool:
    """Tell whether an event that deletes the document is still to be processed. A dead one is not."""
    wanted = sa.select(OutboxEvent.state).where(OutboxEvent.id == document.event_id)
    return document.status == DocumentStatus.DELETING and connection.scalar(wanted) in UNFINISHED_EVENTS


async def request_reprocessing(knowledge: "Knowledge", document_id: UUID, reason: str) -> None:
    """Have a document processed again. Search shows what it had until then. Raises DocumentMissing."""

    def request(connection: sa.Connection) -> None:
        document = read_document(connection, document_id)
        if document is None or document.status in HIDDEN:
            raise DocumentMissing(f"there is no document {document_id}")
        add_reprocess(knowledge, connection, document_id, reason)

    await knowledge.mill.run(request)


def add_reprocess(knowledge: "Knowledge", into: Any, document_id: UUID, reason: str) -> None:
    """Write the event that has a document processed again, in the transaction of a session or connection."""
    payload = {"document_id": str(document_id), "reason": reason}
    knowledge.outbox.add(into, REPROCESS, aggregate_id=document_id, payload=payload)


async def find_document(knowledge: "Knowledge", document_id: UUID) -> KbDocument:
    """Return a document that people see. Raises DocumentMissing."""
    document = await knowledge.mill.run(lambda connection: read_visible(connection, document_id), write=False)
    if document is None:
        raise DocumentMissing(f"there is no document {document_id}")
    return document


# served by: the primary keys
def read_visible(connection: sa.Connection, document_id: UUID) -> KbDocument | None:
    """Return a document if neither it nor its knowledge base is being deleted."""
    wanted = sa.select(KbDocument).join(KnowledgeBase, KnowledgeBase.id == KbDocument.kb_id)
    seen = (KbDocument.status.not_in(HIDDEN), KnowledgeBase.status == KbStatus.ACTIVE)
    return next(iter(all_rows(connection, wanted.where(KbDocument.id == document_id, *seen))), None)


async def list_documents(
    knowledge: "Knowledge",
    kb_id: UUID,
    *,
    status: DocumentStatus | None = None,
    before: tuple[datetime, UUID] | None = None,
    limit: int = 100,
) -> Sequence[KbDocument]:
    """Return a page of the documents of a knowledge base, the latest first, before the one that was created then."""
    return await knowledge.mill.run(
        lambda connection: read_documents(connection, kb_id, status=status, before=before, limit=limit), write=False
    )


# served by: ix_documents_kb
def read_documents(
    connection: sa.Connection,
    kb_id: UUID,
    *,
    status: DocumentStatus | None,
    before: tuple[datetime, UUID] | None,
    limit: int,
) -> Sequence[KbDocument]:
    wanted = sa.select(KbDocument).where(KbDocument.kb_id == kb_id, KbDocument.status.not_in(HIDDEN))
    if status is not None:
        wanted = wanted.where(KbDocument.status == status)
    if before is not None:
        wanted = wanted.where(sa.tuple_(KbDocument.created_at, KbDocument.id) < before)
    return all_rows(connection, wanted.order_by(KbDocument.created_at.desc(), KbDocument.id.desc()).limit(limit))
