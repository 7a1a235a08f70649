"""Store vectors in PostgreSQL, with its extension pgvector.

A search compares all vectors of the collection, so it misses none. For collections where that takes too long,
`build_index` makes an HNSW index, which takes less and misses some: how many depends on the vectors, so measure it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from uuid import UUID

import asyncpg

from rowmill_systems.parts.vectors.checks import (
    check_dimensions,
    check_one_of,
    check_positive,
    check_same,
    latest,
    unit_vector,
    unit_vectors,
)
from rowmill_systems.parts.vectors.errors import CollectionMissing, VectorsUnavailable
from rowmill_systems.parts.vectors.grouping import PointGroup, documents_of
from rowmill_systems.parts.vectors.pgvector_errors import translated
from rowmill_systems.parts.vectors.port import Collection, DocumentPoints, Placed, Point, Vector, VectorHit

PAGE = 500
"""Documents or collections that are read at once."""
CONNECTIONS = 8
CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 120.0
BUILD_SECONDS = 86_400.0
LEAST_LOOKED_AT = 200
"""Points of an HNSW index that a search looks at: more find more."""
LOCK = 7_083_541_620_441
"""The advisory lock of those who make the tables; with the id of a collection, of those who make its index."""
PARAMETERS = (
    "host", "port", "user", "password", "passfile", "service", "sslmode", "ssl", "sslcert", "sslkey", "sslrootcert",
    "sslcrl", "sslpassword", "target_session_attrs",
)  # fmt: skip
"""What asyncpg takes from a URL. It would pass others to the server, which does not know libpq's."""

PREPARED = "SELECT to_regclass('rowmill_vectors.points') IS NOT NULL"
TABLES = """
CREATE EXTENSION IF NOT EXISTS vector;
CREATE SCHEMA IF NOT EXISTS rowmill_vectors;
CREATE TABLE IF NOT EXISTS rowmill_vectors.collections (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    dimensions integer NOT NULL,
    indexed boolean NOT NULL DEFAULT false
);
CREATE TABLE IF NOT EXISTS rowmill_vectors.points (
    document uuid NOT NULL,
    collection bigint NOT NULL REFERENCES rowmill_vectors.collections ON DELETE CASCADE,
    generation bigint NOT NULL,
    number bigint NOT NULL,
    model text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    vector vector NOT NULL,
    PRIMARY KEY (document, collection, generation, number) INCLUDE (model, at)
);
ALTER TABLE rowmill_vectors.points ALTER vector SET STORAGE MAIN;
CREATE INDEX IF NOT EXISTS points_collection ON rowmill_vectors.points (collection);
"""
"""Vectors stay in their rows, where a search reads them in one go."""

CREATE = "INSERT INTO rowmill_vectors.collections (name, dimensions) VALUES ($1, $2) ON CONFLICT DO NOTHING"
FIND = "SELECT id, dimensions, indexed FROM rowmill_vectors.collections WHERE name = $1"
FIND_AND_KEEP = "SELECT id, dimensions FROM rowmill_vectors.collections WHERE name = $1 FOR KEY SHARE"
DROP = "DELETE FROM rowmill_vectors.collections WHERE name = $1 RETURNING id, indexed"
COLLECTIONS = "SELECT name, dimensions FROM rowmill_vectors.collections WHERE name > $1 ORDER BY name LIMIT $2"
PUT = """
INSERT INTO rowmill_vectors.points (collection, document, generation, number, model, vector)
VALUES ($1, $2, $3, $4, $5, $6::real[]::vector)
ON CONFLICT (document, collection, generation, number)
DO UPDATE SET model = excluded.model, at = excluded.at, vector = excluded.vector
"""
DELETE = """
DELETE FROM rowmill_vectors.points
WHERE document = $2 AND collection = (SELECT id FROM rowmill_vectors.collections WHERE name = $1)
  AND ($3::bigint IS NULL OR generation = $3) AND ($4::bigint IS NULL OR generation <> $4)
"""
COUNT = """
SELECT generation, count(*) FROM rowmill_vectors.points
WHERE document = $2 AND collection = (SELECT id FROM rowmill_vectors.collections WHERE name = $1) GROUP BY generation
"""
SEARCH = """
SELECT document, generation, number, -(vector <#> $2::real[]::vector) AS score FROM rowmill_vectors.points
WHERE collection = $1 ORDER BY vector <#> $2::real[]::vector LIMIT $3
"""
SEARCH_DOCUMENTS = """
SELECT document, generation, number, -(vector <#> $2::real[]::vector) AS score FROM rowmill_vectors.points
WHERE collection = $1 AND document = ANY($4::uuid[]) ORDER BY vector <#> $2::real[]::vector LIMIT $3
"""
HNSW = """
CREATE INDEX CONCURRENTLY IF NOT EXISTS {index} ON rowmill_vectors.points
USING hnsw ((vector::vector({dimensions})) vector_ip_ops) WHERE collection = {id}
"""
LOCK_BUILD = "SELECT pg_try_advisory_lock($1)"
IS_BROKEN = "SELECT NOT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)"
"""A build that broke off leaves an index that is kept up and not used."""
INDEXED = "UPDATE rowmill_vectors.collections SET indexed = true WHERE id = $1"
LOOK_AT = "SELECT set_config('hnsw.ef_search', $1, true)"
SEARCH_INDEX = """
SELECT document, generation, number, -(vector::vector({dimensions}) <#> $1::real[]::vector({dimensions})) AS score
FROM rowmill_vectors.points WHERE collection = {id}
ORDER BY vector::vector({dimensions}) <#> $1::real[]::vector({dimensions}) LIMIT $2
"""
PAGE_OF_DOCUMENTS = """
WITH page AS (
    SELECT DISTINCT document FROM rowmill_vectors.points WHERE document >= $1 ORDER BY document LIMIT $2
)
SELECT p.document, c.name, p.generation, p.model, count(*), max(p.at)
FROM rowmill_vectors.points p JOIN rowmill_vectors.collections c ON c.id = p.collection
WHERE p.document >= $1 AND p.document <= (SELECT document FROM page ORDER BY document DESC LIMIT 1)
GROUP BY p.document, c.name, p.generation, p.model ORDER BY p.document
"""
SOME_DOCUMENTS = """
SELECT p.document, c.name, p.generation, p.model, count(*), max(p.at)
FROM rowmill_vectors.points p JOIN rowmill_vectors.collections c ON c.id = p.collection
WHERE p.document = ANY($1::uuid[])
GROUP BY p.document, c.name, p.generation, p.model ORDER BY p.document
"""
FIRST = UUID(int=0)
LAST = UUID(int=2**128 - 1)


class PgVectors:
    """A VectorStore in PostgreSQL, in a schema of its own, `rowmill_vectors`."""

    def __init__(self, url: str) -> None:
        self._url, self._options = for_asyncpg(url)
        self._pool: asyncpg.Pool | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connecting = asyncio.Lock()

    async def prepare(self) -> None:
        async with self._transaction() as connection:
            if await connection.fetchval(PREPARED):
                return
            await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
            await connection.execute(TABLES)

    async def create(self, collection: str, dimensions: int) -> None:
        check_positive(dimensions)
        await self.prepare()
        async with self._transaction() as connection:
            await connection.execute(CREATE, collection, dimensions)
            found = await connection.fetchrow(FIND, collection)
        if found is not None:  # otherwise it was dropped meanwhile
            check_same(found["dimensions"], dimensions)

    async def drop(self, collection: str) -> bool:
        async with self._transaction() as connection:
            dropped = await connection.fetchrow(DROP, collection)
        if dropped is not None and dropped["indexed"]:
            async with self._transaction() as connection:
                await connection.execute(f"DROP INDEX IF EXISTS rowmill_vectors.{index_name(dropped)}")
        return dropped is not None

    async def build_index(self, collection: str) -> None:
        """Make an HNSW index for a large collection. Takes minutes, during which it can be read and written."""
        async with self._connection() as connection:
            found = existing(await connection.fetchrow(FIND, collection))
            index = index_name(found)
            if not await connection.fetchval(LOCK_BUILD, LOCK + found["id"]):
                raise VectorsUnavailable("another process builds this index now")
            if await connection.fetchval(IS_BROKEN, f"rowmill_vectors.{index}"):
                await connection.execute(f"DROP INDEX CONCURRENTLY rowmill_vectors.{index}", timeout=BUILD_SECONDS)
            await connection.execute(HNSW.format(index=index, **found), timeout=BUILD_SECONDS)
            await connection.execute(INDEXED, found["id"])

    async def collections(self) -> AsyncIterator[Collection]:
        after = ""
        while page := await self._rows(COLLECTIONS, after, PAGE):
            for row in page:
                yield Collection(*row)
            after = page[-1]["name"]

    async def put(self, collection: str, points: Sequence[Point]) -> None:
        points = latest(points)
        vectors = unit_vectors(points) if points else None
        async with self._transaction() as connection:
            found = existing(await connection.fetchrow(FIND_AND_KEEP, collection))
            if vectors is None:
                return
            check_dimensions(vectors, found["dimensions"])
            rows = (
                (found["id"], point.document, point.generation, point.number, point.model, vector.tolist())
                for point, vector in zip(points, vectors, strict=True)
            )
            await connection.executemany(PUT, rows)

    async def delete(
        self, collection: str, document: UUID, *, generation: int | None = None, other_than: int | None = None
    ) -> int:
        check_one_of(generation, other_than)
        async with self._transaction() as connection:
            deleted = await connection.execute(DELETE, collection, document, generation, other_than)
            return int(deleted.rpartition(" ")[2])

    async def count(self, collection: str, document: UUID) -> Mapping[int, int]:
        return dict(map(tuple, await self._rows(COUNT, collection, document)))

    async def search(
        self, collection: str, vector: Vector, limit: int, *, documents: Sequence[UUID] | None = None
    ) -> list[VectorHit]:
        async with self._transaction() as connection:
            found = existing(await connection.fetchrow(FIND, collection))
            query = unit_vector(vector, found["dimensions"]).tolist()
            if documents is not None:
                rows = await connection.fetch(SEARCH_DOCUMENTS, found["id"], query, limit, list(documents))
            elif found["indexed"]:
                await connection.execute(LOOK_AT, str(min(1_000, max(LEAST_LOOKED_AT, 2 * limit))))
                rows = await connection.fetch(SEARCH_INDEX.format(**found), query, limit)
            else:
                rows = await connection.fetch(SEARCH, found["id"], query, limit)
        return [VectorHit(*row) for row in rows]

    async def documents(self) -> AsyncIterator[DocumentPoints]:
        first = FIRST
        while page := list(documents_of(groups_in(await self._rows(PAGE_OF_DOCUMENTS, first, PAGE)))):
            for document in page:
                yield document
            if page[-1].document == LAST:
                return
            first = UUID(int=page[-1].document.int + 1)

    async def points_of(self, documents: Sequence[UUID]) -> Mapping[UUID, DocumentPoints]:
        rows = await self._rows(SOME_DOCUMENTS, list(documents))
        return {each.document: each for each in documents_of(groups_in(rows))}

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None and self._loop is asyncio.get_running_loop():
            await pool.close()

    async def _rows(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        async with self._transaction() as connection:
            found: list[asyncpg.Record] = await connection.fetch(statement, *arguments)
            return found

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Any]:
        async with self._connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        with translated():
            pool = await self._connected()
            async with pool.acquire(timeout=CONNECT_SECONDS) as connection:
                yield connection

    async def _connected(self) -> asyncpg.Pool:
        """Return the pool of this event loop; connections belong to one."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._pool, self._loop, self._connecting = None, loop, asyncio.Lock()
        async with self._connecting:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._url, min_size=0, max_size=CONNECTIONS, timeout=CONNECT_SECONDS,
                    command_timeout=STATEMENT_SECONDS, **self._options,
                )  # fmt: skip
            return self._pool


def index_name(collection: asyncpg.Record) -> str:
    return f"points_hnsw_{collection['id']}"


def existing(row: asyncpg.Record | None) -> asyncpg.Record:
    """Return the row of a collection. Raises CollectionMissing."""
    if row is None:
        raise CollectionMissing("there is no such collection, or no longer")
    return row


def groups_in(rows: Sequence[asyncpg.Record]) -> Iterator[PointGroup]:
    for document, collection, generation, model, count, at in rows:
        yield PointGroup(UUID(int=document.int), Placed(collection, generation, model), count, at)


def for_asyncpg(url: str) -> tuple[str, dict[str, Any]]:
    """Return the URL and the options for asyncpg, for a URL as libpq and SQLAlchemy take it."""
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    query = {
        name.replace("ssl", "sslmode") if name == "ssl" else name: given[name] for name in given.keys() & PARAMETERS
    }
    size = given.get("statement_cache_size")
    plain = urlunsplit(parts._replace(scheme="postgresql", query=urlencode(query)))
    return plain, {} if size is None else {"statement_cache_size": int(size)}
