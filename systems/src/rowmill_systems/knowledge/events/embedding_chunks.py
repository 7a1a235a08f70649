"""Embed the stored chunks of a run, and put their points."""

from functools import partial
from typing import TYPE_CHECKING

import sqlalchemy as sa

from rowmill_systems.knowledge.errors import ModelDiffers
from rowmill_systems.knowledge.events.beginning import DocumentRun
from rowmill_systems.knowledge.models import Chunk
from rowmill_systems.knowledge.names import collection_of
from rowmill_systems.knowledge.queues import KB_REEMBED, add_event, is_on_its_way
from rowmill_systems.knowledge.rows import change_document, lock_kb
from rowmill_systems.parts.embeddings.port import Embedder
from rowmill_systems.parts.vectors.errors import WrongDimensions
from rowmill_systems.parts.vectors.port import Point

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

BATCH_CHUNKS = 64


async def embed_chunks(knowledge: "Knowledge", run: DocumentRun, embedder: Embedder) -> None:
    """Embed from where an earlier attempt ended. What `progress_done` counts is in the vector store."""
    collection = collection_of(run.fence.kb_id)
    await create_collection(knowledge, run, embedder)
    done = run.document.progress_done if run.chunks_stored else 0
    while chunks := await knowledge.mill.run(partial(_read_chunks, run=run, first=done), write=False):
        vectors = await embedder.embed([text_of(chunk) for chunk in chunks])
        points = [
            Point(run.document.id, run.fence.generation, chunk.number, vector, embedder.name)
            for chunk, vector in zip(chunks, vectors, strict=True)
        ]
        await knowledge.vectors.put(collection, points)
        done = chunks[-1].number + 1
        await knowledge.mill.run(partial(_note_progress, run=run, done=done))
        if len(chunks) < BATCH_CHUNKS:
            return


async def create_collection(knowledge: "Knowledge", run: DocumentRun, embedder: Embedder) -> None:
    """Make the collection, if it is not there. Here alone, right after the fenced beginning: a late write may not bring
    back what was dropped.

    One of another length than the database says is replaced, as after a database was restored.
    """
    try:
        await knowledge.vectors.create(collection_of(run.fence.kb_id), embedder.dimensions)
    except WrongDimensions as error:
        await knowledge.mill.run(partial(_request_replacement, run=run))
        raise ModelDiffers("the collection has vectors of another length, and is replaced") from error


# served by: the primary key
def _request_replacement(connection: sa.Connection, run: DocumentRun) -> None:
    lock_kb(connection, run.fence.kb_id)
    run.fence.check(connection)
    if not is_on_its_way(connection, KB_REEMBED, run.fence.kb_id):
        add_event(connection, KB_REEMBED, run.fence.kb_id, kb_id=str(run.fence.kb_id), replace=True)


def text_of(chunk: "sa.Row[tuple[int, str, str]]") -> str:
    """Return what is embedded of a chunk: its headings say what it is about."""
    return f"{chunk.heading}\n{chunk.text}" if chunk.heading else str(chunk.text)


# served by: the primary key
def _read_chunks(connection: sa.Connection, run: DocumentRun, first: int) -> "list[sa.Row[tuple[int, str, str]]]":
    wanted = sa.select(Chunk.number, Chunk.heading, Chunk.text).where(
        Chunk.document_id == run.document.id, Chunk.generation == run.fence.generation, Chunk.number >= first
    )
    return list(connection.execute(wanted.order_by(Chunk.number).limit(BATCH_CHUNKS)))


# served by: the primary keys
def _note_progress(connection: sa.Connection, run: DocumentRun, done: int) -> None:
    run.fence.check(connection)
    change_document(connection, run.document.id, progress_done=done)
