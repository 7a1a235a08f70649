"""Uploads and downloads by files in threads, as both storages use them."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import IO, Self

from rowmill_systems.parts.objects.errors import CorruptObject, ObjectTooLarge
from rowmill_systems.parts.objects.keys import digest_of, key_of
from rowmill_systems.parts.objects.port import Stored
from rowmill_systems.parts.objects.threads import StorageThreads

CHUNK = 256 * 1024


class FileIncoming(ABC):
    """Collects bytes in a file until all have come and their hash, and so their key, is known."""

    def __init__(self, file: IO[bytes], threads: StorageThreads, most: int | None) -> None:
        self.file, self._threads, self._most = file, threads, most
        self._size = 0
        self._digest = hashlib.sha256()
        self._kept = False

    @property
    def size(self) -> int:
        return self._size

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    async def write(self, chunk: bytes) -> None:
        if self._most is not None and self._size + len(chunk) > self._most:
            raise ObjectTooLarge(f"it has more than {self._most:,} bytes")
        await self._threads.finish(lambda: self._write(chunk))

    def _write(self, chunk: bytes) -> None:
        self.append(chunk)
        self._digest.update(chunk)
        self._size += len(chunk)

    async def keep(self, owner: object, collection: object) -> Stored:
        if self._kept:
            raise ValueError("these bytes were kept already")
        self._kept = True
        stored = Stored(key_of(owner, collection, self.sha256), self._size, self.sha256)
        await self._threads.finish(lambda: self.place(stored.key))
        return stored

    @abstractmethod
    def append(self, chunk: bytes) -> None:
        """Add to the file. Runs in a thread."""

    @abstractmethod
    def place(self, key: str) -> None:
        """Make the file visible under the key, at once. Runs in a thread."""


class ThreadDownload:
    """Yields the chunks that a function reads in a thread, until it returns none."""

    def __init__(
        self, size: int, read: Callable[[], bytes], close: Callable[[], None], threads: StorageThreads
    ) -> None:
        self._size, self._read, self._close, self._threads = size, read, close, threads
        self._closed = False

    @property
    def size(self) -> int:
        return self._size

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while chunk := await self._threads.finish(self._read):
                yield chunk
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            await self._threads.finish(self._close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def check_size(size: int, most: int) -> None:
    if size > most:
        raise ObjectTooLarge(f"it has {size:,} bytes, and {most:,} are allowed")


def checked(content: bytes, key: str) -> bytes:
    """Return the bytes. Raises CorruptObject if the key has a hash and the bytes have another."""
    if (digest := digest_of(key)) is not None and hashlib.sha256(content).hexdigest() != digest:
        raise CorruptObject("the storage gives other bytes than were stored")
    return content
