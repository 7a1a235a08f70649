"""Delete a document: it is ARCHIVED once every store has confirmed that it has nothing of it."""

from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.errors import StoreDisagrees
from rowmill_systems.knowledge.events.failing import note_error
from rowmill_systems.knowledge.events.fencing import check_lease
from rowmill_systems.knowledge.events.outcomes import aggregate_of, detect_wrong_settings, outcome_of
from rowmill_systems.knowledge.logs import log_event
from rowmill_systems.knowledge.models import HIDDEN, DocumentStatus, KbDocument
from rowmill_systems.knowledge.names import collection_of
from rowmill_systems.knowledge.rows import change_document, lock_document
from rowmill_systems.knowledge.search.chunk_rows import delete_chunks
from rowmill_systems.parts.clock import now

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge


async def delete_document(knowledge: "Knowledge", event: rm.outbox.Event) -> None:
    """Handle `document.delete`.

    A document that is archived already is looked at again: an event may be written by hand, where something was found.
    """
    document_id = aggregate_of(event)
    document = await knowledge.mill.run(lambda connection: hide_document(connection, event, document_id))
    if document is None:
        log_event("document.skipped", document_id=document_id, reason="document_missing")
        return
    try:
        await remove_from_stores(knowledge, document)
        async with event.settling() as session:
            await (await session.connection()).run_sync(lambda c: archive_document(c, document_id))
    except rm.errors.LeaseLost:
        raise
    except Exception as error:
        failure = outcome_of(await detect_wrong_settings(knowledge, error))
        counted = {"retry_count": event.attempt} if failure.count_attempt else {}
        await knowledge.mill.run(lambda c: note_error(c, document_id, failure, **counted))
        raise
    log_event("document.deleted", document_id=document_id)


# served by: the primary key
def hide_document(connection: sa.Connection, event: rm.outbox.Event, document_id: UUID) -> KbDocument | None:
    """Return the document, hidden and fenced. A request for its deletion did this already; plain SQL did not."""
    document = lock_document(connection, document_id)
    check_lease(connection, event)
    if document is not None and document.status not in HIDDEN:
        change_document(
            connection,
            document_id,
            status=DocumentStatus.DELETING,
            generation=document.generation + 1,
            event_id=event.id,
            stage=None,
        )
    return document


async def remove_from_stores(knowledge: "Knowledge", document: KbDocument) -> None:
    """Remove points and bytes. Raises StoreDisagrees if a store has something of the document afterwards."""
    collection = collection_of(document.kb_id)
    await knowledge.vectors.delete(collection, document.id)
    await knowledge.storage.delete(document.object_key)
    if any((await knowledge.vectors.count(collection, document.id)).values()):
        raise StoreDisagrees("the vector store still has points of the document")
    if await knowledge.storage.exists(document.object_key):
        raise StoreDisagrees("the storage still has the document")


# served by: the primary keys
def archive_document(connection: sa.Connection, document_id: UUID) -> None:
    """Delete what the database has of the document's content, and note that it is gone everywhere."""
    delete_chunks(connection, document_id)
    deleted_at = sa.func.coalesce(KbDocument.deleted_at, now(connection.dialect.name))
    change_document(
        connection,
        document_id,
        status=DocumentStatus.ARCHIVED,
        deleted_at=deleted_at,
        indexed_generation=None,
        last_error=None,
        error_code=None,
    )
