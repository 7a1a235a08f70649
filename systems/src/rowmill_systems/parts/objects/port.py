"""What a storage offers.

    async with storage.receive(most=50_000_000) as incoming:
        async for chunk in request.stream():
            await incoming.write(chunk)
        stored = await incoming.keep(owner, collection)

Errors are those of `parts.objects.errors`, with their cause: MissingObject and ForbiddenObject are permanent;
StorageFailed, NetworkFailed and StorageTimedOut are not. A storage that can't be reached never raises MissingObject.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self

Facts = Mapping[str, datetime | int]
"""Facts of an object: `at`, the time when it was stored, and `size`."""
DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Stored:
    """An object that was stored."""

    key: str
    size: int
    sha256: str


class Incoming(Protocol):
    """Bytes that are being received. They are not visible until they are kept."""

    @property
    def size(self) -> int:
        """Bytes so far."""

    @property
    def sha256(self) -> str:
        """Hash of the bytes so far."""

    async def write(self, chunk: bytes) -> None:
        """Add bytes. Raises ObjectTooLarge as soon as there are more than allowed."""

    async def keep(self, owner: object, collection: object) -> Stored:
        """Make all bytes durable and visible under their key, at once, or raise and leave nothing. Call it once."""


class Download(Protocol):
    """An object in chunks: iterate over it. Use `async with` if you may stop before the end."""

    @property
    def size(self) -> int: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None:
        """Stop. Idempotent."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Storage(Protocol):
    def receive(self, *, most: int | None = None) -> AbstractAsyncContextManager[Incoming]:
        """Receive up to `most` bytes.

        At the end of the block nothing is left but what was kept; `sweep` removes what a killed process left.
        """

    async def get(self, key: str, *, most: int) -> bytes:
        """Return the whole object.

        Raises ObjectTooLarge before more than `most` bytes are read, and CorruptObject if the bytes differ from those
        that were stored.
        """

    async def open(self, key: str) -> Download:
        """Return the object in chunks. Raises at once if it is missing or may not be read."""

    async def delete(self, key: str) -> None:
        """Delete the object. Idempotent."""

    async def exists(self, key: str) -> bool: ...

    def keys(self, owner: object = None, collections: str = "") -> AsyncIterator[tuple[str, Facts]]:
        """Yield every key with its facts, sorted by bytes, for `reconcile.inventory(storage.keys)`.

        `owner` limits it to the objects of one owner, `collections` to collections whose names begin so.
        """

    async def sweep(self, older: float = DAY) -> int:
        """Remove what unfinished uploads left behind more than `older` seconds ago. Return how many there were."""

    async def close(self) -> None:
        """Release threads and connections. Idempotent."""
