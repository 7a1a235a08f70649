"""Merge what was found by meaning and by words into one ranking."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rowmill_systems.knowledge.search.words import ChunkKey, Scored

FLATNESS = 10
"""Of reciprocal rank fusion: the smaller, the more the first ranks stand out."""
MEANING_WEIGHTS = {"wordllama-l2-supercat-256": 0.7}
"""How much a model's ranking counts beside that of words; chosen on half of the queries of
tools.knowledge_search_quality. Models that read words in their context count as much as words."""
MATCH_WEIGHT = 0.1
"""How much it counts that a passage has the words that tell most. Ranks alone do not say that only one passage has the
number of an invoice, and others no more than the word."""


class FoundBy(StrEnum):
    """What found a passage."""

    MEANING = "meaning"
    WORDS = "words"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class FusedHit:
    chunk: ChunkKey
    score: float
    by: FoundBy


def fused(by_meaning: Sequence[ChunkKey], by_words: Sequence[Scored], model: str) -> list[FusedHit]:
    """Return the hits of two rankings, best first: by reciprocal ranks, since scores of different kinds can't be
    compared, and by the share of the query that stands in the passage."""
    words = [chunk for chunk, _ in by_words]
    scores = {chunk: MATCH_WEIGHT * share for chunk, share in by_words}
    for ranking, weight in ((by_meaning, MEANING_WEIGHTS.get(model, 1.0)), (words, 1.0)):
        for rank, chunk in enumerate(ranking, 1):
            scores[chunk] = scores.get(chunk, 0.0) + weight / (FLATNESS + rank)
    meant, worded = frozenset(by_meaning), frozenset(words)
    hits = [
        FusedHit(
            chunk,
            score,
            FoundBy.BOTH
            if chunk in meant and chunk in worded
            else FoundBy.MEANING
            if chunk in meant
            else FoundBy.WORDS,
        )
        for chunk, score in scores.items()
    ]
    return sorted(hits, key=lambda hit: -hit.score)
