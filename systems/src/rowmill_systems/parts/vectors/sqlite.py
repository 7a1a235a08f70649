"""Store vectors in a SQLite file, the default. The processes of one machine share it."""

import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from rowmill_systems.parts.objects.threads import StorageThreads
from rowmill_systems.parts.vectors.checks import (
    check_dimensions,
    check_one_of,
    check_positive,
    check_same,
    latest,
    unit_vectors,
)
from rowmill_systems.parts.vectors.grouping import PointGroup, documents_of, time_of
from rowmill_systems.parts.vectors.port import Collection, DocumentPoints, Placed, Point, Vector, VectorHit
from rowmill_systems.parts.vectors.sqlite_file import VectorFile, collection_in, find_collection
from rowmill_systems.parts.vectors.sqlite_search import CACHE_BYTES, VectorSearch

T = TypeVar("T")
P = ParamSpec("P")
PAGE = 500
"""Documents or collections that are read at once."""
BATCH = 5_000
"""Points that are deleted in one transaction, so that other writers get their turn."""
READERS = 4

CREATE = "INSERT INTO vector_collections (name, dimensions) VALUES (?, ?) ON CONFLICT DO NOTHING"
COLLECTIONS = "SELECT name, dimensions FROM vector_collections WHERE name > ? ORDER BY name LIMIT ?"
COUNT_CHANGES = "UPDATE vector_collections SET given = given + ?, removed = removed + ? WHERE id = ?"
INSERT = "INSERT INTO vector_points VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
DELETE_PLACE = "DELETE FROM vector_points WHERE document = ? AND collection = ? AND generation = ? AND number = ?"
DELETE_ALL = """
DELETE FROM vector_points WHERE id IN (SELECT id FROM vector_points WHERE id BETWEEN ? AND ? LIMIT ?)
"""
DELETE = """
DELETE FROM vector_points WHERE id IN (
    SELECT id FROM vector_points
    WHERE document = ?1 AND collection = ?2 AND (?3 IS NULL OR generation = ?3) AND (?4 IS NULL OR generation <> ?4)
    LIMIT ?5)
"""
COUNT = """
SELECT generation, count(*) FROM vector_points
WHERE document = ? AND collection = (SELECT id FROM vector_collections WHERE name = ?) GROUP BY generation
"""
LAST_OF_PAGE = """
SELECT max(document) FROM (SELECT DISTINCT document FROM vector_points WHERE document > ? ORDER BY document LIMIT ?)
"""
PAGE_OF_DOCUMENTS = """
SELECT p.document, c.name, p.generation, p.model, count(*), max(p.at)
FROM vector_points p JOIN vector_collections c ON c.id = p.collection
WHERE p.document > ? AND p.document <= ?
GROUP BY p.document, p.collection, p.generation, p.model
ORDER BY p.document, p.collection, p.generation, p.model
"""
ONE_DOCUMENT = """
SELECT p.document, c.name, p.generation, p.model, count(*), max(p.at)
FROM vector_points p JOIN vector_collections c ON c.id = p.collection
WHERE p.document = ? GROUP BY p.collection, p.generation, p.model
"""


class SqliteVectors:
    """A VectorStore in a file. Only the owner of the process can read it. Space of deleted points is used again."""

    def __init__(self, path: Path, *, cache_bytes: int = CACHE_BYTES) -> None:
        self._file = VectorFile(path)
        self._search = VectorSearch(self._file, cache_bytes)
        self._threads: VectorThreads | None = None

    async def prepare(self) -> None:
        await self._write(self._file.prepare)

    async def create(self, collection: str, dimensions: int) -> None:
        check_positive(dimensions)
        await self._write(self._create, collection, dimensions)

    def _create(self, collection: str, dimensions: int) -> None:
        self._file.prepare()
        with self._file.writing() as connection:
            connection.execute(CREATE, (collection, dimensions))
            found = collection_in(connection, collection)
        check_same(found.dimensions, dimensions)

    async def drop(self, collection: str) -> bool:
        return await self._write(self._drop, collection)

    def _drop(self, collection: str) -> bool:
        while True:
            with self._file.writing() as connection:
                found = find_collection(connection, collection)
                if found is None:
                    return False
                if connection.execute(DELETE_ALL, (found.first, found.next, BATCH)).rowcount < BATCH:
                    connection.execute("DELETE FROM vector_collections WHERE id = ?", (found.id,))
                    return True

    async def collections(self) -> AsyncIterator[Collection]:
        after = ""
        while page := await self._read(self._collections, after):
            for collection in page:
                yield collection
            after = page[-1].name

    def _collections(self, after: str) -> list[Collection]:
        with self._file.reading() as connection:
            return [Collection(*row) for row in connection.execute(COLLECTIONS, (after, PAGE))]

    async def put(self, collection: str, points: Sequence[Point]) -> None:
        await self._write(self._put, collection, latest(points))

    def _put(self, collection: str, points: Sequence[Point]) -> None:
        vectors = unit_vectors(points) if points else None
        now = time.time_ns() // 1000
        with self._file.writing() as connection:
            found = collection_in(connection, collection)
            if vectors is None:
                return
            check_dimensions(vectors, found.dimensions)
            places = [(point.document.bytes, found.id, point.generation, point.number) for point in points]
            removed = connection.executemany(DELETE_PLACE, places).rowcount
            connection.executemany(
                INSERT,
                (
                    (id, *place, point.model, now, vector.astype("<f4", copy=False).tobytes())
                    for id, (place, point, vector) in enumerate(zip(places, points, vectors, strict=True), found.next)
                ),
            )
            connection.execute(COUNT_CHANGES, (len(points), removed, found.id))

    async def delete(
        self, collection: str, document: UUID, *, generation: int | None = None, other_than: int | None = None
    ) -> int:
        check_one_of(generation, other_than)
        return await self._write(self._delete, collection, document, generation, other_than)

    def _delete(self, collection: str, document: UUID, generation: int | None, other_than: int | None) -> int:
        deleted = 0
        while True:
            with self._file.writing() as connection:
                found = find_collection(connection, collection)
                if found is None:
                    return deleted
                which = (document.bytes, found.id, generation, other_than, BATCH)
                batch = connection.execute(DELETE, which).rowcount
                connection.execute(COUNT_CHANGES, (0, batch, found.id))
            deleted += batch
            if batch < BATCH:
                return deleted

    async def count(self, collection: str, document: UUID) -> Mapping[int, int]:
        return await self._read(self._count, collection, document)

    def _count(self, collection: str, document: UUID) -> dict[int, int]:
        with self._file.reading() as connection:
            return dict(connection.execute(COUNT, (document.bytes, collection)).fetchall())

    async def search(
        self, collection: str, vector: Vector, limit: int, *, documents: Sequence[UUID] | None = None
    ) -> list[VectorHit]:
        return await self._read(self._search.nearest, collection, vector, limit, documents)

    async def documents(self) -> AsyncIterator[DocumentPoints]:
        after = b""
        while page := await self._read(self._documents, after):
            for document in page:
                yield document
            after = page[-1].document.bytes

    def _documents(self, after: bytes) -> list[DocumentPoints]:
        with self._file.reading() as connection:
            [last] = connection.execute(LAST_OF_PAGE, (after, PAGE)).fetchone()
            if last is None:
                return []
            return list(documents_of(groups_in(connection.execute(PAGE_OF_DOCUMENTS, (after, last)))))

    async def points_of(self, documents: Sequence[UUID]) -> Mapping[UUID, DocumentPoints]:
        return await self._read(self._points_of, documents)

    def _points_of(self, documents: Sequence[UUID]) -> dict[UUID, DocumentPoints]:
        with self._file.reading() as connection:
            found = (
                each
                for document in documents
                for each in documents_of(groups_in(connection.execute(ONE_DOCUMENT, (document.bytes,))))
            )
            return {each.document: each for each in found}

    async def close(self) -> None:
        if self._threads is not None:
            self._threads.close()
            self._threads = None
        self._file.close()
        self._search.forget()

    async def _read(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._opened().readers.run(work, *args, **kwargs)

    async def _write(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._opened().writer.run(work, *args, **kwargs)

    def _opened(self) -> "VectorThreads":
        if self._threads is None or self._threads.process != os.getpid():
            self._threads = VectorThreads()
        return self._threads


class VectorThreads:
    """Threads of one process: a forked one has none. One writes, so that writers wait in line and not in SQLite."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.writer = StorageThreads("rowmill-vectors-writer", 1)
        self.readers = StorageThreads("rowmill-vectors-reader", READERS)

    def close(self) -> None:
        self.writer.close()
        self.readers.close()


def groups_in(rows: Iterable[tuple[Any, ...]]) -> Iterator[PointGroup]:
    for document, collection, generation, model, count, at in rows:
        yield PointGroup(UUID(bytes=document), Placed(collection, generation, model), count, time_of(at))
