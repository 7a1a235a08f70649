"""Remove what no one can see of a document: points, chunks and objects that its row proves to be obsolete.

The event is in the order of its document: no run of it goes on meanwhile. What a run may still show is left alone, also
if it is a run that lost its lease and does not know it yet.
"""

from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.events.fencing import check_lease
from rowmill_systems.knowledge.events.outcomes import aggregate_of
from rowmill_systems.knowledge.logs import log_event
from rowmill_systems.knowledge.models import DocumentStatus, KbDocument
from rowmill_systems.knowledge.names import collection_of, document_of_key, kb_of_collection, owner_of
from rowmill_systems.knowledge.rows import lock_document
from rowmill_systems.knowledge.search.chunk_rows import delete_chunks
from rowmill_systems.parts.objects.port import Facts

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

IN_HAND = (DocumentStatus.PENDING, DocumentStatus.PROCESSING)
AT_WORK = (*IN_HAND, DocumentStatus.DELETING)
"""Statuses in which the document's own event removes passages and objects."""


async def sweep_document(knowledge: "Knowledge", event: rm.outbox.Event) -> None:
    """Handle `document.sweep`. Idempotent."""
    document_id = aggregate_of(event)
    # The points first, the row afterwards: a point of a generation that the row has not reached can't be a run's.
    found = (await knowledge.vectors.points_of([document_id])).get(document_id)
    document = await knowledge.mill.run(lambda connection: read_to_sweep(connection, event, document_id))
    if document is None:
        log_event("document.skipped", document_id=document_id, reason="document_missing")
        return
    points = 0
    for place in found.counts if found is not None else ():
        if kb_of_collection(place.collection) is not None and is_obsolete(
            document.status, document.kb_id, document.generation, document.indexed_generation,
            place.collection, place.generation,
        ):  # fmt: skip
            points += await knowledge.vectors.delete(place.collection, document_id, generation=place.generation)
    objects = 0 if document.status in AT_WORK else await sweep_objects(knowledge, document)
    async with event.settling() as session:
        chunks = await (await session.connection()).run_sync(lambda c: sweep_chunks(c, document_id))
    log_event("document.swept", document_id=document_id, points=points, objects=objects, chunks=chunks)


def is_obsolete(status: str, kb_id: UUID, latest: int, indexed: int | None, collection: str, generation: int) -> bool:
    """Return whether points can't be seen, now or ever. A run may still show its own, those of the latest
    generation."""
    if status == DocumentStatus.ARCHIVED or collection != collection_of(kb_id):
        return True
    return generation != indexed and not (generation == latest and status in IN_HAND)


# served by: the primary key
def read_to_sweep(connection: sa.Connection, event: rm.outbox.Event, document_id: UUID) -> KbDocument | None:
    document = lock_document(connection, document_id)
    check_lease(connection, event)
    return document


async def sweep_objects(knowledge: "Knowledge", document: KbDocument) -> int:
    """Delete the objects of a document, other than the one that it names. Return how many."""
    archived = document.status == DocumentStatus.ARCHIVED
    listed = await objects_of_document(knowledge, document.kb_id, document.id)
    obsolete = [key for key in listed if archived or key != document.object_key]
    for key in obsolete:
        await knowledge.storage.delete(key)
    return len(obsolete)


async def objects_of_document(knowledge: "Knowledge", kb_id: UUID, document_id: UUID) -> dict[str, Facts]:
    """Return all objects under the keys of a document."""
    listed = knowledge.storage.keys(owner_of(kb_id), str(document_id))
    return {key: facts async for key, facts in listed if document_of_key(key) == document_id}


# served by: the primary keys
def sweep_chunks(connection: sa.Connection, document_id: UUID) -> int:
    """Delete the chunks that search does not show. Return how many."""
    document = lock_document(connection, document_id)
    if document is None or document.status in AT_WORK:
        return 0
    if document.status == DocumentStatus.ARCHIVED or document.indexed_generation is None:
        return delete_chunks(connection, document_id)
    return delete_chunks(connection, document_id, other_than=document.indexed_generation)
