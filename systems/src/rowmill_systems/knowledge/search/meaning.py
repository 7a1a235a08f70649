"""Find chunks by their vectors."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.models import DocumentStatus, KbDocument, KnowledgeBase
from rowmill_systems.knowledge.names import collection_of
from rowmill_systems.knowledge.search.caches import caches_of
from rowmill_systems.knowledge.search.words import ChunkKey, Conditions, Scored, visible
from rowmill_systems.parts.index_plans import any_index
from rowmill_systems.parts.vectors.errors import CollectionMissing, WrongDimensions
from rowmill_systems.parts.vectors.port import Vector, VectorHit

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

SECONDS = 10.0
"""For the vector of a query, and again for its neighbours."""
MOST_DOCUMENTS = 1000
"""The most documents of a filter that the store is given. With more, its answer is filtered."""
WIDER = 8
"""How many times as many points are asked for, where hidden ones took the places of visible ones."""


class Degraded(StrEnum):
    """Why a search went by words alone, or in part."""

    MODEL_UNAVAILABLE = "model_unavailable"
    """The model did not answer, or not in time."""
    VECTORS_UNAVAILABLE = "vectors_unavailable"
    """The vector store did not answer, or not in time."""
    OTHER_MODEL = "other_model"
    """Documents have vectors of another model than the present one, and are not embedded again yet."""


@dataclass(frozen=True, slots=True)
class MeaningHits:
    """What was found by meaning, best first, and why it may not be all."""

    chunks: list[ChunkKey]
    degraded: Degraded | None = None
    model: str = ""


async def find_by_meaning(
    knowledge: "Knowledge", query: str, kb_ids: Sequence[UUID], limit: int, conditions: Conditions
) -> MeaningHits:
    """Return the visible chunks that are nearest to a query. Never raises because a model or a store is away."""
    try:
        async with asyncio.timeout(SECONDS):
            vector = await _vector_of(knowledge, query)
    except (rm.errors.WorkError, TimeoutError):
        return MeaningHits([], Degraded.MODEL_UNAVAILABLE)
    if not vector.any():
        return MeaningHits([])
    try:
        async with asyncio.timeout(SECONDS):
            found = await asyncio.gather(*(_nearest(knowledge, kb_id, vector, limit, conditions) for kb_id in kb_ids))
    except (rm.errors.WorkError, TimeoutError):
        return MeaningHits([], Degraded.VECTORS_UNAVAILABLE)
    scored = sorted((each for hits, _ in found for each in hits), key=lambda each: -each[1])
    degraded = next((reason for _, reason in found if reason), None)
    return MeaningHits([chunk for chunk, _ in scored][:limit], degraded, knowledge.embedder.name)


async def _vector_of(knowledge: "Knowledge", query: str) -> Vector:
    """Return the vector of a query. Those of recent ones are remembered."""
    embedder, queries = await knowledge.open_embedder(), caches_of(knowledge).queries
    key = embedder.name, query
    known = queries.get(key)
    if known is None:
        known = (await embedder.embed([query]))[0]
        queries.put(key, known)
    return known


async def _nearest(
    knowledge: "Knowledge", kb_id: UUID, vector: Vector, limit: int, conditions: Conditions
) -> tuple[list[Scored], Degraded | None]:
    """Return the nearest visible chunks of one knowledge base with their cosines."""
    documents = None
    if conditions:
        documents = await knowledge.mill.run(partial(_chosen, kb_id=kb_id, conditions=conditions), write=False)
        if not documents:
            return [], None
        documents = documents if len(documents) <= MOST_DOCUMENTS else None
    wanted = limit if documents or not conditions else limit * WIDER
    while True:
        try:
            points = await knowledge.vectors.search(collection_of(kb_id), vector, wanted, documents=documents)
        except CollectionMissing:
            return [], None  # nothing was embedded yet
        except WrongDimensions:
            return [], Degraded.OTHER_MODEL
        shown, other_model = await _visible_points(knowledge, kb_id, points, conditions)
        if len(shown) >= limit or len(points) < wanted or wanted > limit * WIDER:
            other_model = other_model or await _is_embedded_again(knowledge, kb_id)
            return shown[:limit], Degraded.OTHER_MODEL if other_model else None
        wanted = wanted * WIDER


async def _visible_points(
    knowledge: "Knowledge", kb_id: UUID, points: Sequence[VectorHit], conditions: Conditions
) -> tuple[list[Scored], bool]:
    """Return the points that search shows, and whether others were left out for their model."""
    ids = {point.document for point in points}
    generations = await knowledge.mill.run(
        partial(_generations, kb_id=kb_id, ids=ids, conditions=conditions), write=False
    )
    shown: list[Scored] = []
    other_model = False
    for point in points:
        generation, model = generations.get(point.document, (None, None))
        if generation != point.generation:
            continue
        if model != knowledge.embedder.name:
            other_model = True
            continue
        shown.append((ChunkKey(point.document, point.generation, point.number), point.score))
    return shown, other_model


async def _is_embedded_again(knowledge: "Knowledge", kb_id: UUID) -> bool:
    """Return whether documents wait for vectors of the present model. For a minute it is known that none does."""
    settled, key = caches_of(knowledge).settled, (kb_id, knowledge.embedder.name)
    if settled.get(key):
        return False
    waits = await knowledge.mill.run(partial(_waits_for_model, kb_id=kb_id, model=key[1]), write=False)
    if not waits:
        settled.put(key, True)
    return waits


# served by: the primary key, ix_documents_kb_status
def _waits_for_model(connection: sa.Connection, kb_id: UUID, model: str) -> bool:
    replaced = sa.exists().where(KnowledgeBase.id == kb_id, KnowledgeBase.reembedding)
    waiting = sa.exists().where(
        KbDocument.kb_id == kb_id,
        KbDocument.status.in_((DocumentStatus.PENDING, DocumentStatus.PROCESSING)),
        KbDocument.indexed_generation.is_not(None),
        KbDocument.embedding_model != model,
    )
    with any_index(connection):
        return bool(connection.scalar(sa.select(sa.or_(replaced, waiting))))


# served by: the primary key
def _generations(
    connection: sa.Connection, kb_id: UUID, ids: set[UUID], conditions: Conditions
) -> dict[UUID, tuple[int | None, str | None]]:
    """Return the generation and the model of each document that search shows."""
    wanted = sa.select(KbDocument.id, KbDocument.indexed_generation, KbDocument.embedding_model)
    chosen = wanted.where(KbDocument.id.in_(ids), *visible(kb_id), *conditions)
    with any_index(connection):
        return {id: (generation, model) for id, generation, model in connection.execute(chosen)}


# served by: ix_documents_kb_status
def _chosen(connection: sa.Connection, kb_id: UUID, conditions: Conditions) -> list[UUID]:
    """Return the documents that a filter leaves, up to one more than the store is given."""
    wanted = sa.select(KbDocument.id).where(*visible(kb_id), *conditions).limit(MOST_DOCUMENTS + 1)
    return list(connection.scalars(wanted))
