"""What document intake asks of a storage.

    async with storage.receive(most=50_000_000) as incoming:
        async for chunk in request.stream():
            await incoming.write(chunk)
        stored = await incoming.keep(organization_id, project_id)

Errors are those of `parts.objects.errors`, with their cause: MissingObject and ForbiddenObject are permanent;
StorageFailed, NetworkFailed and StorageTimedOut are not. A store that can't be reached never raises MissingObject.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self

Facts = Mapping[str, datetime | int]
"""Of an object: `at`, when it was stored, and `size`."""
DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as it was kept."""

    key: str
    size: int
    sha256: str


class Incoming(Protocol):
    """Bytes on their way in. They are nowhere to be seen until they are kept."""

    @property
    def size(self) -> int:
        """Bytes so far."""

    @property
    def sha256(self) -> str:
        """Of the bytes so far."""

    async def write(self, chunk: bytes) -> None:
        """Raises ObjectTooLarge as soon as there are more bytes than was allowed."""

    async def keep(self, organization_id: object, project_id: object) -> Stored:
        """All bytes, on disk and visible under their key, at once; or an error, and none of them. Once."""


class Download(Protocol):
    """An object on its way out: iterate over its chunks. Whoever may stop before the end uses `async with`."""

    @property
    def size(self) -> int: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None:
        """Twice is fine."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Storage(Protocol):
    def receive(self, *, most: int | None = None) -> AbstractAsyncContextManager[Incoming]:
        """Room for `most` bytes. Whatever ends the block, nothing but what was kept is left behind; what a process that
        was killed left behind is swept."""

    async def get(self, key: str, *, most: int) -> bytes:
        """Return the whole object.

        Raises ObjectTooLarge before more than `most` bytes are read, and CorruptObject if the bytes differ from those
        that were stored.
        """

    async def open(self, key: str) -> Download:
        """The object in chunks. It is there, and may be read, once this returns."""

    async def delete(self, key: str) -> None:
        """Also if it is not there."""

    async def exists(self, key: str) -> bool: ...

    def keys(self) -> AsyncIterator[tuple[str, Facts]]:
        """Every key with its facts, in the order of its bytes: `reconcile.inventory(storage.keys)`."""

    async def sweep(self, older: float = DAY) -> int:
        """Remove what uploads that never ended left behind so many seconds ago; says how many."""

    async def close(self) -> None:
        """Twice is fine."""
