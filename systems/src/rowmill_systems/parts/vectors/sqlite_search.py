"""Find the nearest vectors in a SQLite file by comparing all of them."""

import json
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
import numpy.typing as npt

from rowmill_systems.parts.embeddings.port import Vectors
from rowmill_systems.parts.vectors.checks import unit_vector
from rowmill_systems.parts.vectors.errors import CollectionMissing
from rowmill_systems.parts.vectors.port import Vector, VectorHit
from rowmill_systems.parts.vectors.sqlite_file import CollectionRow, VectorFile, collection_in

CACHE_BYTES = 256 * 1024 * 1024
"""The most memory for vectors of collections that were searched. Those of a larger one are read for each search."""
BLOCK = 8_192
"""Vectors that are read and compared at once."""
STALE_SHARE = 4
"""A cached collection is read again once more than a quarter of it was deleted."""
FEW = 500
"""Documents that are looked up in one statement."""

VECTORS = "SELECT id, vector FROM vector_points WHERE id BETWEEN ? AND ? ORDER BY id"
VECTORS_OF_DOCUMENTS = "SELECT id, vector FROM vector_points WHERE collection = ? AND document IN "
PLACES_OF_IDS = """
SELECT id, document, generation, number FROM vector_points WHERE id IN (SELECT value FROM json_each(?))
"""

Ids = npt.NDArray[np.int64]
CacheKey = tuple[tuple[int, int], str]
"""A file and a collection in it."""


class VectorSearch:
    """Searches a file, and keeps the vectors of collections in memory.

    A search reads only what was written since the last one. It looks up what it found, so what was deleted meanwhile,
    also by another process, is never a hit.
    """

    def __init__(self, file: VectorFile, cache_bytes: int) -> None:
        self._file = file
        self._most = cache_bytes
        self._lock = threading.Lock()
        self._cached: OrderedDict[CacheKey, CachedCollection] = OrderedDict()

    def nearest(self, collection: str, vector: Vector, limit: int, documents: Sequence[UUID] | None) -> list[VectorHit]:
        with self._file.reading() as connection:
            key = connection.file, collection
            cached = self._entry(key)
            with cached.lock:  # so that it sees states of the file one after the other
                try:
                    row = collection_in(connection, collection)
                except CollectionMissing:
                    self._forget(key)
                    raise
                query = unit_vector(vector, row.dimensions)
                blocks = None
                if documents is None and self._make_room(key, row):
                    blocks = cached.refresh(connection, row)
            if blocks is not None:
                return nearest_cached(connection, blocks, query, limit)
            rows = read_all(connection, row) if documents is None else read_documents(connection, row, documents)
            return nearest_read(connection, rows, query, limit)

    def forget(self) -> None:
        """Release the memory."""
        with self._lock:
            self._cached.clear()

    def _forget(self, key: CacheKey) -> None:
        with self._lock:
            self._cached.pop(key, None)

    def _entry(self, key: CacheKey) -> "CachedCollection":
        with self._lock:
            found = self._cached.setdefault(key, CachedCollection())
            self._cached.move_to_end(key)
            return found

    def _make_room(self, key: CacheKey, row: CollectionRow) -> bool:
        """Forget what was not searched for longest. Return False if the collection is too large in any case."""
        needed = row.count * row.dimensions * 4
        with self._lock:
            if needed > self._most:
                self._cached.pop(key, None)
                return False
            others = [other for other in self._cached if other != key]
            used = sum(self._cached[other].size for other in others)
            for other in others:
                if used + needed <= self._most:
                    break
                used -= self._cached.pop(other).size
        return True


@dataclass(frozen=True, slots=True)
class VectorBlock:
    """Vectors with their ids. Only the marks change."""

    ids: Ids
    vectors: Vectors
    deleted: npt.NDArray[np.bool_]
    """Those that a search did not find any more."""

    def scores(self, query: Vector) -> Vector:
        # `@` starts the threads of BLAS, which wait busily: twice as slow alone, five times beside other work.
        scores: Vector = np.einsum("ij,j->i", self.vectors, query)
        scores[self.deleted] = -np.inf
        return scores


class CachedCollection:
    """The vectors of a collection, as far as they were read."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.size = 0
        self._blocks: tuple[VectorBlock, ...] = ()
        self._read: CollectionRow | None = None
        """The collection when it was read from the beginning."""
        self._next = 0

    def refresh(self, connection: sqlite3.Connection, row: CollectionRow) -> tuple[VectorBlock, ...]:
        """Read what was written since the last time. Ids only grow, and none is given twice."""
        if self._read is None or self._read.id != row.id or is_stale(self._read, row):
            self._blocks, self._read, self._next = (), row, row.first
        if row.next > self._next:
            for block in read(connection, row, VECTORS, (self._next, row.next)):
                self._blocks = joined(self._blocks, block)
            self._next = row.next
            self.size = sum(block.vectors.nbytes for block in self._blocks)
        return self._blocks


def is_stale(read: CollectionRow, now: CollectionRow) -> bool:
    """Return whether too much was deleted since the collection was read."""
    return now.removed - read.removed > max(BLOCK, now.count // STALE_SHARE)


def joined(blocks: tuple[VectorBlock, ...], new: VectorBlock) -> tuple[VectorBlock, ...]:
    """Append a block; a small one becomes part of the last."""
    if not blocks or len(blocks[-1].ids) + len(new.ids) > BLOCK:
        return (*blocks, new)
    last = blocks[-1]
    both = VectorBlock(
        np.concatenate([last.ids, new.ids]),
        np.concatenate([last.vectors, new.vectors]),
        np.concatenate([last.deleted, new.deleted]),
    )
    return (*blocks[:-1], both)


def read(
    connection: sqlite3.Connection, row: CollectionRow, statement: str, arguments: Sequence[object]
) -> Iterator[VectorBlock]:
    """Yield the vectors that a statement selects, a block at a time."""
    cursor = connection.execute(statement, arguments)
    while rows := cursor.fetchmany(BLOCK):
        ids, vectors = zip(*rows, strict=True)
        stored = np.frombuffer(b"".join(vectors), "<f4").reshape(len(rows), row.dimensions)
        yield VectorBlock(np.array(ids, np.int64), stored.astype(np.float32, copy=False), np.zeros(len(rows), bool))


def read_all(connection: sqlite3.Connection, row: CollectionRow) -> Iterator[VectorBlock]:
    yield from read(connection, row, VECTORS, (row.first, row.next))


def read_documents(
    connection: sqlite3.Connection, row: CollectionRow, documents: Sequence[UUID]
) -> Iterator[VectorBlock]:
    wanted = sorted({document.bytes for document in documents})
    for first in range(0, len(wanted), FEW):
        few = wanted[first : first + FEW]
        marks = ", ".join("?" * len(few))
        yield from read(connection, row, f"{VECTORS_OF_DOCUMENTS} ({marks})", (row.id, *few))


def nearest_read(
    connection: sqlite3.Connection, blocks: Iterable[VectorBlock], query: Vector, limit: int
) -> list[VectorHit]:
    """Return the nearest of vectors that are read block by block."""
    ids, scores = np.zeros(0, np.int64), np.zeros(0, np.float32)
    for block in blocks:
        ids, scores = np.concatenate([ids, block.ids]), np.concatenate([scores, block.scores(query)])
        best = best_of(ids, scores, limit)
        ids, scores = ids[best], scores[best]
    return hits_of(connection, ids, scores)


def nearest_cached(
    connection: sqlite3.Connection, blocks: Sequence[VectorBlock], query: Vector, limit: int
) -> list[VectorHit]:
    """Return the nearest of vectors in memory, among which may be some that were deleted."""
    if not blocks:
        return []
    ids = np.concatenate([block.ids for block in blocks])
    scores = np.concatenate([block.scores(query) for block in blocks])
    hits: list[VectorHit] = []
    look_at = limit
    while len(hits) < limit:
        best = best_of(ids, scores, look_at)
        if not len(best):
            break
        found = hits_of(connection, ids[best], scores[best])
        if len(found) < len(best):
            mark_deleted(connection, blocks, ids[best])
        hits += found
        scores[best] = -np.inf
        look_at *= 2  # whole documents may be gone
    return hits[:limit]


def mark_deleted(connection: sqlite3.Connection, blocks: Sequence[VectorBlock], ids: Ids) -> None:
    gone = np.setdiff1d(ids, list(places_of(connection, ids)))
    for block in blocks:
        block.deleted[np.isin(block.ids, gone)] = True


def best_of(ids: Ids, scores: Vector, limit: int) -> npt.NDArray[np.intp]:
    """Return where the best scores are, best first, without those that are minus infinity."""
    best = np.arange(len(scores)) if len(scores) <= limit else np.argpartition(-scores, limit - 1)[:limit]
    best = best[scores[best] > -np.inf]
    ordered: npt.NDArray[np.intp] = best[np.lexsort((ids[best], -scores[best]))]
    return ordered


def hits_of(connection: sqlite3.Connection, ids: Ids, scores: Vector) -> list[VectorHit]:
    """Return a hit for each id that is still there."""
    places = places_of(connection, ids)
    return [
        VectorHit(*places[id], score=float(score))
        for id, score in zip(ids.tolist(), scores, strict=True)
        if id in places
    ]


def places_of(connection: sqlite3.Connection, ids: Ids) -> dict[int, tuple[UUID, int, int]]:
    rows = connection.execute(PLACES_OF_IDS, (json.dumps(ids.tolist()),))
    return {id: (UUID(bytes=document), generation, number) for id, document, generation, number in rows}
