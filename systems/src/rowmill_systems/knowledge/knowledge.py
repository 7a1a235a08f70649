"""The system: its mill, outbox, stores, readers and model."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime

import sqlalchemy as sa

import rowmill as rm
from rowmill import systems
from rowmill.worker import WorkerSettings
from rowmill_systems.knowledge import events, queues, uploading
from rowmill_systems.knowledge.consistency.checking import Consistency
from rowmill_systems.knowledge.migrations import revisions
from rowmill_systems.knowledge.models import KbUpload
from rowmill_systems.knowledge.schedules import declare_schedules
from rowmill_systems.knowledge.settings import KnowledgeSettings
from rowmill_systems.parts.clock import database_time
from rowmill_systems.parts.documents.limits import DocumentLimits
from rowmill_systems.parts.documents.readers import Readers
from rowmill_systems.parts.embeddings.port import Embedder
from rowmill_systems.parts.objects.open import open_storage
from rowmill_systems.parts.objects.port import Storage
from rowmill_systems.parts.vectors.port import VectorStore


class Knowledge:
    """A database of documents, the stores of their bytes and vectors, and what processes them.

    `storage`, `vectors` and `embedder` replace those of the settings. They are opened at their first use, and closed
    when the last `opened()` block ends; those that were given stay open.
    """

    revisions = revisions

    def __init__(
        self,
        settings: KnowledgeSettings,
        *,
        storage: Storage | None = None,
        vectors: VectorStore | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self.settings = settings
        self.mill = rm.Mill(settings.database_url, settings=worker_settings(settings))
        self.outbox = queues.declare_outbox(self.mill, settings)
        self.uploads: rm.Queue[KbUpload] = queues.declare_uploads(self.mill)
        limits = DocumentLimits(bytes=settings.max_file_bytes, seconds=settings.reading_seconds)
        self.readers = Readers(settings.readers, limits, settings.ocr)
        self.reading = asyncio.Semaphore(settings.readers)
        """Held by who has a file in memory."""
        self._given = storage, vectors, embedder
        self._storage, self._vectors, self._embedder = self._given
        self._opening = asyncio.Lock()
        self._users = 0
        self.logged_problems: set[str] = set()
        """What is wrong with its settings, as far as the log says so."""
        self.started_at: datetime | None = None
        """When it was opened first, by the database's clock."""
        events.handle(self)
        uploading.handle(self)
        self.consistency = Consistency(self)
        declare_schedules(self)

    @property
    def storage(self) -> Storage:
        """The store of the bytes."""
        if self._storage is None:
            self._storage = open_storage(self.settings.storage)
        return self._storage

    @property
    def vectors(self) -> VectorStore:
        """The store of the vectors."""
        if self._vectors is None:
            from rowmill_systems.parts.vectors.open import open_vectors  # a client library, only where it is used

            self._vectors = open_vectors(self.settings.vectors, api_key=self.settings.vectors_key)
        return self._vectors

    @property
    def embedder(self) -> Embedder:
        """The model, opened at the first use, which may take a second. In an event loop, use `open_embedder`."""
        if self._embedder is None:
            from rowmill_systems.knowledge.embedding import open_embedding  # numpy, only where it is used

            self._embedder = open_embedding(self.settings, self.mill)
        return self._embedder

    async def open_embedder(self) -> Embedder:
        """Return the model, and read its files in a thread if it is not open yet."""
        async with self._opening:
            if self._embedder is None and self.settings.embedder != "endpoint":
                await asyncio.to_thread(lambda: self.embedder)
            return self.embedder

    async def open_stores(self) -> None:
        """Open the stores and the model, without connecting. Raises DeclarationError or LookupError with the fix if the
        settings describe none. Call it before you work, to begin with no event."""
        _ = self.storage, self.vectors
        await self.open_embedder()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Connect; at the end, close the stores and the model, and stop the reading processes.

        It may be entered several times, as by a server and the worker beside it; the last one to leave closes it.
        """
        async with self.mill.opened(), self.readers:
            self._users += 1
            try:
                if self.started_at is None:
                    self.started_at = await self.mill.run(database_time, write=False)
                yield
            finally:
                self._users -= 1
                if not self._users:
                    await self._close()

    async def _close(self) -> None:
        held = self._storage, self._vectors, self._embedder
        self._storage, self._vectors, self._embedder = self._given
        for each, given in zip(held, self._given, strict=True):
            if each is not None and given is None:
                await each.close()

    async def migrate(self) -> None:
        """Bring the tables to this version, and make what the stores need."""
        make_private_file(self.mill.url)
        await systems.migrate(self)
        async with self.opened():
            await self.prepare_stores()

    async def prepare_stores(self) -> None:
        """Make the file, tables or folder of the stores. Idempotent.

        A store that was never prepared can't be told from one that is lost: nothing can be found or deleted in it.
        """
        await self.vectors.prepare()
        async with self.storage.receive():
            pass


def worker_settings(settings: KnowledgeSettings) -> WorkerSettings:
    """Return how workers behave: an idle one looks for events every `dispatch_seconds`, and new events wake it."""
    usual = WorkerSettings()
    return WorkerSettings(poll_base=min(usual.poll_base, settings.dispatch_seconds), poll_max=settings.dispatch_seconds)


def make_private_file(url: sa.URL) -> None:
    """Make the file of a new SQLite database, for its owner alone: it has the hashes of passwords. What stands in the
    way, the connection says."""
    path = url.database or ""
    if url.get_backend_name() == "sqlite" and not path.startswith("file:"):
        with suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
