"""`rowmill systems intake ingest`: many files from a disk, with progress."""

import asyncio
import mimetypes
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from rowmill.cli.exits import Exit
from rowmill.cli.output import emit, progress, table
from rowmill.cli.process import Told
from rowmill.model.errors import PermanentError
from rowmill.systems.intake.intake import Intake
from rowmill.systems.intake.models import FieldSuggestion, ProjectFile
from rowmill.systems.intake.upload import Upload, add
from rowmill.work.settings import WorkerSettings

CHUNK = 1024 * 1024
LOOK_SECONDS = 0.3
OPEN = ("queued", "processing")


@dataclass
class Batch:
    """What is put in together."""

    organization_id: int
    project_id: int
    doc_type: str | None
    files: dict[int, Path] = field(default_factory=dict)
    refused: dict[Path, str] = field(default_factory=dict)


def all_files(paths: list[Path]) -> Iterator[Path]:
    """Files, and those in folders, in order, without hidden ones."""
    for path in paths:
        if path.is_file():
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from (Path(folder) / name for name in sorted(names) if not name.startswith("."))


async def chunks_of(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk


async def put_in(intake: Intake, batch: Batch, paths: list[Path]) -> None:
    found = list(all_files(paths))
    with progress("Putting in", len(found)) as told:
        for number, path in enumerate(found, 1):
            media_type, _ = mimetypes.guess_type(path.name)
            upload = Upload(batch.organization_id, batch.project_id, path.name, media_type, batch.doc_type)
            try:
                batch.files[await add(intake, upload, chunks_of(path))] = path
            except PermanentError as error:
                batch.refused[path] = error.code
            except OSError as error:
                batch.refused[path] = f"unreadable: {error.strerror}"
            told(number)


async def read_all(intake: Intake, batch: Batch, settings: WorkerSettings, told: Told) -> None:
    """Work until every file of the batch is final, or until told to stop."""
    still_open = (
        sa.select(sa.func.count())
        .where(ProjectFile.processing_status.in_(OPEN))
        .where(ProjectFile.id.between(min(batch.files, default=0), max(batch.files, default=0)))
        .where(ProjectFile.organization_id == batch.organization_id, ProjectFile.project_id == batch.project_id)
    )
    async with intake.mill.worker(settings=settings) as worker:
        told.to(worker)
        running = asyncio.create_task(worker.run())
        with progress("Reading", len(batch.files)) as seen:
            while not running.done():
                left = await intake.mill.run(lambda connection: connection.scalar(still_open), write=False)
                seen(len(batch.files) - (left or 0))
                if not left:
                    worker.stop()
                    break
                await asyncio.wait([running], timeout=LOOK_SECONDS)
        await running


async def report(intake: Intake, batch: Batch, json: bool, *, read: bool) -> int:
    """Say what became of each file; answers the exit code."""
    found = sa.select(
        ProjectFile.id,
        ProjectFile.processing_status,
        ProjectFile.processing_error,
        ProjectFile.page_count,
        sa.select(sa.func.count())
        .where(FieldSuggestion.file_id == ProjectFile.id)
        .scalar_subquery()
        .label("suggestions"),
    ).where(ProjectFile.id.in_(batch.files))
    rows = await intake.mill.run(lambda connection: connection.execute(found).mappings().all(), write=False)
    told: list[dict[str, Any]] = [{**row, "path": str(batch.files[row["id"]])} for row in rows]
    refused = [{"path": str(path), "refused": code} for path, code in batch.refused.items()]

    def show() -> None:
        lines = [
            (row["id"], row["path"], row["processing_status"], row["page_count"], row["suggestions"] or None,
             row["processing_error"])
            for row in told
        ]  # fmt: skip
        lines += [(None, one["path"], "refused", None, None, one["refused"]) for one in refused]
        table(("id", "file", "state", "pages", "suggestions", "error"), lines)

    emit({"files": told, "refused": refused}, json, show)
    unread = [row for row in told if row["processing_status"] != "completed"]
    return Exit.FINDINGS if refused or (read and unread) else Exit.OK
