"""`rowmill systems intake ingest`: put many files in, with progress."""

import asyncio
import mimetypes
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from rowmill.errors import PermanentError
from rowmill.systems.commands import Exit, StopSignals, emit, progress, table
from rowmill.worker import WorkerSettings
from rowmill_systems.intake.intake import Intake
from rowmill_systems.intake.models import FieldSuggestion, ProjectFile
from rowmill_systems.intake.upload import Upload, add
from rowmill_systems.parts.local_files import all_files, chunks_of, shown, unreadable

LOOK_SECONDS = 0.3
OPEN = ("queued", "processing")
ROWS_AT_ONCE = 10_000
"""Databases allow some ten thousand parameters."""


@dataclass
class IngestedFiles:
    """The files of one command."""

    organization_id: int
    project_id: int
    doc_type: str | None
    files: dict[int, Path] = field(default_factory=dict)
    refused: dict[Path, str] = field(default_factory=dict)


async def put_in(intake: Intake, batch: IngestedFiles, paths: list[Path]) -> None:
    found = list(all_files(paths, batch.refused))
    with progress("Putting in", len(found)) as told:
        for number, path in enumerate(found, 1):
            media_type, _ = mimetypes.guess_type(path.name)
            upload = Upload(batch.organization_id, batch.project_id, path.name, media_type, batch.doc_type)
            try:
                batch.files[await add(intake, upload, chunks_of(path))] = path
            except PermanentError as error:
                batch.refused[path] = error.code
            except OSError as error:
                batch.refused[path] = unreadable(error)
            told(number)


async def read_all(intake: Intake, batch: IngestedFiles, settings: WorkerSettings, told: StopSignals) -> None:
    """Work until every file is final, or until a signal says stop."""
    still_open = (
        sa.select(sa.func.count())
        .where(ProjectFile.processing_status.in_(OPEN))
        .where(ProjectFile.id.between(min(batch.files, default=0), max(batch.files, default=0)))
        .where(ProjectFile.organization_id == batch.organization_id, ProjectFile.project_id == batch.project_id)
    )
    async with intake.mill.worker(settings=settings) as worker:
        told.stops(worker)
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


def batched(numbers: Iterable[int], most: int) -> Iterator[list[int]]:
    rest = iter(numbers)
    while some := list(islice(rest, most)):
        yield some


async def report(intake: Intake, batch: IngestedFiles, json: bool, *, read: bool) -> int:
    """Print the result of each file. Return the exit code."""
    found = sa.select(
        ProjectFile.id,
        ProjectFile.processing_status,
        ProjectFile.processing_error,
        ProjectFile.page_count,
        sa.select(sa.func.count())
        .where(FieldSuggestion.file_id == ProjectFile.id)
        .scalar_subquery()
        .label("suggestions"),
    )

    def read_rows(connection: sa.Connection) -> list[sa.RowMapping]:
        some = (found.where(ProjectFile.id.in_(numbers)) for numbers in batched(batch.files, ROWS_AT_ONCE))
        return [row for query in some for row in connection.execute(query).mappings()]

    rows = await intake.mill.run(read_rows, write=False)
    told: list[dict[str, Any]] = [{**row, "path": shown(batch.files[row["id"]])} for row in rows]
    refused = [{"path": shown(path), "refused": code} for path, code in batch.refused.items()]

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
