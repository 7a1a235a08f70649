"""An intake on a folder, and an analysis of plain text that fails on demand."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from rowmill.testing import QUICK, Bench
from rowmill_systems.intake.analysis import Analysis, Evidence, Mapped, Suggestion, Unmapped
from rowmill_systems.intake.fields.catalogue import Catalogue
from rowmill_systems.intake.intake import Intake
from rowmill_systems.intake.models import FieldSuggestion, ProjectFile, UnmappedNote
from rowmill_systems.intake.settings import IntakeSettings
from rowmill_systems.intake.upload import Upload, add
from rowmill_systems.parts.documents.document import Document, Kind, Line, Page

KEYS = {"invoice_number", "total"}


class FakeAnalyzer:
    """An analysis that makes suggestions of `total: 12` and notes of other labels, and fails on demand."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.failure: Exception | None = None
        self.go = asyncio.Event()
        self.go.set()
        self.reading = asyncio.Event()

    async def __call__(
        self,
        *,
        file_bytes: bytes,
        filename: str,
        doc_type: str | None,
        field_catalog: Catalogue,
        media_type: str | None,
    ) -> Analysis:
        self.read.append(filename)
        self.reading.set()
        await self.go.wait()
        if self.failure is not None:
            raise self.failure
        lines = file_bytes.decode().splitlines()
        pairs = [(line, *line.split(": ", 1)) for line in lines if ": " in line]
        suggestions = [Suggestion(key, value, 0.9, Evidence(1, line)) for line, key, value in pairs if key in KEYS]
        notes = [Unmapped(key, value, Evidence(1, line)) for line, key, value in pairs if key not in KEYS]
        page = Page(1, tuple(map(Line, lines)))
        return Analysis(Document(Kind.TEXT, "text/plain", (page,)), Mapped(tuple(suggestions), tuple(notes)))


class IntakeHarness:
    """An intake, and what a test asks of it."""

    def __init__(self, intake: Intake) -> None:
        self.intake, self.mill = intake, intake.mill
        self.bench = Bench(intake.mill)

    async def put(self, text: str | bytes, name: str = "a.txt", organization: int = 1, project: int = 1) -> int:
        content = text.encode() if isinstance(text, str) else text

        async def chunks() -> AsyncIterator[bytes]:
            yield content

        return await add(self.intake, Upload(organization, project, name, "text/plain"), chunks())

    async def drain(self) -> None:
        await self.mill.drain(settings=QUICK)

    async def settle_all(self) -> None:
        """Drain until nothing waits for another file with the same bytes."""
        while True:
            await self.drain()
            held = ProjectFile.processing_error.like("limit_%")
            if not await self.read(sa.select(ProjectFile.id).where(held)):
                return
            await self.bench.advance(60)

    async def read(self, statement: "sa.Select[*tuple[Any, ...]]") -> Sequence[Any]:
        return await self.mill.run(lambda connection: connection.execute(statement).all(), write=False)

    async def file(self, number: int) -> Any:
        [row] = await self.read(sa.select(ProjectFile.__table__).where(ProjectFile.id == number))
        return row

    async def suggestions(self, number: int) -> list[tuple[str, Any, str]]:
        wanted = sa.select(FieldSuggestion.field_key, FieldSuggestion.value, FieldSuggestion.state)
        rows = await self.read(wanted.where(FieldSuggestion.file_id == number).order_by(FieldSuggestion.id))
        return [tuple(row) for row in rows]

    async def notes(self, number: int) -> list[tuple[str, str]]:
        wanted = sa.select(UnmappedNote.label, UnmappedNote.value).where(UnmappedNote.file_id == number)
        return [tuple(row) for row in await self.read(wanted)]

    async def suggestion_ids(self, number: int) -> list[int]:
        wanted = sa.select(FieldSuggestion.id).where(FieldSuggestion.file_id == number).order_by(FieldSuggestion.id)
        return [row.id for row in await self.read(wanted)]


def settings_for(url: str, folder: Path, **more: Any) -> IntakeSettings:
    return IntakeSettings(**{"database_url": url, "storage": str(folder / "files")} | more)


@asynccontextmanager
async def intake_on(url: str, folder: Path, analyzer: Any = None, **more: Any) -> AsyncIterator[IntakeHarness]:
    intake = Intake(settings_for(url, folder, **more), analyze=analyzer)
    async with intake.opened():
        await intake.migrate()
        yield IntakeHarness(intake)
