"""Fetch and read a document, and store its passages as chunks."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.knowledge.errors import NothingToRead
from rowmill_systems.knowledge.events.beginning import EMBEDDING, DocumentRun
from rowmill_systems.knowledge.rows import change_document
from rowmill_systems.knowledge.search.chunk_rows import delete_chunks, insert_chunks
from rowmill_systems.parts.documents.document import Document
from rowmill_systems.parts.values import storable

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge
    from rowmill_systems.parts.passages import Passage

T = TypeVar("T")
BATCH_ROWS = 200
PROGRESS_SECONDS = 1.0
LONGEST_TITLE = 500


async def read_chunks(knowledge: "Knowledge", run: DocumentRun) -> int:
    """Read the document and store its chunks. Return how many there are.

    A process holds as many files in memory as it has readers.
    """
    async with knowledge.reading:
        progress = ReadingProgress(knowledge, run)
        document, passages = await progress.during(_read(knowledge, run, progress))
        if not passages:
            raise NothingToRead("there are no words in the document")
        for first in range(0, len(passages), BATCH_ROWS):
            end = min(first + BATCH_ROWS, len(passages))
            rows = _rows(run, passages, range(first, end))
            last = document if end == len(passages) else None
            await knowledge.mill.run(partial(_store, run=run, rows=rows, total=end, clear=first == 0, document=last))
        return len(passages)


async def _read(
    knowledge: "Knowledge", run: DocumentRun, progress: "ReadingProgress"
) -> "tuple[Document, Sequence[Passage]]":
    from rowmill_systems.parts.passages import split

    row = run.document
    content = await knowledge.storage.get(row.object_key, most=knowledge.settings.max_file_bytes)
    document = await knowledge.readers.read(
        content, filename=row.filename, media_type=row.media_type, progress=progress.hear
    )
    tokens = knowledge.settings.chunk_tokens
    return document, await asyncio.to_thread(lambda: list(split(document, most_tokens=tokens)))


def _rows(run: DocumentRun, passages: "Sequence[Passage]", numbers: range) -> list[dict[str, Any]]:
    fenced = {"document_id": run.document.id, "generation": run.fence.generation, "kb_id": run.fence.kb_id}
    wanted = ("page", "page_title", "heading", "text")
    return [
        {**fenced, "number": number, **{name: getattr(passages[number], name) for name in wanted}} for number in numbers
    ]


# served by: the primary keys
def _store(
    connection: sa.Connection,
    run: DocumentRun,
    rows: Sequence[dict[str, Any]],
    total: int,
    clear: bool,
    document: Document | None,
) -> None:
    """Store some chunks; before the first ones, remove those of an attempt that was killed. With the last ones comes
    the document: reading is finished."""
    run.fence.check(connection)
    if clear:
        delete_chunks(connection, run.document.id, generation=run.fence.generation)
    insert_chunks(connection, rows)
    if document is not None:
        _finish_reading(connection, run, document, total)


# served by: the primary key
def _finish_reading(connection: sa.Connection, run: DocumentRun, document: Document, total: int) -> None:
    """Note that all chunks are stored, and what was learnt about the document."""
    title = str(document.facts.get("title", "")).strip()
    change_document(
        connection,
        run.document.id,
        stage=EMBEDDING,
        progress_done=0,
        progress_total=total,
        kind=document.kind,
        media_type=document.media_type,
        pages=len(document.pages),
        language=document.language,
        title=storable(title[:LONGEST_TITLE]) or None,
    )


class ReadingProgress:
    """Writes the pages that were read to the document, and ends the reading if the run is out of date."""

    def __init__(self, knowledge: "Knowledge", run: DocumentRun) -> None:
        self._knowledge, self._run = knowledge, run
        self._done, self._total = 0, 0

    def hear(self, page: int, of_pages: int) -> None:
        self._done, self._total = page, of_pages

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work returns. Raises EventSuperseded or LeaseLost in its place, and cancels it."""
        task, watch = asyncio.create_task(work), asyncio.create_task(self._watch())
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await watch  # it ends by an error alone
            return await task
        finally:
            for each in (task, watch):
                each.cancel()
            await asyncio.wait({task, watch})

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            # A database that is away is noticed by the engine, and by the next write.
            with suppress(rm.errors.DatabaseUnreachable):
                await self._knowledge.mill.run(self._write)

    def _write(self, connection: sa.Connection) -> None:
        self._run.fence.check(connection)
        if self._total:
            change_document(connection, self._run.document.id, progress_done=self._done, progress_total=self._total)
