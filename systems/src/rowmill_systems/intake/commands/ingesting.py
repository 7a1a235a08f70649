"""`rowmill systems intake ingest`: put many files in, with progress."""

import asyncio
import errno
import mimetypes
import os
import stat
from collections.abc import AsyncIterator, Iterable, Iterator
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

CHUNK = 1024 * 1024
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


def all_files(paths: list[Path], refused: dict[Path, str]) -> Iterator[Path]:
    """Yield files, and those in folders, in order, without hidden ones.

    Notes folders that can't be read in `refused`.
    """

    def note(error: OSError) -> None:
        refused[Path(error.filename)] = unreadable(error)

    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for folder, folders, names in os.walk(path, onerror=note):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from (Path(folder) / name for name in sorted(names) if not name.startswith("."))


def unreadable(error: OSError) -> str:
    return f"unreadable: {error.strerror}"


async def chunks_of(path: Path) -> AsyncIterator[bytes]:
    # Nobody may write to a pipe that lies among the files, and we would wait for that.
    if not stat.S_ISREG((await asyncio.to_thread(path.stat)).st_mode):
        raise OSError(errno.EINVAL, "Not a file")
    with path.open("rb") as file:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk


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


def shown(path: Path) -> str:
    """Return a path as text, also if its name is not valid Unicode."""
    return os.fsencode(path).decode("utf-8", "replace")


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
