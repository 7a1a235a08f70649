"""Everything that is known at the end of a run: what was said, and what each store has, read without reconciliation."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import sqlalchemy as sa

import rowmill as rm
from faults.knowledge import ledger
from faults.knowledge.ledger import Said
from faults.knowledge.witness import EventTurn, Turn, read_event_turns, read_turns
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import Chunk, KbDocument, KbStatus, KbUpload, KnowledgeBase, OutboxEvent
from rowmill_systems.knowledge.names import kb_of_collection
from rowmill_systems.knowledge.search.fulltext import CHUNK_TERMS
from rowmill_systems.knowledge.search.searching import search

SEARCHES = 200
"""Words that are searched for: as many of documents that are there as of deleted ones."""
HITS = 20


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """The row of a document."""

    id: UUID
    kb: UUID
    status: str
    generation: int
    indexed: int | None
    chunk_count: int | None
    object_key: str
    retry_count: int
    event: int | None
    is_marked_deleted: bool
    """Whether `deleted_at` is set."""


@dataclass(frozen=True, slots=True)
class EventFacts:
    """The row of an event."""

    id: int
    type: str
    state: str
    attempts: int
    is_processed: bool
    """Whether `processed_at` is set."""


PointPlace = tuple[UUID, UUID, int]
"""Knowledge base of the collection, document, generation."""
ChunkPlace = tuple[UUID, int]
"""Document, generation."""


@dataclass
class Facts:
    said: Sequence[Said] = ()
    kbs: Mapping[UUID, str] = field(default_factory=dict)
    """Statuses."""
    documents: Mapping[UUID, DocumentFacts] = field(default_factory=dict)
    events: Mapping[int, EventFacts] = field(default_factory=dict)
    chunks: Mapping[ChunkPlace, int] = field(default_factory=dict)
    terms: Mapping[ChunkPlace, int] = field(default_factory=dict)
    points: Mapping[PointPlace, int] = field(default_factory=dict)
    collections: frozenset[UUID] = frozenset()
    """Knowledge bases that have one."""
    objects: Mapping[str, bool] = field(default_factory=dict)
    """Keys, and whether the bytes are those that were stored."""
    uploads: Mapping[str, int] = field(default_factory=dict)
    """Uploads by state."""
    turns: Sequence[Turn] = ()
    event_turns: Sequence[EventTurn] = ()
    found: Mapping[str, Mapping[UUID, str]] = field(default_factory=dict)
    """What a search for a word found: documents, and whether by words, by meaning or both."""
    left: int = 0
    """Findings of the last comparison, after one that mended."""


async def collect(knowledge: Knowledge, folder: Path, seed: int) -> Facts:
    """Read all stores to their end."""
    facts = await knowledge.mill.run(read_rows, write=False)
    facts.said = ledger.read(folder)
    points: Counter[PointPlace] = Counter()
    async for found in knowledge.vectors.documents():
        for place, count in found.counts.items():
            kb_id = kb_of_collection(place.collection)
            assert kb_id is not None
            points[kb_id, found.document, place.generation] += count
    facts.points = points
    names = [kb_of_collection(each.name) async for each in knowledge.vectors.collections()]
    facts.collections = frozenset(kb_id for kb_id in names if kb_id is not None)
    listed = knowledge.storage.keys()
    facts.objects = {key: await is_sound(knowledge, key) async for key, _ in listed}
    facts.found = {word: await searched(knowledge, facts, word) for word in words_to_search(facts, seed)}
    return facts


def read_rows(connection: sa.Connection) -> Facts:
    """Return what the database has."""
    documents = connection.execute(
        sa.select(
            KbDocument.id, KbDocument.kb_id, KbDocument.status, KbDocument.generation, KbDocument.indexed_generation,
            KbDocument.chunk_count, KbDocument.object_key, KbDocument.retry_count, KbDocument.event_id,
            KbDocument.deleted_at.is_not(None),
        )
    )  # fmt: skip
    events = connection.execute(
        sa.select(
            OutboxEvent.id, OutboxEvent.event_type, OutboxEvent.state, OutboxEvent.attempts,
            OutboxEvent.processed_at.is_not(None),
        )
    )  # fmt: skip
    uploads = connection.execute(sa.select(KbUpload.state, sa.func.count()).group_by(KbUpload.state))
    return Facts(
        kbs={row.id: row.status for row in connection.execute(sa.select(KnowledgeBase.id, KnowledgeBase.status))},
        documents={row[0]: DocumentFacts(*tuple(row)) for row in documents},
        events={row[0]: EventFacts(*row) for row in events.tuples()},
        chunks=count_by_generation(connection, Chunk.__table__),
        terms=count_by_generation(connection, CHUNK_TERMS),
        uploads=dict(uploads.tuples().all()),
        turns=read_turns(connection),
        event_turns=read_event_turns(connection),
    )


def count_by_generation(connection: sa.Connection, table: sa.FromClause) -> dict[ChunkPlace, int]:
    place = table.c.document_id, table.c.generation
    counted = connection.execute(sa.select(*place, sa.func.count()).group_by(*place))
    return {(document, generation): count for document, generation, count in counted}


async def is_sound(knowledge: Knowledge, key: str) -> bool:
    try:
        await knowledge.storage.get(key, most=knowledge.settings.max_file_bytes)
    except rm.PermanentError:
        return False
    return True


def words_to_search(facts: Facts, seed: int) -> list[str]:
    """Return some words of documents that are there, and some of deleted ones."""
    here: list[str] = []
    gone: list[str] = []
    for said in facts.said:
        if said.word and said.document:
            document = facts.documents.get(UUID(said.document))
            (here if document is not None and document.status == "ready" else gone).append(said.word)
    chance = random.Random(f"{seed}:search")
    return [word for words in (here, gone) for word in chance.sample(words, min(len(words), SEARCHES // 2))]


async def searched(knowledge: Knowledge, facts: Facts, word: str) -> dict[UUID, str]:
    """Return the documents that a search for a word finds in all knowledge bases."""
    active = [kb_id for kb_id, status in facts.kbs.items() if status == KbStatus.ACTIVE]
    answer = await search(knowledge, word, kb_ids=active, limit=HITS)
    assert answer.degraded is None
    return {hit.document_id: str(hit.by) for hit in reversed(answer.hits)}
