"""A search beside the vector store alone, called with the same vectors.

A search also finds by words, merges both, checks what may be seen, and reads the passages that it quotes.
"""

import random
import time
from bisect import bisect
from collections.abc import Awaitable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from statistics import median
from typing import Any
from uuid import UUID

import numpy as np
import sqlalchemy as sa

from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import DocumentStatus, KbDocument, KnowledgeBase
from rowmill_systems.knowledge.names import collection_of, owner_of
from rowmill_systems.knowledge.search.chunk_rows import insert_chunks
from rowmill_systems.knowledge.search.meaning import find_by_meaning
from rowmill_systems.knowledge.search.searching import search
from rowmill_systems.parts.vectors.port import Point

SEED = 18
KB_ID = UUID(int=18)
CHUNKS_OF_DOCUMENT, WORDS_OF_CHUNK = 20, 100
VOCABULARY, COMMON = 20_000, 150
"""Different words, as frequent as words of a language; and how many of them nobody asks for, as stop words."""
QUERIES, WORDS_OF_QUERY, HITS = 100, 4, 10
DEPTH = 50
AT_ONCE = 2_000


def vocabulary() -> list[str]:
    """Return different words of three syllables, without endings that stemming cuts."""
    consonants, vowels = "bdfgklmnprtvz", "aou"
    syllables = [consonant + vowel for consonant in consonants for vowel in vowels]
    words = [first + second + third for first in syllables for second in syllables for third in syllables]
    random.Random(SEED).shuffle(words)
    return words[:VOCABULARY]


class MadeTexts:
    """Texts of words that are as frequent as their rank says (Zipf)."""

    def __init__(self) -> None:
        self._words, self._chance = vocabulary(), random.Random(SEED)
        self._sums = list(accumulate(1 / (rank + 2.7) for rank in range(VOCABULARY)))

    def ranks(self, number: int) -> Iterator[int]:
        for _ in range(number):
            yield bisect(self._sums, self._chance.random() * self._sums[-1])

    def chunk(self) -> str:
        return " ".join(self._words[rank] for rank in self.ranks(WORDS_OF_CHUNK))

    def query(self) -> str:
        telling = (rank for rank in self.ranks(1_000_000) if rank >= COMMON)
        return " ".join(self._words[next(telling)] for _ in range(WORDS_OF_QUERY))


def document_id(number: int) -> UUID:
    """Return an id as random as those of documents, and the same in every run."""
    return UUID(int=random.Random(number).getrandbits(128))


def documents_of(chunks: int) -> int:
    return -(-chunks // CHUNKS_OF_DOCUMENT)


async def fill_rows(knowledge: Knowledge, chunks: int) -> None:
    """Write a knowledge base with made-up passages."""
    model, texts = await knowledge.open_embedder(), MadeTexts()
    kb = {"id": KB_ID, "name": "Papers", "embedding_model": model.name, "dimensions": model.dimensions}
    await knowledge.mill.run(lambda connection: connection.execute(sa.insert(KnowledgeBase).values(kb)).close())
    documents, passages = [], []
    for number in range(documents_of(chunks)):
        count = min(CHUNKS_OF_DOCUMENT, chunks - number * CHUNKS_OF_DOCUMENT)
        documents.append(document_row(number, count, model.name))
        key = {"document_id": document_id(number), "generation": 1, "kb_id": KB_ID}
        passages += [{**key, "number": place, "text": texts.chunk()} for place in range(count)]
        if len(passages) >= AT_ONCE or number == documents_of(chunks) - 1:
            await knowledge.mill.run(partial(insert, documents=documents, passages=passages))
            documents, passages = [], []
    await knowledge.mill.run(lambda connection: connection.execute(sa.text("ANALYZE")).close())


def document_row(number: int, chunks: int, model: str) -> dict[str, Any]:
    id = document_id(number)
    return {
        "id": id, "kb_id": KB_ID, "filename": "paper.md", "kind": "text", "size": 1000, "sha256": "0" * 64,
        "object_key": f"{owner_of(KB_ID)}/{id}/{'0' * 64}", "status": DocumentStatus.READY, "generation": 1,
        "indexed_generation": 1, "chunk_count": chunks, "embedding_model": model,
    }  # fmt: skip


def insert(connection: sa.Connection, documents: Sequence[dict[str, Any]], passages: Sequence[dict[str, Any]]) -> None:
    connection.execute(sa.insert(KbDocument), documents)
    insert_chunks(connection, passages)


async def fill_vectors(knowledge: Knowledge, chunks: int) -> None:
    """Write a random vector for each passage: what a search costs does not depend on what they say."""
    model, chance = await knowledge.open_embedder(), np.random.default_rng(SEED)
    await knowledge.vectors.create(collection_of(KB_ID), model.dimensions)
    points: list[Point] = []
    for place in range(chunks):
        number, chunk = divmod(place, CHUNKS_OF_DOCUMENT)
        vector = chance.standard_normal(model.dimensions, np.float32)
        points.append(Point(document_id(number), 1, chunk, vector, model.name))
        if len(points) >= AT_ONCE or place == chunks - 1:
            await knowledge.vectors.put(collection_of(KB_ID), points)
            points = []


async def measure(knowledge: Knowledge, chunks: int) -> dict[str, Any]:
    """Ask many questions: the store alone, the whole search, the same again, and the part by meaning."""
    texts, model = MadeTexts(), await knowledge.open_embedder()
    times: dict[str, list[float]] = {"search": [], "again": [], "meaning": [], "store": []}
    for place in range(QUERIES + 1):
        query = texts.query()
        [vector] = await model.embed([query])
        taken = {
            "store": await timed(knowledge.vectors.search(collection_of(KB_ID), vector, HITS)),
            "search": await timed(asked(knowledge, query)),
            "again": await timed(asked(knowledge, query)),
            "meaning": await timed(find_by_meaning(knowledge, query, [KB_ID], DEPTH, ())),
        }
        if place:  # the first one reads the vectors into memory
            for name, milliseconds in taken.items():
                times[name].append(milliseconds)
    p50 = {name: round(median(each), 1) for name, each in times.items()}
    ratio = {
        name: round(median(one / alone for one, alone in zip(each, times["store"], strict=True)), 2)
        for name, each in times.items()
    }
    return {
        "chunks": chunks, "queries": QUERIES, "search, p50 ms": p50["search"], "the same query again": p50["again"],
        "by meaning alone": p50["meaning"], "the store alone": p50["store"], "ratio": ratio["search"],
        "again / store": ratio["again"], "by meaning / store": ratio["meaning"],
    }  # fmt: skip


async def asked(knowledge: Knowledge, query: str) -> None:
    answer = await search(knowledge, query, kb_ids=[KB_ID], limit=HITS)
    if len(answer.hits) != HITS or answer.degraded:
        raise SystemExit(f"a search found {len(answer.hits)} passages of {HITS}, {answer.degraded}")


async def timed(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return (time.perf_counter() - began) * 1000
