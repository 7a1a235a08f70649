"""`rowmill systems knowledge add`: put many files into a knowledge base, with progress."""

import asyncio
import mimetypes
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from rowmill.errors import PermanentError
from rowmill.systems.commands import Exit, StopSignals, emit, progress, table
from rowmill.worker import WorkerSettings
from rowmill_systems.knowledge.bases import create_kb
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import DocumentStatus, KbDocument, KbStatus, KnowledgeBase
from rowmill_systems.knowledge.uploading import upload
from rowmill_systems.parts.local_files import all_files, chunks_of, shown, unreadable

LOOK_SECONDS = 0.3
OPEN = (DocumentStatus.PENDING, DocumentStatus.PROCESSING)
ROWS_AT_ONCE = 10_000
"""Databases allow some ten thousand parameters."""


@dataclass
class AddedFiles:
    """The files of one command."""

    kb_id: uuid.UUID
    files: dict[uuid.UUID, Path] = field(default_factory=dict)
    refused: dict[Path, str] = field(default_factory=dict)


async def find_or_create(knowledge: Knowledge, given: str) -> uuid.UUID:
    """Return the id of the knowledge base of this name or id. Make one of this name if there is none."""
    there = sa.select(KnowledgeBase.id, KnowledgeBase.name).where(KnowledgeBase.status == KbStatus.ACTIVE)
    rows = await knowledge.mill.run(lambda connection: connection.execute(there).all(), write=False)
    for row in rows:
        if given in (row.name, str(row.id)):
            found: uuid.UUID = row.id
            return found
    return await create_kb(knowledge, given)


async def put_in(knowledge: Knowledge, batch: AddedFiles, paths: list[Path]) -> None:
    """Upload files and those in folders. Notes in `refused` what can't be taken."""
    found = list(all_files(paths, batch.refused))
    with progress("Adding", len(found)) as told:
        for number, path in enumerate(found, 1):
            media_type, _ = mimetypes.guess_type(path.name)
            try:
                document = await upload(
                    knowledge, batch.kb_id, chunks_of(path), filename=path.name, media_type=media_type
                )
                batch.files[document] = path
            except PermanentError as error:
                batch.refused[path] = error.code
            except OSError as error:
                batch.refused[path] = unreadable(error)
            told(number)


async def process_all(knowledge: Knowledge, batch: AddedFiles, settings: WorkerSettings, told: StopSignals) -> None:
    """Work until every file is ready or failed, or until a signal says stop."""
    async with knowledge.mill.worker(settings=settings) as worker:
        told.stops(worker)
        running = asyncio.create_task(worker.run())
        with progress("Processing", len(batch.files)) as seen:
            while not running.done():
                rows = await read_documents(knowledge, batch, [KbDocument.status])
                left = sum(row["status"] in OPEN for row in rows)
                seen(len(batch.files) - left)
                if not left:
                    worker.stop()
                    break
                await asyncio.wait([running], timeout=LOOK_SECONDS)
        await running


async def read_documents(
    knowledge: Knowledge, batch: AddedFiles, columns: "Sequence[sa.orm.InstrumentedAttribute[Any]]"
) -> list[sa.RowMapping]:
    ids = list(batch.files)

    def read(connection: sa.Connection) -> list[sa.RowMapping]:
        pages = (ids[at : at + ROWS_AT_ONCE] for at in range(0, len(ids), ROWS_AT_ONCE))
        queries = (sa.select(*columns).where(KbDocument.id.in_(page)) for page in pages)
        return [row for query in queries for row in connection.execute(query).mappings()]

    return await knowledge.mill.run(read, write=False)


async def report(knowledge: Knowledge, batch: AddedFiles, json: bool, *, processed: bool) -> int:
    """Print the result of each file. Return the exit code."""
    wanted = [
        KbDocument.id, KbDocument.status, KbDocument.pages, KbDocument.chunk_count, KbDocument.error_code,
        KbDocument.last_error,
    ]  # fmt: skip
    rows = {row["id"]: row for row in await read_documents(knowledge, batch, wanted)}
    # A document that somebody deleted meanwhile keeps its row.
    told: list[dict[str, Any]] = [{**rows[each], "path": shown(path)} for each, path in batch.files.items()]
    refused = [{"path": shown(path), "refused": code} for path, code in batch.refused.items()]

    def show() -> None:
        lines = [
            (row["path"], row["status"], row["pages"], row["chunk_count"], row["error_code"], row["id"]) for row in told
        ]
        lines += [(one["path"], "refused", None, None, one["refused"], None) for one in refused]
        table(("file", "status", "pages", "passages", "error", "id"), lines)

    emit({"kb_id": batch.kb_id, "documents": told, "refused": refused}, json, show)
    failed = [row for row in told if row["status"] != DocumentStatus.READY]
    return Exit.FINDINGS if refused or (processed and failed) else Exit.OK
