"""What the stores say of documents, knowledge bases and objects.

A store that fails, or is empty though it should not be, is unreadable: nothing is concluded from what it did not list.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

from rowmill import reconcile
from rowmill_systems.knowledge.consistency.items import Facts, ItemInventory
from rowmill_systems.knowledge.events.sweeping import objects_of_document
from rowmill_systems.knowledge.models import DocumentStatus, KbDocument, KbUpload
from rowmill_systems.knowledge.names import document_of_key, kb_of_collection, kb_of_key
from rowmill_systems.parts.vectors.port import DocumentPoints

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

FEW = 10
"""An empty store is believed if the database knows at most this many documents: it may have lost them. With more, it is
rather another store, or a disk that is not mounted."""
BELIEVE_EMPTY: ContextVar[bool] = ContextVar("BELIEVE_EMPTY", default=False)
"""Whether an empty store is believed in any case."""
UNDER_WAY = ("open", "removing")
"""States of uploads whose objects are not forgotten."""


class StoreInventories:
    """The inventories of the vector store and of the object store."""

    def __init__(self, knowledge: "Knowledge") -> None:
        self._knowledge = knowledge

    def vectors(self) -> ItemInventory:
        return ItemInventory(
            document=reconcile.inventory(self._points, look=self._look_at_points, expects=self._least),
            kb=reconcile.inventory(self._collections, look=self._look_at_collections),
        )

    def objects(self) -> ItemInventory:
        return ItemInventory(
            object=reconcile.inventory(self._objects, look=self._look_at_objects, expects=self._least),
        )

    async def _least(self) -> int:
        """Return how many items a store has to list at least, to be believed."""
        if BELIEVE_EMPTY.get():
            return 0
        some = sa.select(KbDocument.id).where(KbDocument.status == DocumentStatus.READY).limit(FEW + 1)
        known = sa.select(sa.func.count()).select_from(some.subquery())
        ready = await self._knowledge.mill.run(lambda connection: connection.scalar(known), write=False)
        return 1 if (ready or 0) > FEW else 0

    async def _points(self) -> AsyncIterator[tuple[UUID, Facts]]:
        async for found in self._knowledge.vectors.documents():
            yield found.document, facts_of_points(found)

    async def _look_at_points(self, documents: Sequence[UUID]) -> Mapping[UUID, Facts]:
        found = await self._knowledge.vectors.points_of(documents)
        return {document: facts_of_points(points) for document, points in found.items()}

    async def _collections(self) -> AsyncIterator[tuple[UUID, Facts]]:
        async for found in self._knowledge.vectors.collections():
            if (kb_id := kb_of_collection(found.name)) is not None:
                yield kb_id, {"dimensions": found.dimensions}

    async def _look_at_collections(self, kb_ids: Sequence[UUID]) -> Mapping[UUID, Facts]:
        wanted = set(kb_ids)
        return {kb_id: facts async for kb_id, facts in self._collections() if kb_id in wanted}

    async def _objects(self) -> AsyncIterator[tuple[str, Facts]]:
        async for key, facts in self._knowledge.storage.keys():
            if document_of_key(key) is not None:
                yield key, facts

    async def _look_at_objects(self, keys: Sequence[str]) -> Mapping[str, Facts]:
        """Return those of these objects that there are, and whether the database has a row for their documents."""
        documents = {key: document for key in keys if (document := document_of_key(key)) is not None}
        there: dict[str, Facts] = {}
        for document in dict.fromkeys(documents.values()):
            owners = dict.fromkeys(kb for key, each in documents.items() if each == document and (kb := kb_of_key(key)))
            for kb_id in owners:
                there |= await objects_of_document(self._knowledge, kb_id, document)
        known = await self._knowledge.mill.run(lambda c: known_documents(c, documents.values()), write=False)
        uploading = await self._knowledge.mill.run(lambda c: documents_under_way(c, documents.values()), write=False)
        return {
            key: {**there[key], "known": document in known, "uploading": document in uploading}
            for key, document in documents.items()
            if key in there
        }


def facts_of_points(found: DocumentPoints) -> Facts:
    """Return the facts of a document's points, in a form that is stored on disk while the comparison goes on."""
    placed = [[place.collection, place.generation, place.model, count] for place, count in found.counts.items()]
    return {"at": found.at, "points": placed}


# served by: the primary key
def known_documents(connection: sa.Connection, documents: Iterable[UUID]) -> set[UUID]:
    """Return those of these documents that have a row, whatever their status."""
    return set(connection.scalars(sa.select(KbDocument.id).where(KbDocument.id.in_(set(documents)))))


# served by: the whole table, which has a row for each upload that is under way
def documents_under_way(connection: sa.Connection, documents: Iterable[UUID]) -> set[UUID]:
    """Return those of these documents that are being uploaded, or whose upload is being cleaned up."""
    wanted = sa.select(KbUpload.document_id).where(KbUpload.document_id.in_(set(documents)))
    return set(connection.scalars(wanted.where(KbUpload.state.in_(UNDER_WAY))))
