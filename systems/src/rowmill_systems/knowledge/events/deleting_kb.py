"""Delete a knowledge base with all of its documents, once every store has confirmed that it has nothing of it."""

from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.errors import StoreDisagrees
from rowmill_systems.knowledge.events.deleting import archive_document
from rowmill_systems.knowledge.events.outcomes import aggregate_of
from rowmill_systems.knowledge.events.running import wait_for_runs
from rowmill_systems.knowledge.logs import log_event
from rowmill_systems.knowledge.models import HIDDEN, DocumentStatus, KbDocument, KbStatus
from rowmill_systems.knowledge.names import collection_of, owner_of
from rowmill_systems.knowledge.rows import change_kb, lock_kb
from rowmill_systems.parts.clock import now

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

BATCH_DOCUMENTS = 100


async def delete_kb(knowledge: "Knowledge", event: rm.outbox.Event) -> rm.Outcome | None:
    """Handle `kb.delete`. One that is archived already is looked at again."""
    kb_id = aggregate_of(event)
    if not await knowledge.mill.run(lambda connection: hide_kb(connection, kb_id)):
        log_event("kb.skipped", kb_id=kb_id, reason="kb_missing")
        return None
    while await knowledge.mill.run(partial(hide_documents, kb_id=kb_id)):
        pass
    # Runs that began before end soon: they see that their documents are being deleted.
    if (wait := await wait_for_runs(knowledge, kb_id)) is not None:
        return wait
    dropped = await drop_collection(knowledge, collection_of(kb_id))
    files = await delete_objects(knowledge, owner_of(kb_id))
    while await knowledge.mill.run(partial(archive_documents, kb_id=kb_id)):
        pass
    async with event.settling() as session:
        documents = await (await session.connection()).run_sync(partial(archive_kb, event=event, kb_id=kb_id))
    log_event(
        "kb.deleted", kb_id=kb_id, document_count=documents, vector_collection_deleted=dropped, files_deleted=files
    )
    return None


# served by: the primary key
def hide_kb(connection: sa.Connection, kb_id: UUID) -> bool:
    """Hide the knowledge base: from now on nothing is uploaded to it and no run begins. Return whether there is one."""
    kb = lock_kb(connection, kb_id)
    if kb is not None and kb.status == KbStatus.ACTIVE:
        change_kb(connection, kb_id, status=KbStatus.DELETING)
    return kb is not None


# served by: ix_documents_kb_status
def hide_documents(connection: sa.Connection, kb_id: UUID) -> int:
    """Hide and fence some of the documents that are still seen. Return how many."""
    seen = sa.select(KbDocument.id).where(KbDocument.kb_id == kb_id, KbDocument.status.not_in(HIDDEN))
    some = connection.scalars(seen.limit(BATCH_DOCUMENTS).with_for_update()).all()
    values = {"status": DocumentStatus.DELETING, "generation": KbDocument.generation + 1, "stage": None}
    changed_at = now(connection.dialect.name)
    connection.execute(sa.update(KbDocument).where(KbDocument.id.in_(some)).values(values | {"updated_at": changed_at}))
    return len(some)


async def drop_collection(knowledge: "Knowledge", collection: str) -> bool:
    """Drop the collection. Return whether there was one. Raises StoreDisagrees if there still is."""
    dropped = await knowledge.vectors.drop(collection)
    if await knowledge.vectors.drop(collection):
        raise StoreDisagrees("the vector store had a collection that it had dropped")
    return dropped


async def delete_objects(knowledge: "Knowledge", owner: str) -> int:
    """Delete all objects of the knowledge base. Return how many. Raises StoreDisagrees if there still are some."""
    deleted = 0
    async for key, _ in knowledge.storage.keys(owner):
        await knowledge.storage.delete(key)
        deleted += 1
    async for _ in knowledge.storage.keys(owner):
        raise StoreDisagrees("the storage still has objects of the knowledge base")
    return deleted


# served by: ix_documents_kb_status
def archive_documents(connection: sa.Connection, kb_id: UUID) -> int:
    """Archive some of the documents. Return how many."""
    hidden = sa.select(KbDocument.id).where(KbDocument.kb_id == kb_id, KbDocument.status == DocumentStatus.DELETING)
    some = connection.scalars(hidden.order_by(KbDocument.id).limit(BATCH_DOCUMENTS).with_for_update()).all()
    for document_id in some:
        archive_document(connection, document_id)
    return len(some)


# served by: ix_documents_kb_status, the primary key
def archive_kb(connection: sa.Connection, event: rm.outbox.Event, kb_id: UUID) -> int:
    """Note that the knowledge base is gone everywhere. Return how many documents went with it."""
    deleted_at = now(connection.dialect.name)
    change_kb(connection, kb_id, status=KbStatus.ARCHIVED, deleted_at=deleted_at, embedding_model=None, dimensions=None)
    since = KbDocument.deleted_at >= event.created_at
    archived = sa.select(sa.func.count()).where(KbDocument.kb_id == kb_id, KbDocument.status == DocumentStatus.ARCHIVED)
    return int(connection.execute(archived.where(since)).scalar_one())
