"""What the database says of documents, knowledge bases and objects."""

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from rowmill import reconcile
from rowmill_systems.knowledge.consistency.items import ItemInventory
from rowmill_systems.knowledge.consistency.kinds import DOCUMENT_STUCK, KB_STUCK, STALE_PROCESSING
from rowmill_systems.knowledge.models import (
    Chunk,
    DocumentStatus,
    KbDocument,
    KbStatus,
    KnowledgeBase,
    OutboxEvent,
)
from rowmill_systems.knowledge.queues import KB_DELETE, KB_REEMBED, UNFINISHED_EVENTS
from rowmill_systems.knowledge.search.fulltext import CHUNK_TERMS
from rowmill_systems.parts.clock import now

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

Condition = sa.ColumnElement[bool]
AT_REST = (DocumentStatus.READY, DocumentStatus.FAILED, DocumentStatus.ARCHIVED)
"""Statuses in which no run writes passages."""
REEMBEDDING = "reembedding"


def database_inventory(knowledge: "Knowledge") -> ItemInventory:
    """Return the inventory of rows. All that is concluded from the database alone, it concludes itself."""
    dialect, stale = knowledge.mill.url.get_backend_name(), knowledge.settings.stale_minutes * 60
    return ItemInventory(
        document=reconcile.rows(KbDocument, facts=document_facts(dialect, stale), at="at"),
        kb=reconcile.rows(KnowledgeBase, facts=kb_facts(dialect, stale), at="at"),
        object=reconcile.rows(
            KbDocument,
            key=KbDocument.object_key,
            facts={
                "object_of": KbDocument.status,
                "indexed": KbDocument.indexed_generation,
                "at": KbDocument.updated_at,
            },
            where=KbDocument.status != DocumentStatus.ARCHIVED,
            at="at",
        ),
    )


def document_facts(dialect: str, stale: float) -> dict[str, Any]:
    kb_status = sa.case((KnowledgeBase.reembedding, REEMBEDDING), else_=KnowledgeBase.status)
    return {
        "at": changed_at(),
        "status": KbDocument.status,
        "kb_id": KbDocument.kb_id,
        "kb": of_kb(kb_status),
        "kb_model": of_kb(KnowledgeBase.embedding_model),
        "deleted_at": KbDocument.deleted_at,
        "generation": KbDocument.generation,
        "indexed": KbDocument.indexed_generation,
        "chunk_count": KbDocument.chunk_count,
        "model": KbDocument.embedding_model,
        "chunks": indexed_rows(Chunk.__table__),
        "terms": indexed_rows(CHUNK_TERMS),
        "old_chunks": sa.and_(KbDocument.status.in_(AT_REST), has_old_chunks()),
        "stuck": sa.case(
            (is_stale(dialect, stale), STALE_PROCESSING.name), (is_forgotten(dialect, stale), DOCUMENT_STUCK.name)
        ),
    }


def changed_at() -> "sa.ColumnElement[Any]":
    """Return since when the document is in its status, as far as it is known."""
    begun = sa.func.coalesce(KbDocument.processing_started_at, KbDocument.updated_at)
    return sa.case((KbDocument.status == DocumentStatus.PROCESSING, begun), else_=KbDocument.updated_at)


def of_kb(column: Any) -> "sa.ScalarSelect[Any]":
    return sa.select(column).where(KnowledgeBase.id == KbDocument.kb_id).scalar_subquery()


def indexed_rows(table: Any) -> "sa.ScalarSelect[int]":
    """Return how many rows of a table of chunks the visible generation has."""
    of = (table.c.document_id == KbDocument.id, table.c.generation == KbDocument.indexed_generation)
    return sa.select(sa.func.count()).select_from(table).where(*of).scalar_subquery()


def has_old_chunks() -> Condition:
    visible = sa.and_(Chunk.generation == KbDocument.indexed_generation, KbDocument.status != DocumentStatus.ARCHIVED)
    other = sa.not_(sa.func.coalesce(visible, sa.false()))
    return sa.exists().where(Chunk.document_id == KbDocument.id, other).correlate(KbDocument)


def is_stale(dialect: str, seconds: float) -> Condition:
    """Return whether a run goes on for too long. A worker that holds its event and makes progress may take its time."""
    before = now(dialect, -seconds)
    alive = sa.exists().where(
        OutboxEvent.id == KbDocument.event_id,
        OutboxEvent.state == "processing",
        OutboxEvent.leased_until > now(dialect),
    )
    return sa.and_(
        KbDocument.status == DocumentStatus.PROCESSING,
        changed_at() < before,
        sa.or_(KbDocument.updated_at < before, sa.not_(alive.correlate(KbDocument))),
    )


def is_forgotten(dialect: str, seconds: float) -> Condition:
    """Return whether a document waits for an event that is not there. What is deleted with its knowledge base waits for
    that one's event."""
    waiting = sa.exists().where(OutboxEvent.id == KbDocument.event_id, OutboxEvent.state.in_(UNFINISHED_EVENTS))
    return sa.and_(
        KbDocument.status.in_((DocumentStatus.PENDING, DocumentStatus.DELETING)),
        KbDocument.updated_at < now(dialect, -seconds),
        of_kb(KnowledgeBase.status) == KbStatus.ACTIVE,
        sa.not_(waiting.correlate(KbDocument)),
    )


def kb_facts(dialect: str, stale: float) -> dict[str, Any]:
    return {
        "at": KnowledgeBase.updated_at,
        "kb_status": KnowledgeBase.status,
        "reembedding": KnowledgeBase.reembedding,
        "kb_model": KnowledgeBase.embedding_model,
        "kb_dimensions": KnowledgeBase.dimensions,
        "model_since": KnowledgeBase.model_since,
        "stuck": sa.case((is_kb_forgotten(dialect, stale), KB_STUCK.name)),
    }


def is_kb_forgotten(dialect: str, seconds: float) -> Condition:
    """Return whether a knowledge base is to be deleted or embedded again, and no event does it."""
    seen = sa.exists().where(KbDocument.kb_id == KnowledgeBase.id, KbDocument.status != DocumentStatus.ARCHIVED)
    begun = sa.or_(
        KnowledgeBase.status == KbStatus.DELETING,
        sa.and_(KnowledgeBase.status == KbStatus.ACTIVE, KnowledgeBase.reembedding),
        sa.and_(KnowledgeBase.status == KbStatus.ARCHIVED, seen.correlate(KnowledgeBase)),
    )
    waiting = sa.exists().where(
        OutboxEvent.aggregate_id == text_of_id(KnowledgeBase.id, dialect),
        OutboxEvent.event_type.in_((KB_DELETE, KB_REEMBED)),
        OutboxEvent.state.in_(UNFINISHED_EVENTS),
    )
    return sa.and_(KnowledgeBase.updated_at < now(dialect, -seconds), begun, sa.not_(waiting.correlate(KnowledgeBase)))


def text_of_id(column: Any, dialect: str) -> "sa.ColumnElement[str]":
    """Return an id as text with dashes. SQLite stores 32 digits without them."""
    text = sa.cast(column, sa.Text)
    if dialect == "postgresql":
        return text
    parts = [sa.func.substr(text, first, length) for first, length in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))]
    found: sa.ColumnElement[Any] = parts[0]
    for part in parts[1:]:
        found = found + "-" + part
    return found
