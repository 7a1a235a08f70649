"""Take files in: store the bytes, then insert a row, which enqueues the file."""

import unicodedata
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import PurePosixPath

import sqlalchemy as sa

from rowmill_systems.intake.errors import EmptyFile
from rowmill_systems.intake.intake import Intake
from rowmill_systems.intake.models import ProjectFile

LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class Upload:
    """What the uploader claims about a file. Nothing of it is trusted."""

    organization_id: int
    project_id: int
    filename: str
    media_type: str | None = None
    doc_type: str | None = None


async def add(intake: Intake, upload: Upload, chunks: AsyncIterator[bytes]) -> int:
    """Take a file in. Return its id. The bytes are stored before there is a row."""
    async with intake.storage.receive(most=intake.settings.max_file_bytes) as incoming:
        async for chunk in chunks:
            await incoming.write(chunk)
        if not incoming.size:
            raise EmptyFile("there is nothing in the file")
        stored = await incoming.keep(upload.organization_id, upload.project_id)
    row = {
        "organization_id": upload.organization_id,
        "project_id": upload.project_id,
        "filename": tidy_name(upload.filename),
        "media_type": printable(upload.media_type or "") or None,
        "doc_type": printable(upload.doc_type or "") or None,
        "size_bytes": stored.size,
        "file_hash": stored.sha256,
        "storage_key": stored.key,
    }

    def insert(connection: sa.Connection) -> int:
        return int(connection.execute(intake.files.insert(row).returning(ProjectFile.id)).scalar_one())

    return await intake.mill.run(insert)


def tidy_name(name: str) -> str:
    """Return the last part of a path, without characters that confuse a terminal or a file system."""
    last = PurePosixPath(name.replace("\\", "/")).name
    shown = printable(last)
    if len(shown) > LONGEST_NAME:
        stem, dot, suffix = shown.rpartition(".")
        shown = f"{stem[: LONGEST_NAME - 20]}{dot}{suffix[:19]}" if dot else shown[:LONGEST_NAME]
    return shown or "unnamed"


def printable(text: str) -> str:
    """Remove control characters and lone surrogates, which not every database stores."""
    return "".join(letter for letter in text if unicodedata.category(letter)[0] != "C").strip()
