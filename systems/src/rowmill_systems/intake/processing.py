"""The handler of files."""

import asyncio
import hashlib
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

import rowmill as rm
from rowmill_systems.intake import stored
from rowmill_systems.intake.analysis import Analysis
from rowmill_systems.intake.errors import EmptyFile
from rowmill_systems.intake.models import FileAnalysis, ProjectFile
from rowmill_systems.intake.progress import told_to_the_row
from rowmill_systems.intake.suggestions import replace_pending
from rowmill_systems.parts.database import upsert_into

if TYPE_CHECKING:
    from rowmill_systems.intake.intake import Intake


def same_bytes(file: ProjectFile) -> str:
    """Return the key of files that must not be analysed at the same time."""
    return f"{file.organization_id}/{file.project_id}/{file.file_hash or f'file {file.id}'}"


def handle(intake: "Intake") -> None:
    """Register the handler.

    Files with the same bytes are read one at a time in the whole fleet: the later ones reuse the analysis.
    """
    # A slot of a dead worker must not outlive its lease on the file.
    lease = min(30.0, intake.settings.worker_stale_seconds)
    once = intake.mill.limit("intake-bytes", concurrent=1, breaker=None, lease=lease)

    @intake.files.handler(concurrency=intake.settings.readers, limits=[once.by(same_bytes)])
    async def ingest(file: rm.Lease[ProjectFile]) -> rm.RetryLater | None:
        digest = file.row.file_hash
        if digest is None:  # it was there before files had hashes, and could not wait for those with the same bytes
            content = await intake.content(file.row)
            digest = await asyncio.to_thread(lambda: hashlib.sha256(content).hexdigest())
            return rm.RetryLater(after=0, code="hashed", count_attempt=False, values={"file_hash": digest})
        earlier, analysis = await find_or_analyse(intake, file, digest)
        document = analysis.document
        result = {
            "kind": document.kind,
            "language": document.language,
            "page_count": len(document.pages),
            "pages_read": len(document.pages),
            "reused_from": earlier,
        }
        async with file.settling(rm.Done(result)) as session:
            await replace_pending(session, file.key, analysis.mapped)
            if earlier is None:
                await keep(session, file.row, digest, analysis)
        return None


async def find_or_analyse(intake: "Intake", file: rm.Lease[ProjectFile], digest: str) -> tuple[int | None, Analysis]:
    """Return the file whose analysis is reused, or None, and the analysis."""
    row = file.row
    found = await intake.mill.run(lambda connection: earlier_analysis(connection, row, digest), write=False)
    if found is not None:
        return found[0], await asyncio.to_thread(stored.from_json, found[1])
    content = await intake.content(row)
    if not content:
        raise EmptyFile("there is nothing in the file")
    async with told_to_the_row(intake.mill, file):
        analysis = await intake.analyze(
            file_bytes=content,
            filename=row.filename,
            doc_type=row.doc_type,
            field_catalog=intake.catalogue,
            media_type=row.media_type,
        )
    return None, await asyncio.to_thread(stored.cleaned, analysis)


def earlier_analysis(connection: sa.Connection, file: ProjectFile, digest: str) -> tuple[int, dict[str, object]] | None:
    found = connection.execute(
        sa.select(FileAnalysis.file_id, FileAnalysis.analysis).where(
            FileAnalysis.organization_id == file.organization_id,
            FileAnalysis.project_id == file.project_id,
            FileAnalysis.file_hash == digest,
            FileAnalysis.outdated.is_(False),
        )
    ).first()
    return None if found is None else (found.file_id, found.analysis)


async def keep(session: AsyncSession, file: ProjectFile, digest: str, analysis: Analysis) -> None:
    """Store the analysis for the next file with the same bytes, in place of an outdated one.

    A worker that lost its lease may have stored one already, which is as good.
    """
    # The packing of a long document takes a while, and the loop has leases to renew.
    packed = await asyncio.to_thread(stored.to_json, analysis)
    row = {
        "organization_id": file.organization_id,
        "project_id": file.project_id,
        "file_hash": digest,
        "file_id": file.id,
        "analysis": packed,
    }
    ours = upsert_into(session.get_bind(), FileAnalysis).values(row)
    fresh = {"file_id": file.id, "analysis": ours.excluded.analysis, "analysed_at": sa.func.now(), "outdated": False}
    key = FileAnalysis.__table__.primary_key
    await session.execute(
        ours.on_conflict_do_update(index_elements=key, set_=fresh, where=FileAnalysis.outdated.is_(True))
    )
