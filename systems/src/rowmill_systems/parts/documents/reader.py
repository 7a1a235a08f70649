"""Read documents in a separate process: one that crashes, hangs or fills the memory harms nothing else."""

import asyncio

from rowmill_systems.parts.closing import AsyncCloseable
from rowmill_systems.parts.documents.document import Document, Kind
from rowmill_systems.parts.documents.errors import CorruptFile, EmptyFile, OcrFailed, OutOfMemory, ReaderDied
from rowmill_systems.parts.documents.frames import Frame
from rowmill_systems.parts.documents.limits import MB, DocumentLimits
from rowmill_systems.parts.documents.ocr.choose import OcrName, choose
from rowmill_systems.parts.documents.packing import from_json
from rowmill_systems.parts.documents.process import STRANGE, Progress, ReadingProcess

HELD = 260 * MB
"""A process with the OCR engine loaded holds 210 to 250 MB, of the 440 MB that it may have."""


class Reader(AsyncCloseable):
    """Reads documents one after another in a process, which is started with the first document, and again when it is
    gone.

        async with Reader() as reader:
            document = await reader.read(file_bytes, filename="a.pdf", media_type=None)

    A document does not depend on those before it: a failure that they may have caused is retried in a fresh process. So
    `DocumentLimits.memory` is what one document may take.

    Cancelling a call kills the process. The process dies with its parent, however that ends.
    """

    def __init__(
        self,
        limits: DocumentLimits | None = None,
        *,
        ocr: OcrName = "auto",
        documents_each: int = 200,
        held_each: int = HELD,
    ) -> None:
        """The process is replaced after `documents_each` documents, or when it holds more than `held_each` bytes after
        one. Raises LookupError if the OCR engine is not installed."""
        choose(ocr)
        self.limits, self._ocr = limits or DocumentLimits(), ocr
        self._documents_each, self._held_each = documents_each, held_each
        self._lock = asyncio.Lock()
        self._process: ReadingProcess | None = None
        self._closed = False

    async def read(
        self, file_bytes: bytes, *, filename: str, media_type: str | None, progress: Progress | None = None
    ) -> Document:
        """Read a document in an isolated process. Raises only errors of `parts.documents.errors`.

        `progress(page, of_pages)` is called before each page, and must not raise.
        """
        if not file_bytes:
            raise EmptyFile("no bytes")
        self.limits.check("bytes", len(file_bytes), self.limits.bytes)
        asked = {"do": "read", "filename": filename, "media_type": media_type}
        answer = await self._ask(Frame(asked, file_bytes), progress)
        try:
            return from_json(answer.said["document"])
        except (KeyError, ValueError) as error:
            raise ReaderDied(STRANGE) from error

    async def render(self, file_bytes: bytes, kind: Kind, number: int, *, width: int = 1000) -> bytes:
        """Render a page in the process, as `render_page` does."""
        asked = {"do": "render", "kind": kind.value, "number": number, "width": width}
        return (await self._ask(Frame(asked, file_bytes), None)).blob

    async def _ask(self, request: Frame, progress: Progress | None) -> Frame:
        async with self._lock:
            process = await self._started()
            if process.used:
                try:
                    return await self._ask_process(process, request, progress)
                except (OutOfMemory, OcrFailed, ReaderDied, CorruptFile) as error:
                    # A parser that is refused memory may also say that the file is broken.
                    if isinstance(error, CorruptFile) and not process.short_of_memory:
                        raise
                    await process.kill()
                process = await self._started()
            return await self._ask_process(process, request, progress)

    async def _ask_process(self, process: ReadingProcess, request: Frame, progress: Progress | None) -> Frame:
        try:
            return await process.ask(request, progress)
        finally:
            if process.documents >= self._documents_each or process.held() > self._held_each:
                await process.kill()

    async def _started(self) -> ReadingProcess:
        self._must_be_open()
        if self._process is None or not self._process.alive:
            self._process = await ReadingProcess.start(self.limits, self._ocr)
        if self._closed:  # while it started
            await self._process.kill()
        self._must_be_open()
        return self._process

    def _must_be_open(self) -> None:
        if self._closed:
            raise ReaderDied("the reader is closed")

    @property
    def pid(self) -> int | None:
        """The process id, while there is a process."""
        return self._process.pid if self._process is not None and self._process.alive else None

    async def close(self) -> None:
        """Kill the process. Pending calls raise ReaderDied."""
        self._closed = True
        if self._process is not None:
            await self._process.kill()
