"""Documents through the whole system, beside the same parts called one after the other in a plain loop.

The system: an upload, its event, a claim, reading, passages, vectors, a check of them, and one transaction that shows
the document; all of it fenced, and resumable after a kill. The loop: store the object, read, split, embed, put the
vectors, insert document and passages. Both have the same reading process, model and stores, and both begin warm.
"""

import asyncio
import mimetypes
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from rowmill_systems.knowledge.bases import create_kb
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import DocumentStatus, KbDocument
from rowmill_systems.knowledge.names import collection_of, owner_of
from rowmill_systems.knowledge.search.chunk_rows import insert_chunks
from rowmill_systems.knowledge.settings import KnowledgeSettings
from rowmill_systems.knowledge.uploading import upload
from rowmill_systems.parts.objects.port import Stored
from rowmill_systems.parts.passages import Passage, split
from rowmill_systems.parts.vectors.port import Point

ROUNDS = 3
BATCH = 64
"""Passages that are embedded at once, in both."""
QUEUES, LOOK_SECONDS = ("outbox", "uploads"), 0.1
Way = Callable[[Knowledge, UUID, Sequence[Path]], Awaitable[None]]


def settings_in(folder: Path, url: str) -> KnowledgeSettings:
    return KnowledgeSettings(
        database_url=url, storage=str(folder / "objects"), vectors=str(folder / "vectors.db"), ocr="off"
    )


async def rate_of(way: Way, url: str, folder: Path, papers: Sequence[Path]) -> float:
    """Return how many documents per second one way takes in, on an empty database and empty stores."""
    knowledge = Knowledge(settings_in(folder, url))
    await knowledge.migrate()
    async with knowledge.opened():
        kb_id = await create_kb(knowledge, "Papers")
        await (await knowledge.open_embedder()).embed(["to begin with"])
        await knowledge.vectors.create(collection_of(kb_id), knowledge.embedder.dimensions)
        for kind in {path.suffix: path for path in papers}.values():  # the reader imports what a kind needs
            await knowledge.readers.read(kind.read_bytes(), filename=kind.name, media_type=media_type(kind))
        began = time.perf_counter()
        await way(knowledge, kb_id, papers)
        seconds = time.perf_counter() - began
        if await ready(knowledge) != len(papers):
            raise SystemExit(f"{await ready(knowledge)} documents of {len(papers)} are ready")
    return len(papers) / seconds


async def whole_system(knowledge: Knowledge, kb_id: UUID, papers: Sequence[Path]) -> None:
    """Upload one document after the other, while a worker processes them, until all are ready."""
    async with knowledge.mill.worker(QUEUES) as worker:
        work = asyncio.create_task(worker.run())
        await upload_all(knowledge, kb_id, papers)
        while await ready(knowledge) < len(papers) and not work.done():
            await asyncio.sleep(LOOK_SECONDS)
        worker.stop()
        await work


async def upload_all(knowledge: Knowledge, kb_id: UUID, papers: Sequence[Path]) -> None:
    for path in papers:
        chunks = once(path.read_bytes())
        await upload(knowledge, kb_id, chunks, filename=path.name, media_type=media_type(path))


async def once(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def plain_loop(knowledge: Knowledge, kb_id: UUID, papers: Sequence[Path]) -> None:
    """Call the same parts for one document after the other."""
    model = knowledge.embedder
    for path in papers:
        document_id, content = uuid4(), path.read_bytes()
        async with knowledge.storage.receive() as incoming:
            await incoming.write(content)
            stored = await incoming.keep(owner_of(kb_id), document_id)
        document = await knowledge.readers.read(content, filename=path.name, media_type=media_type(path))
        passages = list(split(document, most_tokens=knowledge.settings.chunk_tokens))
        texts = [f"{each.heading}\n{each.text}" if each.heading else each.text for each in passages]
        for first in range(0, len(texts), BATCH):
            vectors = enumerate(await model.embed(texts[first : first + BATCH]), first)
            points = [Point(document_id, 1, number, vector, model.name) for number, vector in vectors]
            await knowledge.vectors.put(collection_of(kb_id), points)
        row = document_row(document_id, kb_id, path, stored) | {"chunk_count": len(passages)}
        await knowledge.mill.run(partial(insert, row=row, passages=passages))


def document_row(document_id: UUID, kb_id: UUID, path: Path, stored: Stored) -> dict[str, Any]:
    return {
        "id": document_id, "kb_id": kb_id, "filename": path.name, "size": stored.size, "sha256": stored.sha256,
        "object_key": stored.key, "status": DocumentStatus.READY, "generation": 1, "indexed_generation": 1,
    }  # fmt: skip


def insert(connection: sa.Connection, row: dict[str, Any], passages: Sequence[Passage]) -> None:
    connection.execute(sa.insert(KbDocument).values(row))
    fenced = {"document_id": row["id"], "generation": 1, "kb_id": row["kb_id"]}
    wanted = ("page", "page_title", "heading", "text")
    rows = [
        {**fenced, "number": number, **{name: getattr(each, name) for name in wanted}}
        for number, each in enumerate(passages)
    ]
    insert_chunks(connection, rows)


async def ready(knowledge: Knowledge) -> int:
    found = sa.select(KbDocument.id).where(KbDocument.status == DocumentStatus.READY, KbDocument.chunk_count > 0)
    return len(await knowledge.mill.run(lambda connection: connection.scalars(found).all(), write=False))


def media_type(path: Path) -> str | None:
    return mimetypes.guess_type(path.name)[0]


def summary(rates: Sequence[Sequence[float]], documents: int) -> dict[str, Any]:
    """Return the medians of rounds, each with the rate of the system and that of the loop."""
    return {
        "documents": documents,
        "documents a second": round(median(system for system, _ in rates), 1),
        "the plain loop": round(median(loop for _, loop in rates), 1),
        "ratio": round(median(system / loop for system, loop in rates), 2),
    }
