"""Knowledge on a database, a folder, a file of vectors, and a model that needs no files."""

import hashlib
import inspect
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import sqlalchemy as sa

from rowmill.testing import QUICK, Bench
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import Chunk, KbDocument, KnowledgeBase, OutboxEvent
from rowmill_systems.knowledge.names import collection_of, owner_of
from rowmill_systems.knowledge.settings import KnowledgeSettings
from rowmill_systems.knowledge.uploading import upload
from rowmill_systems.parts.documents.document import Document, Kind, Line, Page
from rowmill_systems.parts.documents.limits import DocumentLimits
from rowmill_systems.parts.documents.process import Progress
from rowmill_systems.parts.documents.readers import Readers
from rowmill_systems.parts.embeddings.port import Vectors, normalised

PAPER = b"# Cranes\n\nA crane lifts heavy loads.\n\n# Whales\n\nA whale is a mammal of the sea.\n"


class PlainReaders(Readers):
    """Reads plain text in this process. The real one takes a second to start."""

    def __init__(self) -> None:
        super().__init__(1, DocumentLimits(), "off")
        self.reads: list[str] = []
        self.failure: Exception | None = None

    async def read(
        self, file_bytes: bytes, *, filename: str, media_type: str | None, progress: Progress | None = None
    ) -> Document:
        self.reads.append(filename)
        if self.failure is not None:
            raise self.failure
        if progress is not None:
            progress(1, 1)
        page = Page(1, tuple(map(Line, file_bytes.decode().splitlines())))
        return Document(Kind.TEXT, "text/plain", (page,), "en")


class Outage:
    """Raises an error for calls of some methods, while it lasts; or answers in their place. Notes all calls."""

    def __init__(self, error: Exception, *methods: str) -> None:
        self.error, self.methods = error, set(methods)
        self.calls: list[str] = []
        self.swallows: Any = self
        """What is answered in place of a call; itself: the error is raised."""

    def __call__(self, method: str) -> Any:
        self.calls.append(method)
        if method in self.methods and self.swallows is self:
            raise self.error
        return self.swallows if method in self.methods else self


class Interposed:
    """A store or a model, with an outage before each call."""

    def __init__(self, inner: Any, outage: Outage) -> None:
        self._inner, self._outage = inner, outage

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        async def call(*given: Any, **options: Any) -> Any:
            answer = self._outage(name)
            return await found(*given, **options) if answer is self._outage else answer

        def iterate(*given: Any, **options: Any) -> Any:
            self._outage(name)
            return found(*given, **options)

        return call if inspect.iscoroutinefunction(found) else iterate


class HashEmbedder:
    """A model of the tests: each word has a place in the vector. Texts that share words are near each other."""

    def __init__(self, name: str = "hash", dimensions: int = 64) -> None:
        self.name, self.dimensions = name, dimensions
        self.embedded: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.embedded += texts
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                place = int.from_bytes(hashlib.sha256(f"{self.name} {word}".encode()).digest()[:4], "big")
                vectors[row, place % self.dimensions] += 1.0
        return normalised(vectors)

    async def close(self) -> None:
        pass


def settings_for(url: str, folder: Path, **more: Any) -> KnowledgeSettings:
    stores = {"storage": str(folder / "files"), "vectors": str(folder / "vectors.db")}
    usual: dict[str, Any] = {**stores, "ocr": "off", "password_cost": 1}
    return KnowledgeSettings(**{"database_url": url, **usual} | more)


@asynccontextmanager
async def knowledge_on(
    url: str,
    folder: Path,
    *,
    storage: Any = None,
    vectors: Any = None,
    embedder: Any = None,
    readers: Readers | None = None,
    **settings: Any,
) -> AsyncIterator[Knowledge]:
    """Open a system on a database that has the tables. It reads plain text, unless it gets other `readers`."""
    made = Knowledge(
        settings_for(url, folder, **settings), storage=storage, vectors=vectors, embedder=embedder or HashEmbedder()
    )
    made.mill.settings, made.readers = QUICK, readers or PlainReaders()
    async with made.opened():
        await made.prepare_stores()
        yield made


async def drain(knowledge: Knowledge) -> None:
    """Work until no event and no upload is due. Schedules are left out: their ticks come with the minute."""
    await knowledge.mill.drain(["outbox", "uploads"], settings=QUICK)


async def advance(knowledge: Knowledge, seconds: float) -> None:
    """Let time pass for all events and uploads."""
    await Bench(knowledge.mill).advance(seconds)


async def put(
    knowledge: Knowledge, kb_id: UUID, content: str | bytes = PAPER, name: str = "a.md", media_type: str | None = None
) -> UUID:
    """Upload a file. Return the id of its document."""
    whole = content.encode() if isinstance(content, str) else content

    async def chunks() -> AsyncIterator[bytes]:
        yield whole

    return await upload(knowledge, kb_id, chunks(), filename=name, media_type=media_type)


async def read(knowledge: Knowledge, statement: Any) -> Sequence[Any]:
    return await knowledge.mill.run(lambda connection: connection.execute(statement).all(), write=False)


async def sql(knowledge: Knowledge, statement: str, **values: Any) -> int:
    """Run plain SQL, as an operator would. Return how many rows it changed."""
    return await knowledge.mill.run(lambda connection: connection.execute(sa.text(statement), values).rowcount)


async def scalars(knowledge: Knowledge, statement: str, **values: Any) -> list[Any]:
    """Return the first column of plain SQL."""
    wanted = sa.text(statement).bindparams(**values)
    return [row[0] for row in await read(knowledge, wanted)]


async def document(knowledge: Knowledge, document_id: UUID) -> Any:
    """Return the row of a document, whatever its status."""
    [row] = await read(knowledge, sa.select(KbDocument.__table__).where(KbDocument.id == document_id))
    return row


async def kb_row(knowledge: Knowledge, kb_id: UUID) -> Any:
    """Return the row of a knowledge base, whatever its status."""
    [row] = await read(knowledge, sa.select(KnowledgeBase.__table__).where(KnowledgeBase.id == kb_id))
    return row


async def events(knowledge: Knowledge) -> Sequence[Any]:
    """Return all rows of the outbox, the oldest first."""
    return await read(knowledge, sa.select(OutboxEvent.__table__).order_by(OutboxEvent.id))


async def chunks_of(knowledge: Knowledge, document_id: UUID) -> Sequence[Any]:
    wanted = sa.select(Chunk.__table__).where(Chunk.document_id == document_id)
    return await read(knowledge, wanted.order_by(Chunk.generation, Chunk.number))


async def points_of(knowledge: Knowledge, kb_id: UUID, document_id: UUID) -> dict[int, int]:
    """Return how many points a document has in the vector store, by generation."""
    found = await knowledge.vectors.count(collection_of(kb_id), document_id)
    return {generation: number for generation, number in found.items() if number}


async def objects_of(knowledge: Knowledge, kb_id: UUID) -> list[str]:
    return [key async for key, _ in knowledge.storage.keys(owner_of(kb_id))]


async def assert_consistent(knowledge: Knowledge, kb_id: UUID, document_id: UUID) -> None:
    """Assert that a document is ready, and that all stores have exactly what belongs to it."""
    row = await document(knowledge, document_id)
    assert (row.status, row.indexed_generation, row.last_error) == ("ready", row.generation, None)
    chunks = await chunks_of(knowledge, document_id)
    assert [(each.generation, each.number) for each in chunks] == [(row.generation, n) for n in range(row.chunk_count)]
    assert row.chunk_count > 0
    assert await points_of(knowledge, kb_id, document_id) == {row.generation: row.chunk_count}
    assert row.object_key in await objects_of(knowledge, kb_id)


async def assert_gone(knowledge: Knowledge, kb_id: UUID, document_id: UUID) -> None:
    """Assert that a document is archived, and that no store has anything of it."""
    row = await document(knowledge, document_id)
    assert row.status == "archived"
    assert row.deleted_at is not None
    assert await chunks_of(knowledge, document_id) == []
    assert await points_of(knowledge, kb_id, document_id) == {}
    assert row.object_key not in await objects_of(knowledge, kb_id)
