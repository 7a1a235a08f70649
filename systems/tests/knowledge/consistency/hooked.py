"""Stores that fail, or let something happen, at a moment that a test chooses."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from rowmill_systems.parts.objects.errors import NetworkFailed
from rowmill_systems.parts.vectors.errors import VectorsUnavailable
from rowmill_systems.parts.vectors.port import Collection, DocumentPoints

Happening = Callable[[], Awaitable[object]]


async def broken_after(items: AsyncIterator[Any], most: int | None, error: type[Exception]) -> AsyncIterator[Any]:
    """Yield this number of items and raise an error; None: yield all."""
    given = 0
    async for item in items:
        if given == most:
            raise error("no answer")
        yield item
        given += 1
    if most is not None and given <= most:
        raise error("no answer")


async def in_order(points: Mapping[UUID, DocumentPoints]) -> AsyncIterator[DocumentPoints]:
    for document_id in sorted(points):
        yield points[document_id]


class HookedVectors:
    """The vector store behind it, which breaks off or is overtaken."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.replaced: dict[UUID, DocumentPoints] | None = None
        """What is listed and looked up in place of what is stored."""
        self.documents_until: int | None = None
        self.collections_until: int | None = None
        self.looks_fail = False
        self.before_look: Happening | None = None
        """Called once, between the listing and the second look."""
        self.looked_at: list[UUID] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def documents(self) -> AsyncIterator[DocumentPoints]:
        listed = self._inner.documents() if self.replaced is None else in_order(self.replaced)
        return broken_after(listed, self.documents_until, VectorsUnavailable)

    def collections(self) -> AsyncIterator[Collection]:
        return broken_after(self._inner.collections(), self.collections_until, VectorsUnavailable)

    async def points_of(self, documents: Sequence[UUID]) -> Mapping[UUID, DocumentPoints]:
        if self.looks_fail:
            raise VectorsUnavailable("no answer")
        self.looked_at += documents
        happening, self.before_look = self.before_look, None
        if happening is not None:
            await happening()
        if self.replaced is not None:
            return {each: self.replaced[each] for each in documents if each in self.replaced}
        found: Mapping[UUID, DocumentPoints] = await self._inner.points_of(documents)
        return found


class HookedStorage:
    """The storage behind it, which breaks off."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.keys_until: int | None = None
        self.looks_fail = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def keys(self, owner: object = None, collections: str = "") -> AsyncIterator[Any]:
        listed = self._inner.keys(owner, collections)
        if owner is None:
            return broken_after(listed, self.keys_until, NetworkFailed)
        return broken_after(listed, 0 if self.looks_fail else None, NetworkFailed)
