"""Store vectors on a Qdrant server.

The server lists points sorted by their ids. An id begins with the first half of the document's, so a list is sorted by
document, whatever its length.
"""

import asyncio
import heapq
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby
from typing import Any, TypeVar
from uuid import UUID

from pydantic import SecretStr
from qdrant_client import AsyncQdrantClient, models

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
from rowmill_systems.parts.vectors.grouping import PointGroup, documents_of, time_of
from rowmill_systems.parts.vectors.port import Collection, DocumentPoints, Placed, Point, Vector, VectorHit
from rowmill_systems.parts.vectors.qdrant_errors import CollectionThere, translated

T = TypeVar("T")
SECONDS = 60.0
PAGE = 1_000
"""Points in one response."""
MOST_HELD = 50_000
"""Points of all collections that are held while they are listed side by side."""
BATCH_BYTES = 4 * 1024 * 1024
"""Vectors in one request, before JSON makes them three times as long. The server takes 32 MB."""
FEW = 500
"""Documents in one filter."""
STRONG = models.WriteOrdering.STRONG
MAJORITY = models.ReadConsistencyType.MAJORITY
INDEXES = {
    "document": models.PayloadSchemaType.KEYWORD,
    "generation": models.PayloadSchemaType.INTEGER,
}


class QdrantVectors:
    """A VectorStore on Qdrant. Points in its collections that others wrote are left alone and are not seen."""

    def __init__(
        self,
        url: str,
        api_key: SecretStr | None = None,
        *,
        seconds: float = SECONDS,
        connect: Callable[..., AsyncQdrantClient] = AsyncQdrantClient,
    ) -> None:
        self._url, self._key, self._seconds, self._connect = url, api_key, seconds, connect
        self._client: AsyncQdrantClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def prepare(self) -> None:
        """There is nothing to make: look whether the server answers."""
        await self._call(self._opened().get_collections())

    async def create(self, collection: str, dimensions: int) -> None:
        check_positive(dimensions)
        if (found := await self._find(collection)) is None:
            vectors = models.VectorParams(size=dimensions, distance=models.Distance.DOT)
            try:
                await self._call(self._opened().create_collection(collection, vectors))
            except CollectionThere:
                found = await self._find(collection)
        if found is not None:
            check_same(found.dimensions, dimensions)
        for name, schema in INDEXES.items():
            await self._call(self._opened().create_payload_index(collection, name, schema, ordering=STRONG))

    async def drop(self, collection: str) -> bool:
        return await self._call(self._opened().delete_collection(collection))

    async def collections(self) -> AsyncIterator[Collection]:
        listed = await self._call(self._opened().get_collections())
        for name in sorted(each.name for each in listed.collections):
            if (found := await self._find(name)) is not None and found.dimensions:
                yield found

    async def put(self, collection: str, points: Sequence[Point]) -> None:
        points = latest(points)
        vectors = unit_vectors(points) if points else None
        found = await self._existing(collection)
        if vectors is None:
            return
        check_dimensions(vectors, found.dimensions)
        at = time.time_ns() // 1000
        made = [
            models.PointStruct(
                id=point_id(point.document, point.generation, point.number),
                vector=vector.tolist(),
                payload={
                    "document": str(point.document), "generation": point.generation, "number": point.number,
                    "model": point.model, "at": at,
                },
            )
            for point, vector in zip(points, vectors, strict=True)
        ]  # fmt: skip
        batch = max(1, BATCH_BYTES // vectors[0].nbytes)
        for first in range(0, len(made), batch):
            few = made[first : first + batch]
            confirm(await self._call(self._opened().upsert(collection, few, wait=True, ordering=STRONG)))

    async def delete(
        self, collection: str, document: UUID, *, generation: int | None = None, other_than: int | None = None
    ) -> int:
        check_one_of(generation, other_than)
        which = models.Filter(
            must=[equal("document", str(document)), *([] if generation is None else [equal("generation", generation)])],
            must_not=[] if other_than is None else [equal("generation", other_than)],
        )
        try:
            found = await self._call(self._opened().count(collection, which, exact=True))
            # Even if there is none: it comes behind what a writer that died has sent.
            selector = models.FilterSelector(filter=which)
            confirm(await self._call(self._opened().delete(collection, selector, wait=True, ordering=STRONG)))
        except CollectionMissing:
            return 0
        return found.count

    async def count(self, collection: str, document: UUID) -> Mapping[int, int]:
        counts: dict[int, int] = {}
        async for group in self._groups(collection, of_documents([document]), PAGE):
            counts[group.placed.generation] = counts.get(group.placed.generation, 0) + group.count
        return counts

    async def search(
        self, collection: str, vector: Vector, limit: int, *, documents: Sequence[UUID] | None = None
    ) -> list[VectorHit]:
        found = await self._existing(collection)
        query = unit_vector(vector, found.dimensions)
        if limit < 1 or (documents is not None and not documents):
            return []
        answer = await self._call(
            self._opened().query_points(
                collection,
                query.tolist(),
                query_filter=None if documents is None else of_documents(documents),
                search_params=models.SearchParams(hnsw_ef=max(128, 2 * limit)),
                limit=limit,
                with_payload=["document", "generation", "number"],
                consistency=MAJORITY,
            )
        )
        return [
            VectorHit(UUID(payload["document"]), payload["generation"], payload["number"], point.score)
            for point in answer.points
            if (payload := ours(point.payload))
        ]

    async def documents(self) -> AsyncIterator[DocumentPoints]:
        names = [collection.name async for collection in self.collections()]
        page = max(10, min(PAGE, MOST_HELD // max(1, len(names))))
        document: UUID | None = None
        groups: list[PointGroup] = []
        async for group in merged([self._groups(name, None, page) for name in names]):
            if group.document != document:
                for each in documents_of(groups):
                    yield each
                document, groups = group.document, []
            groups.append(group)
        for each in documents_of(groups):
            yield each

    async def points_of(self, documents: Sequence[UUID]) -> Mapping[UUID, DocumentPoints]:
        found: list[PointGroup] = []
        async for collection in self.collections():
            for first in range(0, len(documents), FEW):
                few = of_documents(documents[first : first + FEW])
                found += [group async for group in self._groups(collection.name, few, PAGE)]
        found.sort(key=lambda group: group.document)
        return {each.document: each for each in documents_of(found)}

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.close()

    async def _find(self, collection: str) -> Collection | None:
        """Return a collection; with 0 dimensions if it is not one of ours."""
        try:
            found = await self._call(self._opened().get_collection(collection))
        except CollectionMissing:
            return None
        vectors = found.config.params.vectors
        return Collection(collection, vectors.size if isinstance(vectors, models.VectorParams) else 0)

    async def _existing(self, collection: str) -> Collection:
        if (found := await self._find(collection)) is None:
            raise CollectionMissing("there is no such collection, or no longer")
        return found

    async def _groups(self, collection: str, which: models.Filter | None, page: int) -> AsyncIterator[PointGroup]:
        """Yield the points of a collection by document and place, sorted by document. Ends if the collection is
        dropped: it has no points then."""
        together: list[PointGroup] = []
        try:
            async for point in self._points(collection, which, page):
                if together and half_of(point.document) != half_of(together[0].document):
                    for group in summed(together):
                        yield group
                    together = []
                together.append(point)
        except CollectionMissing:
            return
        for group in summed(together):
            yield group

    async def _points(self, collection: str, which: models.Filter | None, page: int) -> AsyncIterator[PointGroup]:
        following: Any = None
        while True:
            points, following = await self._call(
                self._opened().scroll(
                    collection, which, limit=page, offset=following, with_payload=True, consistency=MAJORITY
                )
            )
            for point in points:
                if payload := ours(point.payload):
                    placed = Placed(collection, payload["generation"], payload["model"])
                    yield PointGroup(UUID(payload["document"]), placed, 1, time_of(payload["at"]))
            if following is None:
                return

    async def _call(self, call: Awaitable[T]) -> T:
        with translated():
            async with asyncio.timeout(self._seconds):
                return await call

    def _opened(self) -> AsyncQdrantClient:
        """Return the client of this event loop; connections belong to one."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            key = None if self._key is None else self._key.get_secret_value()
            self._loop = loop
            self._client = self._connect(
                url=self._url, api_key=key, timeout=int(self._seconds) + 1, check_compatibility=False
            )
        return self._client


def point_id(document: UUID, generation: int, number: int) -> str:
    """Return the id of a point: the first half of the document's, and a hash of its place."""
    place = blake2b(document.bytes + f"{generation}/{number}".encode(), digest_size=8)
    return str(UUID(bytes=half_of(document) + place.digest()))


def half_of(document: UUID) -> bytes:
    return document.bytes[:8]


def equal(field: str, value: str | int) -> models.FieldCondition:
    return models.FieldCondition(key=field, match=models.MatchValue(value=value))


def of_documents(documents: Sequence[UUID]) -> models.Filter:
    names = [str(document) for document in documents]
    return models.Filter(must=[models.FieldCondition(key="document", match=models.MatchAny(any=names))])


def ours(payload: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the payload of a point that we wrote."""
    return payload if payload and payload.keys() >= {"document", "generation", "number"} else None


def confirm(result: models.UpdateResult) -> None:
    """Raise VectorsUnavailable unless the server says that the change is done."""
    if result.status != models.UpdateStatus.COMPLETED:
        raise VectorsUnavailable(f"Qdrant has not confirmed the change: {result.status}")


def summed(points: Sequence[PointGroup]) -> list[PointGroup]:
    """Put points of the same document and place together, sorted by document."""

    def place(point: PointGroup) -> tuple[UUID, int, str]:
        return point.document, point.placed.generation, point.placed.model

    groups = (list(found) for _, found in groupby(sorted(points, key=place), key=place))
    return [PointGroup(of[0].document, of[0].placed, len(of), max(point.at for point in of)) for of in groups]


async def merged(streams: Sequence[AsyncIterator[PointGroup]]) -> AsyncIterator[PointGroup]:
    """Merge streams that are sorted by document into one."""
    heads = [
        (first.document, number, first) for number, each in enumerate(streams) if (first := await anext(each, None))
    ]
    heapq.heapify(heads)
    while heads:
        _, number, group = heads[0]
        yield group
        if following := await anext(streams[number], None):
            heapq.heapreplace(heads, (following.document, number, following))
        else:
            heapq.heappop(heads)
