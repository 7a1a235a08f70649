"""Replace the vectors of a knowledge base by those of another model.

A collection has vectors of one model, since others must not be compared with them, and of one length. Its name is that
of the knowledge base, so a change of model drops it and makes it anew, under a fence: while `reembedding` is set, no
run begins and none can publish. What search finds by words stays; what it finds by meaning comes back document by
document.
"""

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Literal, assert_never
from uuid import UUID

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.events.beginning import choose_model, may_choose
from rowmill_systems.knowledge.events.fencing import has_model
from rowmill_systems.knowledge.events.outcomes import MODEL_WAIT, aggregate_of
from rowmill_systems.knowledge.events.reprocessing import queue_again
from rowmill_systems.knowledge.events.running import wait_for_runs
from rowmill_systems.knowledge.logs import log_event
from rowmill_systems.knowledge.models import DocumentStatus, KbDocument, KbStatus, KnowledgeBase
from rowmill_systems.knowledge.names import collection_of
from rowmill_systems.knowledge.rows import change_kb, lock_kb

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge
    from rowmill_systems.parts.embeddings.port import Embedder

BATCH_DOCUMENTS = 100
NextStep = Literal["wait", "skip", "replace", "queue"]


async def reembed_kb(knowledge: "Knowledge", event: rm.outbox.Event) -> rm.Outcome | None:
    """Handle `kb.reembed`: drop the collection, make it anew, and have every document processed again."""
    kb_id, embedder, started_at = aggregate_of(event), await knowledge.open_embedder(), knowledge.started_at
    assert started_at is not None, "enter knowledge.opened() before you work"
    next_step = await knowledge.mill.run(lambda c: begin_reembedding(c, event, kb_id, embedder, started_at))
    match next_step:
        case "wait":
            return rm.RetryLater(MODEL_WAIT, "wrong_model", "it is for a worker with that model", count_attempt=False)
        case "skip":
            log_event("kb.skipped", kb_id=kb_id, reason="out_of_date")
            return None
        case "replace":
            if (wait := await wait_for_runs(knowledge, kb_id)) is not None:
                return wait
            await knowledge.vectors.drop(collection_of(kb_id))
            await knowledge.vectors.create(collection_of(kb_id), embedder.dimensions)
            await knowledge.mill.run(lambda c: choose_model(c, kb_id, embedder))
        case "queue":
            pass
        case _:
            assert_never(next_step)
    queued = 0
    while some := await knowledge.mill.run(partial(queue_documents, kb_id=kb_id)):
        queued += some
    log_event("kb.reembedding", kb_id=kb_id, model=embedder.name, documents=queued)
    return None


# served by: the primary key
def begin_reembedding(
    connection: sa.Connection, event: rm.outbox.Event, kb_id: UUID, embedder: "Embedder", started_at: datetime
) -> NextStep:
    """Close the knowledge base to runs, if its vectors are to be replaced. Return what to do next."""
    kb = lock_kb(connection, kb_id)
    if kb is None or kb.status != KbStatus.ACTIVE:
        return "skip"
    payload = event.payload if isinstance(event.payload, dict) else {}
    model, insists = payload.get("model"), payload.get("replace") is True
    # A request for another model than ours: of a newer deployment than we are, or of an older one.
    if model not in (None, embedder.name) and event.created_at is not None and started_at <= event.created_at:
        return "wait"
    if has_model(kb, embedder) and not kb.reembedding and not insists:
        return "queue"
    if not kb.reembedding and not insists and not may_choose(kb, started_at):
        return "skip"
    change_kb(connection, kb_id, reembedding=True)
    return "replace"


# served by: ix_documents_kb_status
def queue_documents(connection: sa.Connection, kb_id: UUID) -> int:
    """Have some of the documents processed again that were indexed before the model was chosen. Return how many."""
    wanted = (
        sa.select(KbDocument.id)
        .join(KnowledgeBase, KnowledgeBase.id == KbDocument.kb_id)
        .where(
            KbDocument.kb_id == kb_id,
            KbDocument.status.in_((DocumentStatus.READY, DocumentStatus.FAILED)),
            KbDocument.indexed_generation.is_not(None),
            KbDocument.processed_at <= KnowledgeBase.model_since,
        )
        .order_by(KbDocument.id)
        .limit(BATCH_DOCUMENTS)
    )
    some = connection.scalars(wanted).all()
    return sum(queue_again(connection, document_id) for document_id in some)
