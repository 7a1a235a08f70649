"""Find chunks by their words, and rank them by BM25: the same on both databases.

Neither database can rank so by itself: PostgreSQL knows no rarity of words, and SQLite would count that of other
knowledge bases, too. So the index finds candidates by the rarest words of a query, and then each word is counted in
each candidate. Words that stand in thousands of chunks add to the score, and select nothing if rarer ones are there.
"""

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, TSQUERY, TSVECTOR

from rowmill_systems.knowledge.models import SEEN, KbDocument
from rowmill_systems.knowledge.search.fulltext import CHUNK_TERMS, scope_of
from rowmill_systems.parts.index_plans import any_index

MOST_CANDIDATES = 2000
"""Chunks that are ranked for a query, and up to which the chunks of a term are counted."""
LIKELY = 400
"""Candidates in which Python counts terms, on SQLite: the best by its own ranking."""
SATURATION, BY_LENGTH = 1.2, 0.75
"""Of BM25, as they are usual: how little repetition counts, and how much the length of a chunk."""
OF_NUMBERS = 4.0
"""Somebody who gives a number looks for what has it, not for another passage that repeats the word beside it."""
SAMPLE_CHUNKS = 300
"""By which the frequency of a common term is estimated."""
_RANKS = [total / 1.64493406685 for total in accumulate(1 / place**2 for place in range(1, 17))]
_STEPS = [0.3, *((low + high) / 2 for low, high in pairwise(_RANKS))]
"""Bounds between what ts_rank returns for a term that stands once, twice… It is how PostgreSQL counts."""

WORDS = sa.table("chunk_words", sa.column("rowid"), sa.column("chunk_words"))
ENTRY = CHUNK_TERMS.c
Conditions = Sequence["sa.ColumnElement[bool]"]


@dataclass(frozen=True, slots=True)
class ChunkKey:
    """Names a chunk."""

    document_id: uuid.UUID
    generation: int
    number: int


Scored = tuple[ChunkKey, float]
"""A chunk and its score."""


@dataclass(frozen=True, slots=True)
class TermCounts:
    """How many chunks a knowledge base has, and how many of them have each term."""

    chunks: int
    length: float
    """Terms that a chunk has on average."""
    having: Mapping[str, int]

    def weight(self, term: str) -> float:
        """Return how much a term tells: the rarer, the more; and more if it has digits."""
        having = self.having[term]
        rarity = math.log(1 + (max(self.chunks, having) - having + 0.5) / (having + 0.5))
        return rarity * (OF_NUMBERS if any(map(str.isdecimal, term)) else 1.0)

    def share(self, score: float) -> float:
        """Return a score as the share of the query that it matches: about 1 for a chunk that has every term once."""
        return score / (sum(map(self.weight, self.having)) or 1.0)


@dataclass(frozen=True, slots=True)
class KbSample:
    """How many chunks a knowledge base has, and the terms of some of them."""

    chunks: int
    length: float
    """Terms that a chunk has on average."""
    entries: tuple[str, ...]

    def share(self, written: str) -> float:
        """Return in which part of the chunks a term stands, which is written so."""
        return sum(written in entry for entry in self.entries) / len(self.entries) if self.entries else 0.0


def find_by_words(
    connection: sa.Connection, kb_id: uuid.UUID, counts: TermCounts, limit: int, conditions: Conditions = ()
) -> list[Scored]:
    """Return the visible chunks with these terms and their scores, best first. `conditions` are about `KbDocument`."""
    terms = sorted((term for term, having in counts.having.items() if having), key=lambda term: counts.having[term])
    if not terms:
        return []
    selecting = _rare(terms, counts)
    if not selecting:  # all are common: chunks with all of them come first
        every = _matching(connection, kb_id, terms, every=True)
        found = _ranked(connection, kb_id, counts, terms, every, limit, conditions)
        if len(found) == limit:
            return found
    either = _matching(connection, kb_id, selecting or terms)
    return _ranked(connection, kb_id, counts, terms, either, limit, conditions)


def _rare(terms: Sequence[str], counts: TermCounts) -> Sequence[str]:
    """Return the rarest terms that together select few enough candidates."""
    totals = accumulate(counts.having[term] for term in terms)
    return terms[: sum(total <= MOST_CANDIDATES for total in totals)]


def _ranked(
    connection: sa.Connection,
    kb_id: uuid.UUID,
    counts: TermCounts,
    terms: Sequence[str],
    matching: "sa.Select[Any]",
    limit: int,
    conditions: Conditions,
) -> list[Scored]:
    rank = _ranked_by_database if connection.dialect.name == "postgresql" else _ranked_here
    return rank(connection, kb_id, counts, terms, matching.where(*conditions), limit)


def bm25(counts: TermCounts, times: Mapping[str, Any], length: Any) -> Any:
    """Return the score of an entry, or an expression for it, by how many times it has each term."""
    long = SATURATION * ((1 - BY_LENGTH) + BY_LENGTH / counts.length * length)
    return sum(counts.weight(term) * (SATURATION + 1) * count / (count + long) for term, count in times.items())


# served by: ix_chunk_terms_terms, the primary key of documents
def _ranked_by_database(
    connection: sa.Connection,
    kb_id: uuid.UUID,
    counts: TermCounts,
    terms: Sequence[str],
    matching: "sa.Select[Any]",
    limit: int,
) -> list[Scored]:
    found = matching.limit(MOST_CANDIDATES).subquery("candidates").c
    times = [_times(found.terms, scope_of(kb_id) + term).label(f"times_{place}") for place, term in enumerate(terms)]
    # The limit keeps PostgreSQL from counting again wherever a count is used.
    wanted = sa.select(found.document_id, found.generation, found.number, found.length, *times).limit(MOST_CANDIDATES)
    counted = wanted.subquery("counted").c
    score = bm25(counts, {term: counted[f"times_{place}"] for place, term in enumerate(terms)}, counted.length)
    key = (counted.document_id, counted.generation, counted.number)
    best = sa.select(*key, score.label("score")).order_by(sa.desc("score"), *key).limit(limit)
    with any_index(connection):
        return [(ChunkKey(*row[:3]), float(row[3])) for row in connection.execute(best)]


# served by: the FTS5 table, the primary key of documents
def _ranked_here(
    connection: sa.Connection,
    kb_id: uuid.UUID,
    counts: TermCounts,
    terms: Sequence[str],
    matching: "sa.Select[Any]",
    limit: int,
) -> list[Scored]:
    scope = scope_of(kb_id)
    found = []
    for row in connection.execute(matching.order_by(sa.text("rank")).limit(max(limit, LIKELY))):
        times = {term: row.terms.count(f" {scope}{term} ") for term in terms}
        found.append((ChunkKey(*row[:3]), bm25(counts, times, row.length)))
    found.sort(key=lambda each: (-each[1], each[0].document_id, each[0].generation, each[0].number))
    return found[:limit]


def term_counts(connection: sa.Connection, kb_id: uuid.UUID, terms: Sequence[str]) -> TermCounts:
    """Count the chunks of each term; for a term of more than `MOST_CANDIDATES`, estimate them by a sample."""
    sample = sample_kb(connection, kb_id)
    return TermCounts(sample.chunks, sample.length, count_chunks(connection, kb_id, terms, sample))


def sample_kb(connection: sa.Connection, kb_id: uuid.UUID) -> "KbSample":
    """Count the chunks of a knowledge base, and read the terms of some."""
    entries = _sample(connection, kb_id)
    chunks = connection.scalar(sa.select(sa.func.sum(KbDocument.chunk_count)).where(*visible(kb_id)))
    length = sum(length for length, _ in entries) / len(entries) if entries else 1.0
    return KbSample(chunks or 0, max(length, 1.0), tuple(terms for _, terms in entries))


# served by: ix_chunk_terms_terms or the FTS5 table
def count_chunks(
    connection: sa.Connection, kb_id: uuid.UUID, terms: Sequence[str], sample: "KbSample"
) -> dict[str, int]:
    """Return how many chunks have each term; where they are more than `MOST_CANDIDATES`, by the sample."""
    scope = scope_of(kb_id)
    numbers = []
    for place, term in enumerate(terms):
        entries = _matches(connection, f'"{scope}{term}"').limit(MOST_CANDIDATES + 1)
        numbers.append(sa.select(sa.func.count()).select_from(entries.subquery(f"entries_{place}")).scalar_subquery())
    if not numbers:
        return {}
    with any_index(connection):
        having = dict(zip(terms, connection.execute(sa.select(*numbers)).one(), strict=True))
    for term, count in having.items():
        if count > MOST_CANDIDATES:
            having[term] = max(count, round(sample.share(_written(connection, scope + term)) * sample.chunks))
    return having


# served by: ix_documents_kb_status, uq_chunk_terms_chunk
def _sample(connection: sa.Connection, kb_id: uuid.UUID) -> "list[tuple[int, str]]":
    """Return the length and the terms of some entries. Ids are random: the first documents are a fair sample."""
    first = sa.select(KbDocument.id, KbDocument.indexed_generation).where(*visible(kb_id)).order_by(KbDocument.id)
    documents = first.limit(SAMPLE_CHUNKS).subquery("some_documents").c
    shown = (ENTRY.document_id == documents.id) & (ENTRY.generation == documents.indexed_generation)
    wanted = sa.select(ENTRY.length, sa.cast(ENTRY.terms, sa.Text)).join_from(documents.id.table, CHUNK_TERMS, shown)
    wanted = wanted.order_by(ENTRY.document_id, ENTRY.generation, ENTRY.number).limit(SAMPLE_CHUNKS)
    with any_index(connection):
        return [(length, terms) for length, terms in connection.execute(wanted)]


def _written(connection: sa.Connection, term: str) -> str:
    """Return a term as it stands in an entry."""
    return f"'{term}'" if connection.dialect.name == "postgresql" else f" {term} "


def visible(kb_id: uuid.UUID) -> "list[sa.ColumnElement[bool]]":
    """Return what holds for the documents of a knowledge base that search shows: also while they are processed again,
    and if that failed."""
    return [KbDocument.kb_id == kb_id, KbDocument.status.in_(SEEN), KbDocument.indexed_generation.is_not(None)]


def _matching(
    connection: sa.Connection, kb_id: uuid.UUID, terms: Sequence[str], *, every: bool = False
) -> "sa.Select[Any]":
    """Select the visible entries that have any of the terms, or every one."""
    query = (" AND " if every else " OR ").join(f'"{scope_of(kb_id)}{term}"' for term in terms)
    columns = (ENTRY.document_id, ENTRY.generation, ENTRY.number, ENTRY.length, _unpacked(connection))
    shown = (KbDocument.id == ENTRY.document_id) & (KbDocument.indexed_generation == ENTRY.generation)
    entries = _entries(connection, query, *columns).join(KbDocument, shown)
    if connection.dialect.name == "postgresql":
        return entries.where(*visible(kb_id))
    # The signs keep SQLite from beginning with all documents of the knowledge base.
    return entries.where(sa.text("+documents.kb_id = :kb_id").bindparams(sa.bindparam("kb_id", kb_id, sa.Uuid))).where(
        sa.text("+documents.status IN :seen").bindparams(sa.bindparam("seen", SEEN, sa.String, expanding=True))
    )


def _entries(connection: sa.Connection, query: str, *columns: Any) -> "sa.Select[Any]":
    """Select entries by terms in double quotes, with AND or OR."""
    matches = _matches(connection, query).with_only_columns(*columns, maintain_column_froms=True)
    if connection.dialect.name == "postgresql":
        return matches
    return matches.join(CHUNK_TERMS, ENTRY.id == WORDS.c.rowid)


def _matches(connection: sa.Connection, query: str) -> "sa.Select[Any]":
    """Select from the index alone. Terms have no quotes and no backslashes."""
    if connection.dialect.name == "postgresql":
        translated = query.replace('"', "'").replace(" AND ", " & ").replace(" OR ", " | ")
        found = ENTRY.terms.op("@@")(sa.cast(sa.literal(translated, sa.Text), TSQUERY))
        return sa.select(ENTRY.id).where(found)
    return sa.select(WORDS.c.rowid).where(WORDS.c.chunk_words.op("MATCH")(query))


def _unpacked(connection: sa.Connection) -> "sa.ColumnElement[Any]":
    """Return the terms; on PostgreSQL as a copy in memory, since each call of ts_rank would fetch them again."""
    if connection.dialect.name == "postgresql":
        return ENTRY.terms.op("||")(sa.cast(sa.literal("", sa.Text), TSVECTOR)).label("terms")
    return ENTRY.terms.label("terms")


def _times(terms: "sa.ColumnElement[Any]", term: str) -> "sa.ColumnElement[int]":
    """Return how many times a term stands among the terms of an entry. PostgreSQL alone."""
    every = sa.cast(sa.literal([1.0] * 4, ARRAY(sa.REAL)), ARRAY(sa.REAL))
    rank = sa.func.ts_rank(every, terms, sa.cast(sa.literal(f"'{term}'", sa.Text), TSQUERY))
    steps = sa.cast(sa.literal(_STEPS, ARRAY(sa.Double)), ARRAY(sa.Double))
    return sa.func.width_bucket(sa.cast(rank, sa.Double), steps)
