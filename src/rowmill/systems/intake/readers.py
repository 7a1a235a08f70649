"""Several readers, each a process, for a worker that reads several files at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from rowmill.systems.intake.documents.document import Document, Kind
from rowmill.systems.intake.documents.limits import Limits
from rowmill.systems.intake.documents.reader import Reader
from rowmill.systems.intake.seam import Progress


class Readers:
    """As many as there may be; a process is started when there is work for it."""

    def __init__(self, most: int, limits: Limits, ocr: str) -> None:
        self._all = [Reader(limits=limits, ocr=ocr) for _ in range(most)]
        self._free = list(self._all)
        self._room = asyncio.Semaphore(most)
        self._users = 0

    async def read(
        self, file_bytes: bytes, *, filename: str, media_type: str | None, progress: Progress | None = None
    ) -> Document:
        async with self._one() as reader:
            return await reader.read(file_bytes, filename=filename, media_type=media_type, progress=progress)

    async def render(self, file_bytes: bytes, kind: Kind, number: int) -> bytes:
        """A page as a picture."""
        async with self._one() as reader:
            return await reader.render(file_bytes, kind, number)

    @asynccontextmanager
    async def _one(self) -> AsyncIterator[Reader]:
        async with self._room:
            reader = self._free.pop()
            try:
                yield reader
            finally:
                self._free.append(reader)

    async def __aenter__(self) -> Self:
        self._users += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._users -= 1
        if not self._users:
            for reader in self._all:
                await reader.close()
