"""A library of two documents, and ways to damage it behind the system's back."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import sqlalchemy as sa

from rowmill.testing import QUICK
from rowmill_systems.knowledge.bases import create_kb
from rowmill_systems.knowledge.consistency import ConsistencyReport, check
from rowmill_systems.knowledge.events.deleting import archive_document
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import KbDocument, KnowledgeBase, OutboxEvent
from rowmill_systems.knowledge.names import collection_of, owner_of
from rowmill_systems.knowledge.queues import UNFINISHED_EVENTS
from rowmill_systems.knowledge.search.chunk_rows import insert_chunks
from rowmill_systems.parts.clock import now
from rowmill_systems.parts.vectors.port import Point
from systems.tests.knowledge.harness import PAPER, HashEmbedder, advance, document, drain, events, knowledge_on, sql

HOUR = 3600.0


@dataclass
class Library:
    """A system with a knowledge base and two documents."""

    knowledge: Knowledge
    kb_id: UUID
    one: UUID
    other: UUID

    async def check(self, *, execute: bool = True) -> ConsistencyReport:
        return await check(self.knowledge, execute=execute)

    async def found(self, *, execute: bool = True) -> dict[str, list[str]]:
        """Compare, and return the keys of the findings by kind."""
        report = await self.check(execute=execute)
        assert report.unreachable == []
        found: dict[str, list[str]] = {}
        for finding in report.run.findings:
            found.setdefault(finding.kind, []).append(finding.key)
        return found

    async def assert_mended(self) -> None:
        """Let the events do their work, also those that wait for others, and assert that nothing is left to find."""
        for seconds in (2, 60, 2, 60):  # a deletion waits for a second, a document for half a minute
            await drain(self.knowledge)
            if not [each for each in await events(self.knowledge) if each.state in UNFINISHED_EVENTS]:
                break
            await advance(self.knowledge, seconds)
        else:
            await drain(self.knowledge)
        assert await self.found() == {}
        assert await self.knowledge.consistency.reconciliation.findings() == []

    async def added_since(self, last: int) -> list[tuple[str, str]]:
        """Return type and aggregate of the events that were added after one."""
        return [(each.event_type, each.aggregate_id) for each in await events(self.knowledge) if each.id > last]

    async def last_event(self) -> int:
        return max([int(each.id) for each in await events(self.knowledge)])

    async def change(self, document_id: UUID, *, age: float | None = None, **values: Any) -> None:
        """Write columns of a document, as if its last change was some seconds ago."""
        await self._change(KbDocument, document_id, age, values)

    async def change_kb(self, *, age: float | None = None, **values: Any) -> None:
        await self._change(KnowledgeBase, self.kb_id, age, values)

    async def _change(self, table: Any, key: UUID, age: float | None, values: dict[str, Any]) -> None:
        def work(connection: sa.Connection) -> None:
            if age is not None:
                values["updated_at"] = now(connection.dialect.name, -age)
            connection.execute(sa.update(table).where(table.id == key).values(values))

        await self.knowledge.mill.run(work)

    async def processing_since(self, document_id: UUID, seconds: float, *, changed: float | None = None) -> None:
        """Make a document look as if it was processed for this number of seconds."""

        def work(connection: sa.Connection) -> None:
            dialect = connection.dialect.name
            values = {
                "status": "processing",
                "processing_started_at": now(dialect, -seconds),
                "updated_at": now(dialect, -(seconds if changed is None else changed)),
            }
            connection.execute(sa.update(KbDocument).where(KbDocument.id == document_id).values(values))

        await self.knowledge.mill.run(work)

    async def sql(self, statement: str, **values: Any) -> int:
        """Run plain SQL, as an operator would. Ids are written as the database has them."""
        sqlite = self.knowledge.mill.url.get_backend_name() == "sqlite"
        as_stored = {name: each.hex if sqlite and isinstance(each, UUID) else each for name, each in values.items()}
        return await sql(self.knowledge, statement, **as_stored)

    async def add_event(
        self, name: str, state: str, *, created_days: float, processed_days: float | None, copies: int = 1
    ) -> None:
        """Write events as if they were made some days ago."""

        def work(connection: sa.Connection) -> None:
            dialect = connection.dialect.name
            processed_at = None if processed_days is None else now(dialect, days=-processed_days)
            row = {"event_type": name, "state": state, "attempts": 5 if state == "dead" else 0}
            times = {"created_at": now(dialect, days=-created_days), "processed_at": processed_at}
            connection.execute(sa.insert(OutboxEvent).values([row | times] * copies))

        await self.knowledge.mill.run(work)

    async def set_event(self, document_id: UUID, state: str, **values: Any) -> None:
        """Put the event of a document into a state."""

        def work(connection: sa.Connection) -> None:
            event_id = sa.select(KbDocument.event_id).where(KbDocument.id == document_id).scalar_subquery()
            if state == "processing":
                values.update(lease=7, leased_until=now(connection.dialect.name, HOUR))
            changed = sa.update(OutboxEvent).where(OutboxEvent.id == event_id)
            connection.execute(changed.values(state=state, processed_at=None, **values))

        await self.knowledge.mill.run(work)

    async def put_points(
        self, document_id: UUID, generation: int, numbers: Sequence[int], *, kb_id: UUID | None = None, model: str = ""
    ) -> None:
        embedder = self.knowledge.embedder
        vector = np.ones(embedder.dimensions, np.float32)
        points = [Point(document_id, generation, number, vector, model or embedder.name) for number in numbers]
        collection = collection_of(kb_id or self.kb_id)
        await self.knowledge.vectors.create(collection, embedder.dimensions)
        await self.knowledge.vectors.put(collection, points)

    async def put_object(self, kb_id: UUID, document_id: UUID, content: bytes = b"left behind") -> str:
        async with self.knowledge.storage.receive() as incoming:
            await incoming.write(content)
            return (await incoming.keep(owner_of(kb_id), document_id)).key

    async def archive(self, document_id: UUID) -> None:
        """Delete a document from all stores, as its event does."""
        row = await self.row(document_id)
        await self.knowledge.vectors.delete(collection_of(row.kb_id), document_id)
        await self.knowledge.storage.delete(row.object_key)
        await self.knowledge.mill.run(lambda connection: archive_document(connection, document_id))

    async def row(self, document_id: UUID | None = None) -> Any:
        return await document(self.knowledge, document_id or self.one)


@asynccontextmanager
async def library_on(url: str, folder: Path, **settings: Any) -> AsyncIterator[Library]:
    """Open a system with a knowledge base and two documents that are ready, as runs would have left them."""
    settings = {"grace_seconds": 0, "schedules": False} | settings
    async with knowledge_on(url, folder, **settings) as knowledge:
        kb_id = await create_kb(knowledge, "papers")
        yield Library(knowledge, kb_id, *[await ready_document(knowledge, kb_id) for _ in range(2)])


async def ready_document(knowledge: Knowledge, kb_id: UUID, passages: int = 2) -> UUID:
    """Make a document that is ready in all stores, as a run would have left it, without reading a file."""
    content, embedder, document_id = f"{PAPER.decode()}{uuid4()}".encode(), knowledge.embedder, uuid4()
    async with knowledge.storage.receive() as incoming:
        await incoming.write(content)
        stored = await incoming.keep(owner_of(kb_id), document_id)
    texts = [f"passage {number} of {document_id}" for number in range(passages)]
    vectors = await embedder.embed(texts)
    points = [Point(document_id, 1, number, vectors[number], embedder.name) for number in range(passages)]
    await knowledge.vectors.create(collection_of(kb_id), embedder.dimensions)
    await knowledge.vectors.put(collection_of(kb_id), points)
    model = {"embedding_model": embedder.name, "dimensions": embedder.dimensions}

    def write(connection: sa.Connection) -> None:
        processed = {
            "event_type": "document.process", "aggregate_id": str(document_id), "state": "processed",
            "processed_at": now(connection.dialect.name),
        }  # fmt: skip
        event_id = connection.scalar(sa.insert(OutboxEvent).values(processed).returning(OutboxEvent.id))
        row = {
            "id": document_id, "kb_id": kb_id, "filename": "a.md", "size": stored.size, "sha256": stored.sha256,
            "object_key": stored.key, "status": "ready", "generation": 1, "indexed_generation": 1,
            "chunk_count": passages, "event_id": event_id, **model,
        }  # fmt: skip
        connection.execute(sa.insert(KbDocument).values(row | {"processed_at": now(connection.dialect.name)}))
        chunks = [
            {"document_id": document_id, "generation": 1, "number": number, "kb_id": kb_id, "text": text}
            for number, text in enumerate(texts)
        ]
        insert_chunks(connection, chunks)
        since = now(connection.dialect.name)
        connection.execute(sa.update(KnowledgeBase).where(KnowledgeBase.id == kb_id).values(model_since=since, **model))

    await knowledge.mill.run(write)
    return document_id


@asynccontextmanager
async def knowledge_on_same_stores(knowledge: Knowledge, embedder: HashEmbedder) -> AsyncIterator[Knowledge]:
    """Open the system once more, as a process of a newer deployment does that has another model."""
    made = Knowledge(knowledge.settings, embedder=embedder)
    made.mill.settings = QUICK
    async with made.opened():
        yield made


def strange_id() -> UUID:
    """Return an id that no row has."""
    return uuid4()
