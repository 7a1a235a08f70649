"""Take files in: store the bytes, then insert a row, which enqueues the file."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import sqlalchemy as sa

from rowmill_systems.intake.errors import EmptyFile
from rowmill_systems.intake.intake import Intake
from rowmill_systems.intake.models import ProjectFile
from rowmill_systems.parts.filenames import printable, tidy_name


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
