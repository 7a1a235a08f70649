"""Several reading processes, for a worker that reads several files at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from rowmill_systems.parts.documents.document import Document, Kind
from rowmill_systems.parts.documents.limits import DocumentLimits
from rowmill_systems.parts.documents.ocr.choose import OcrName, choose
from rowmill_systems.parts.documents.process import Progress
from rowmill_systems.parts.documents.reader import Reader


class Readers:
    """A pool of readers for the time of the block, which may be entered several times.

    Processes are started on demand.
    """

    def __init__(self, most: int, limits: DocumentLimits, ocr: OcrName) -> None:
        choose(ocr)  # says at once if it is not there
        self._most, self._limits, self._ocr = most, limits, ocr
        self._free: asyncio.LifoQueue[Reader] = asyncio.LifoQueue()
        self._all: list[Reader] = []
        self._users = 0

    async def read(
        self, file_bytes: bytes, *, filename: str, media_type: str | None, progress: Progress | None = None
    ) -> Document:
        async with self._one() as reader:
            return await reader.read(file_bytes, filename=filename, media_type=media_type, progress=progress)

    async def render(self, file_bytes: bytes, kind: Kind, number: int) -> bytes:
        """Render a page as an image."""
        async with self._one() as reader:
            return await reader.render(file_bytes, kind, number)

    @asynccontextmanager
    async def _one(self) -> AsyncIterator[Reader]:
        reader = await self._free.get()
        try:
            yield reader
        finally:
            self._free.put_nowait(reader)

    async def __aenter__(self) -> Self:
        if not self._users:
            self._free = asyncio.LifoQueue()
            self._all = [Reader(self._limits, ocr=self._ocr) for _ in range(self._most)]
            for reader in self._all:
                self._free.put_nowait(reader)
        self._users += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._users -= 1
        if not self._users:
            for reader in self._all:
                await reader.close()
