"""The system: its mill, queue, storage and readers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import rowmill as rm
from rowmill import systems
from rowmill_systems.intake import processing, queue
from rowmill_systems.intake.fields.catalogue import Catalogue
from rowmill_systems.intake.fields.loading import load_catalogue
from rowmill_systems.intake.mapping import model_mapper
from rowmill_systems.intake.migrations import revisions
from rowmill_systems.intake.models import ProjectFile
from rowmill_systems.intake.seam import Analyst, AnalyzeProjectFileDocument, RulesMapper
from rowmill_systems.intake.settings import IntakeSettings
from rowmill_systems.parts.documents.limits import DocumentLimits
from rowmill_systems.parts.documents.readers import Readers
from rowmill_systems.parts.objects.open import open_storage
from rowmill_systems.parts.objects.port import Storage


class Intake:
    """A database of files, the storage of their bytes, and their analysis. `analyze` replaces the default analysis."""

    revisions = revisions

    def __init__(self, settings: IntakeSettings, *, analyze: AnalyzeProjectFileDocument | None = None) -> None:
        self.settings = settings
        self.mill = rm.Mill(settings.database_url, settings=settings.worker)
        self.files: rm.Queue[ProjectFile] = queue.declare(self.mill, settings.worker_stale_seconds)
        self.storage: Storage = open_storage(settings.storage)
        self.catalogue: Catalogue = load_catalogue(settings.catalogue)
        limits = DocumentLimits(bytes=settings.max_file_bytes, seconds=settings.reading_seconds)
        self.readers = Readers(settings.readers, limits, settings.ocr)
        # Its own, so that nobody who looks at a page waits until a worker beside the server has read a file.
        self.pictures = Readers(1, limits, "off")
        self._model = model_mapper(settings, self.mill) if settings.model_url is not None else None
        usual = Analyst(self.readers, self._model or RulesMapper())
        self.analyze = analyze or usual.analyze_project_file_document
        self._users = 0
        processing.handle(self)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Connect; at the end, stop the reading processes.

        It may be entered several times, as by a server and the worker beside it; the last one to leave closes it.
        """
        async with self.mill.opened(), self.readers, self.pictures:
            self._users += 1
            try:
                yield
            finally:
                self._users -= 1
                if not self._users:
                    await self._close()

    async def _close(self) -> None:
        await self.storage.close()
        if self._model is not None:
            await self._model.close()

    async def migrate(self) -> None:
        await systems.migrate(self, stale_seconds=self.settings.worker_stale_seconds)

    async def content(self, file: ProjectFile) -> bytes:
        return await self.storage.get(file.storage_key, most=self.settings.max_file_bytes)
