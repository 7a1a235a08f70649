"""Read the passages of hits, with their documents and their neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from rowmill_systems.knowledge.models import SEEN, Chunk, KbDocument
from rowmill_systems.knowledge.search.fusion import FoundBy, FusedHit
from rowmill_systems.knowledge.search.highlights import Place, highlights
from rowmill_systems.knowledge.search.words import ChunkKey
from rowmill_systems.parts.index_plans import any_index


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A passage that was found, and where it stands."""

    document_id: UUID
    kb_id: UUID
    filename: str
    number: int
    """Of the passage in its document, from 0."""
    page: int | None
    page_title: str
    heading: str
    text: str
    before: str
    """The passage before it; empty if it is the first one."""
    after: str
    score: float
    by: FoundBy
    highlights: tuple[Place, ...]
    """Where words of the query stand in the text."""


# served by: the primary keys of chunks and documents
def read_hits(
    connection: sa.Connection, hits: Sequence[FusedHit], kb_ids: Sequence[UUID], terms: Sequence[str]
) -> list[SearchHit]:
    """Return what is shown of these hits. One whose document was deleted or processed again meanwhile is left out."""
    if not hits:
        return []
    documents = _documents(connection, {hit.chunk.document_id for hit in hits}, kb_ids)
    chunks = _chunks(connection, [hit.chunk for hit in hits])
    shown = []
    for hit in hits:
        key = hit.chunk
        row, chunk = documents.get(key.document_id), chunks.get(key)
        if row is None or chunk is None or row.indexed_generation != key.generation:
            continue
        before = chunks.get(ChunkKey(key.document_id, key.generation, key.number - 1))
        after = chunks.get(ChunkKey(key.document_id, key.generation, key.number + 1))
        shown.append(
            SearchHit(
                document_id=key.document_id,
                kb_id=row.kb_id,
                filename=row.filename,
                number=key.number,
                page=chunk.page,
                page_title=chunk.page_title,
                heading=chunk.heading,
                text=chunk.text,
                before=before.text if before else "",
                after=after.text if after else "",
                score=hit.score,
                by=hit.by,
                highlights=highlights(chunk.text, terms),
            )
        )
    return shown


def _documents(connection: sa.Connection, ids: set[UUID], kb_ids: Sequence[UUID]) -> dict[UUID, Any]:
    wanted = sa.select(KbDocument.id, KbDocument.kb_id, KbDocument.filename, KbDocument.indexed_generation)
    shown = wanted.where(KbDocument.id.in_(ids), KbDocument.kb_id.in_(kb_ids), KbDocument.status.in_(SEEN))
    with any_index(connection):
        return {row.id: row for row in connection.execute(shown)}


def _chunks(connection: sa.Connection, keys: Sequence[ChunkKey]) -> dict[ChunkKey, Any]:
    """Return these chunks and their neighbours."""
    wanted = sa.select(
        Chunk.document_id, Chunk.generation, Chunk.number, Chunk.page, Chunk.page_title, Chunk.heading, Chunk.text
    )
    near = [  # of each by itself: SQLite uses no index for a list of rows
        sa.and_(
            Chunk.document_id == key.document_id,
            Chunk.generation == key.generation,
            Chunk.number.between(key.number - 1, key.number + 1),
        )
        for key in keys
    ]
    chosen = wanted.where(sa.or_(*near))
    with any_index(connection):
        return {ChunkKey(*row[:3]): row for row in connection.execute(chosen)}
