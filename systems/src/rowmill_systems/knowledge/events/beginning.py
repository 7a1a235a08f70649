"""Begin to process a document: a new run gets a new generation, a further attempt resumes."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.errors import ModelDiffers
from rowmill_systems.knowledge.events.fencing import RunFence, check_lease, has_model
from rowmill_systems.knowledge.models import HIDDEN, DocumentStatus, KbDocument, KbStatus, KnowledgeBase
from rowmill_systems.knowledge.queues import KB_REEMBED, add_event, is_on_its_way
from rowmill_systems.knowledge.rows import change_document, change_kb, lock_document, lock_kb, read_document, read_kb
from rowmill_systems.parts.clock import now
from rowmill_systems.parts.database import in_utc
from rowmill_systems.parts.embeddings.port import Embedder

READING, EMBEDDING = "reading", "embedding"


@dataclass(frozen=True, slots=True)
class DocumentRun:
    """A run that began: what it writes is fenced, and this is where it goes on."""

    fence: RunFence
    document: KbDocument
    """As it was when the attempt began."""

    @property
    def chunks_stored(self) -> bool:
        return self.document.stage == EMBEDDING

    @property
    def published(self) -> bool:
        """Whether an earlier attempt got as far as that."""
        return self.document.status == DocumentStatus.READY


# served by: the primary keys
def begin_run(
    connection: sa.Connection, event: rm.outbox.Event, document_id: UUID, embedder: Embedder, started_at: datetime
) -> DocumentRun | str | ModelDiffers:
    """Begin an attempt. Return why there is nothing to do, if so; ModelDiffers if it has to wait."""
    found = read_document(connection, document_id)
    if found is None:
        return "document_missing"
    kb = lock_for_run(connection, found.kb_id)
    document = lock_document(connection, document_id)
    if document is None or kb is None:
        return "document_missing"
    check_lease(connection, event)
    if document.status in HIDDEN or kb.status != KbStatus.ACTIVE:
        return "deleted"
    if document.event_id is not None and document.event_id > event.id:
        return "superseded"
    if (differs := check_kb_model(connection, kb, embedder, started_at)) is not None:
        change_document(connection, document_id, last_error=str(differs), error_code=differs.code, progress_done=0)
        return differs
    same_event = document.event_id == event.id
    if same_event and document.status == DocumentStatus.READY:
        return run_of(event, document)
    values: dict[str, object] = {
        "status": DocumentStatus.PROCESSING,
        "processing_started_at": now(connection.dialect.name),
        "retry_count": event.attempt - 1,
    }
    if not (same_event and document.status == DocumentStatus.PROCESSING):
        values |= new_run(document.generation + 1, event.id)
    change_document(connection, document_id, **values)
    begun = read_document(connection, document_id)
    assert begun is not None
    return run_of(event, begun)


def run_of(event: rm.outbox.Event, document: KbDocument) -> DocumentRun:
    return DocumentRun(RunFence(event, document.id, document.kb_id, document.generation), document)


def new_run(generation: int, event_id: int) -> dict[str, object]:
    return {
        "generation": generation,
        "event_id": event_id,
        "stage": READING,
        "progress_done": 0,
        "progress_total": None,
        "last_error": None,
        "error_code": None,
    }


# served by: the primary key
def lock_for_run(connection: sa.Connection, kb_id: UUID) -> KnowledgeBase | None:
    """Lock the knowledge base: exclusively if its model may have to be chosen, since two that share a lock and both
    want it alone wait for each other."""
    kb = read_kb(connection, kb_id)
    return lock_kb(connection, kb_id, shared=kb is not None and kb.embedding_model is not None)


# served by: the primary key
def check_kb_model(
    connection: sa.Connection, kb: KnowledgeBase, embedder: Embedder, started_at: datetime
) -> ModelDiffers | None:
    """Return an error if the vectors of the knowledge base are of another model. The first run chooses the model."""
    if kb.reembedding:
        if not is_on_its_way(connection, KB_REEMBED, kb.id):  # the one that began it is dead
            add_event(connection, KB_REEMBED, kb.id, kb_id=str(kb.id))
        return ModelDiffers("the vectors of the knowledge base are being replaced by those of another model")
    if kb.embedding_model is None:
        choose_model(connection, kb.id, embedder)
        return None
    if has_model(kb, embedder):
        return None
    if may_choose(kb, started_at) and not is_on_its_way(connection, KB_REEMBED, kb.id):
        add_event(connection, KB_REEMBED, kb.id, kb_id=str(kb.id), model=embedder.name)
    return ModelDiffers(
        f"the knowledge base has vectors of {kb.embedding_model}, and this worker makes {embedder.name}"
    )


def may_choose(kb: KnowledgeBase, started_at: datetime) -> bool:
    """Tell whether a process that started then may choose another model. Otherwise the workers of an old and of a new
    deployment would embed everything again and again, in turns."""
    return kb.model_since is None or started_at > in_utc(kb.model_since)


# served by: the primary key
def choose_model(connection: sa.Connection, kb_id: UUID, embedder: Embedder) -> None:
    change_kb(
        connection,
        kb_id,
        embedding_model=embedder.name,
        dimensions=embedder.dimensions,
        model_since=now(connection.dialect.name),
        reembedding=False,
    )
