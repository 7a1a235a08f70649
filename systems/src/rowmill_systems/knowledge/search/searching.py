"""Search knowledge bases by meaning and by words."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

from rowmill_systems.knowledge.errors import KbMissing
from rowmill_systems.knowledge.models import KbStatus, KnowledgeBase
from rowmill_systems.knowledge.search.caches import SearchCaches, caches_of
from rowmill_systems.knowledge.search.filters import SearchFilters
from rowmill_systems.knowledge.search.fusion import FoundBy, FusedHit, fused
from rowmill_systems.knowledge.search.hits import SearchHit, read_hits
from rowmill_systems.knowledge.search.meaning import Degraded, find_by_meaning
from rowmill_systems.knowledge.search.query import LONGEST, query_terms
from rowmill_systems.knowledge.search.words import (
    ChunkKey,
    Conditions,
    Scored,
    TermCounts,
    count_chunks,
    find_by_words,
    sample_kb,
)
from rowmill_systems.parts.values import storable

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

__all__ = ["Degraded", "FoundBy", "SearchAnswer", "SearchFilters", "SearchHit", "search"]
MOST_HITS = 100
DEPTH = 50
"""Hits of each kind that are merged, at least."""


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """What a search found, best first."""

    hits: tuple[SearchHit, ...]
    degraded: Degraded | None = None
    """Why the answer may lack what would be found by meaning. Not the same as having found nothing: say so."""


async def search(
    knowledge: "Knowledge",
    query: str,
    *,
    kb_ids: Sequence[UUID],
    limit: int = 10,
    filters: SearchFilters | None = None,
) -> SearchAnswer:
    """Return the best passages of documents that are indexed, up to `limit`. Any text is a query.

    Neighbouring passages are one hit: the better one, with the other beside it. If the model or the vector store is
    away, the answer comes by words alone, and says so. Raises KbMissing if one of the knowledge bases is not there.
    """
    text, kbs = storable(query)[:LONGEST].strip(), tuple(dict.fromkeys(kb_ids))
    await knowledge.mill.run(partial(_check_there, kb_ids=kbs), write=False)
    limit = max(1, min(limit, MOST_HITS))
    terms = query_terms(text)
    if not text or not kbs:
        return SearchAnswer(())
    conditions = (filters or SearchFilters()).conditions()
    depth = max(DEPTH, 2 * limit)
    meant, worded = await asyncio.gather(
        find_by_meaning(knowledge, text, kbs, depth, conditions),
        _find_by_words(knowledge, terms, kbs, depth, conditions),
    )
    ranked = without_neighbours(fused(meant.chunks, worded, meant.model))[:limit]
    hits = await knowledge.mill.run(partial(read_hits, hits=ranked, kb_ids=kbs, terms=terms), write=False)
    return SearchAnswer(tuple(hits), meant.degraded)


async def _find_by_words(
    knowledge: "Knowledge", terms: Sequence[str], kb_ids: Sequence[UUID], limit: int, conditions: Conditions
) -> list[Scored]:
    """Return the chunks with these terms, best first, each with the share of the query that it matches."""
    caches = caches_of(knowledge)

    def find(connection: sa.Connection) -> list[Scored]:
        found = []
        for kb_id in kb_ids:
            counts = known_counts(connection, caches, kb_id, terms)
            scored = find_by_words(connection, kb_id, counts, limit, conditions)
            found += [(chunk, counts.share(score)) for chunk, score in scored]
        return found

    found = await knowledge.mill.run(find, write=False) if terms else []
    return sorted(found, key=lambda each: -each[1])[:limit]


def known_counts(connection: sa.Connection, caches: SearchCaches, kb_id: UUID, terms: Sequence[str]) -> TermCounts:
    """Return how many chunks have each term, as they were up to a minute ago. Terms that stood nowhere are counted
    again: a document that was just made ready is found."""
    sample = caches.samples.get(kb_id)
    if sample is None or not sample.chunks:
        sample = sample_kb(connection, kb_id)
        caches.samples.put(kb_id, sample)
    having = {term: caches.having.get((kb_id, term)) or 0 for term in terms}
    unknown = [term for term, count in having.items() if not count]
    for term, count in count_chunks(connection, kb_id, unknown, sample).items():
        having[term] = count
        caches.having.put((kb_id, term), count)
    return TermCounts(sample.chunks, sample.length, having)


def without_neighbours(hits: Sequence[FusedHit]) -> list[FusedHit]:
    """Leave out a hit right beside a better one of the same document, which shows it as its context."""
    kept: list[FusedHit] = []
    covered: set[ChunkKey] = set()
    for hit in hits:
        key = hit.chunk
        if key in covered:
            continue
        kept.append(hit)
        covered |= {ChunkKey(key.document_id, key.generation, key.number + step) for step in (-1, 1)}
    return kept


# served by: the primary key
def _check_there(connection: sa.Connection, kb_ids: Sequence[UUID]) -> None:
    wanted = sa.select(KnowledgeBase.id).where(KnowledgeBase.id.in_(kb_ids), KnowledgeBase.status == KbStatus.ACTIVE)
    if len(list(connection.scalars(wanted))) < len(kb_ids):
        raise KbMissing("there is no such knowledge base")
