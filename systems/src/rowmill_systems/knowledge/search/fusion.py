"""Merge what was found by meaning and by words into one ranking."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from rowmill_systems.knowledge.search.words import ChunkKey

FLATNESS = 10
"""Of reciprocal rank fusion: the smaller, the more the first ranks stand out."""
MEANING_WEIGHTS = {"wordllama-l2-supercat-256": 0.7}
"""How much a model's ranking counts beside that of words; chosen on half of the queries of
tools.knowledge_search_quality. Models that read words in their context count as much as words."""


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


def fused(by_meaning: Sequence[ChunkKey], by_words: Sequence[ChunkKey], model: str) -> list[FusedHit]:
    """Return the hits of two rankings, best first, by reciprocal ranks: scores of different kinds can't be compared."""
    scores: dict[ChunkKey, float] = {}
    for ranking, weight in ((by_meaning, MEANING_WEIGHTS.get(model, 1.0)), (by_words, 1.0)):
        for rank, chunk in enumerate(ranking, 1):
            scores[chunk] = scores.get(chunk, 0.0) + weight / (FLATNESS + rank)
    meant, worded = frozenset(by_meaning), frozenset(by_words)
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
