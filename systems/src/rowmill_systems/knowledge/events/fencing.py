"""Keep runs that are out of date from writing anything that is seen.

A run writes to the database only in transactions that lock its document first, and then find that the event is still
leased to it and that its generation is still the latest. What it writes to the other stores carries its generation.
"""

from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.errors import EventSuperseded, ModelDiffers
from rowmill_systems.knowledge.models import DocumentStatus, KbDocument, KbStatus, KnowledgeBase, OutboxEvent
from rowmill_systems.knowledge.rows import lock_document, lock_kb
from rowmill_systems.parts.embeddings.port import Embedder


@dataclass(frozen=True, slots=True)
class RunFence:
    """The right of one attempt to write one generation of a document."""

    event: rm.outbox.Event
    document_id: UUID
    kb_id: UUID
    generation: int

    def check(self, connection: sa.Connection) -> KbDocument:
        """Lock the document and return it. Raises EventSuperseded if there is a later generation, which nothing of this
        run can become again; LeaseLost if another attempt has taken over the same generation."""
        document = lock_document(connection, self.document_id)
        if document is None or document.generation != self.generation:
            raise EventSuperseded("the document has a later run, or is being deleted")
        check_lease(connection, self.event)
        if document.status != DocumentStatus.PROCESSING:
            raise rm.errors.LeaseLost("the document is no longer being processed; nothing was written")
        return document

    def check_model(self, connection: sa.Connection, embedder: Embedder) -> KbDocument:
        """`check`, with the knowledge base locked before. Raises ModelDiffers if its vectors are of another model."""
        kb = lock_kb(connection, self.kb_id, shared=True)
        document = self.check(connection)
        if kb is None or kb.status != KbStatus.ACTIVE:
            raise EventSuperseded("the knowledge base is being deleted")
        if kb.reembedding or not has_model(kb, embedder):
            raise ModelDiffers(f"the knowledge base has vectors of {kb.embedding_model}, and not of {embedder.name}")
        return document


# served by: the primary key
def check_lease(connection: sa.Connection, event: rm.outbox.Event) -> None:
    """Raise LeaseLost if another worker has the event by now. Call it with the event's document locked: then the
    attempt that has the event begins after this transaction."""
    held = sa.select(sa.literal(1)).where(OutboxEvent.id == event.id, OutboxEvent.lease == event.lease.token)
    if connection.execute(held).first() is None:
        raise rm.errors.LeaseLost("another worker has the event now; nothing was written")


def has_model(kb: KnowledgeBase, embedder: Embedder) -> bool:
    """Tell whether the vectors of a knowledge base are those of this model."""
    return (kb.embedding_model, kb.dimensions) == (embedder.name, embedder.dimensions)
