"""The place where the analysis of documents can be replaced: the reader, or the mapping to fields."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol

from rowmill_systems.intake.analysis import Analysis, Mapped
from rowmill_systems.intake.fields.catalogue import Catalogue
from rowmill_systems.intake.fields.loading import read_catalogue
from rowmill_systems.intake.fields.rules import map_by_rules
from rowmill_systems.parts.documents.document import Document

Progress = Callable[[int, int], None]
"""Called with the pages that were read so far, and how many there are."""

PROGRESS: ContextVar[Progress] = ContextVar("PROGRESS")
"""Who wants to know how far the reading is. Beside the seam, so that nobody has to pass it on."""


class AnalyzeProjectFileDocument(Protocol):
    """The seam's shape."""

    async def __call__(
        self,
        *,
        file_bytes: bytes,
        filename: str,
        doc_type: str | None,
        field_catalog: Catalogue,
        media_type: str | None,
    ) -> Analysis: ...


class Reads(Protocol):
    async def read(
        self, file_bytes: bytes, *, filename: str, media_type: str | None, progress: Progress | None = None
    ) -> Document: ...


class Maps(Protocol):
    async def map(self, document: Document, *, doc_type: str | None, catalogue: Catalogue) -> Mapped: ...


class RulesMapper:
    """Fields by rules, offline; in a thread, since a long document takes a while."""

    async def map(self, document: Document, *, doc_type: str | None, catalogue: Catalogue) -> Mapped:
        return await asyncio.to_thread(map_by_rules, document, doc_type=doc_type, catalogue=catalogue)


class Analyst:
    """Reads a document, then finds fields in it."""

    def __init__(self, reader: Reads, mapper: Maps) -> None:
        self.reader, self.mapper = reader, mapper

    async def analyze_project_file_document(
        self,
        *,
        file_bytes: bytes,
        filename: str,
        doc_type: str | None,
        field_catalog: Catalogue | str,
        media_type: str | None,
    ) -> Analysis:
        """Read a document and find fields in it. A catalogue given as text is parsed by `read_catalogue`."""
        catalogue = read_catalogue(field_catalog) if isinstance(field_catalog, str) else field_catalog
        progress = PROGRESS.get(None)
        document = await self.reader.read(file_bytes, filename=filename, media_type=media_type, progress=progress)
        mapped = await self.mapper.map(document, doc_type=doc_type, catalogue=catalogue)
        return Analysis(document, mapped)


async def analyze_project_file_document(
    *, file_bytes: bytes, filename: str, doc_type: str | None, field_catalog: Catalogue | str, media_type: str | None
) -> Analysis:
    """The seam with its usual parts, for one document: read in a process of its own, fields by rules. Every suggestion
    has its evidence: the page, and the text that is quoted from it."""
    from rowmill_systems.parts.documents.reader import Reader

    async with Reader() as reader:
        return await Analyst(reader, RulesMapper()).analyze_project_file_document(
            file_bytes=file_bytes,
            filename=filename,
            doc_type=doc_type,
            field_catalog=field_catalog,
            media_type=media_type,
        )
