"""The stores of objects and vectors, misbehaving by plan. They say in the ledger what they were given."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from faults.knowledge.ledger import WRITTEN, Deed, DeedLedger
from faults.knowledge.plan import Fault, PlanFile
from rowmill_systems.parts.objects.errors import NetworkFailed
from rowmill_systems.parts.objects.port import Download, Incoming, Storage, Stored
from rowmill_systems.parts.vectors.errors import VectorsUnavailable
from rowmill_systems.parts.vectors.port import Collection, DocumentPoints, Point, Vector, VectorHit, VectorStore

T = TypeVar("T")
SHARES = {Fault.LOST_ANSWERS: 0.3, Fault.BROKEN_OFF: 0.15, Fault.LIES: 0.5}
"""Of calls that go wrong, where not all do."""
SLOW_SECONDS = 0.5
ITEMS_BEFORE = 5
"""Items of a listing that come before it breaks off, at most."""


class Trouble:
    """Decides what goes wrong with a call."""

    def __init__(self, fault: Callable[[], Fault], error: type[Exception]) -> None:
        self._fault, self._error = fault, error
        self._chance = random.Random()

    def strikes(self, fault: Fault) -> bool:
        return self._fault() is fault and self._chance.random() < SHARES[fault]

    async def begin(self) -> None:
        """Fail, or take time, before anything is done."""
        fault = self._fault()
        if fault is Fault.OUTAGE or self.strikes(Fault.BROKEN_OFF):
            raise self._error("the lab: the store is away")
        if fault is Fault.SLOW:
            await asyncio.sleep(self._chance.uniform(0.0, SLOW_SECONDS))

    def end(self) -> None:
        """Fail after it was done."""
        if self.strikes(Fault.LOST_ANSWERS):
            raise self._error("the lab: the answer is lost")

    async def around(self, call: Callable[[], Awaitable[T]]) -> T:
        await self.begin()
        answer = await call()
        self.end()
        return answer

    async def writing(self, call: Callable[[], Awaitable[T]], lie: T) -> T:
        """Do it, or only say so."""
        await self.begin()
        answer = lie if self.strikes(Fault.LIES) else await call()
        self.end()
        return answer

    async def listing(self, items: AsyncIterator[T]) -> AsyncIterator[T]:
        await self.begin()
        left = self._chance.randint(0, ITEMS_BEFORE) if self._fault() is Fault.BROKEN_OFF else None
        async for item in items:
            if left == 0:
                raise self._error("the lab: the listing broke off")
            left = None if left is None else left - 1
            yield item


class MisbehavingVectors:
    """A VectorStore."""

    def __init__(self, inner: VectorStore, plan: PlanFile, ledger: DeedLedger) -> None:
        self._inner, self._ledger = inner, ledger
        self._trouble = Trouble(lambda: plan.read().vectors, VectorsUnavailable)

    async def prepare(self) -> None:
        await self._trouble.around(self._inner.prepare)

    async def create(self, collection: str, dimensions: int) -> None:
        async def make() -> None:
            number, kb = self._ledger.number(), collection.removeprefix("kb_")
            self._ledger.say(Deed.MAKE_COLLECTION, number, kb=kb)
            try:
                await self._inner.create(collection, dimensions)
            finally:
                self._ledger.say(Deed.MAKE_COLLECTION, number, ended=True, kb=kb)

        await self._trouble.around(make)

    async def drop(self, collection: str) -> bool:
        return await self._trouble.writing(lambda: self._inner.drop(collection), True)

    def collections(self) -> AsyncIterator[Collection]:
        return self._trouble.listing(self._inner.collections())

    async def put(self, collection: str, points: Sequence[Point]) -> None:
        async def write() -> None:
            documents, kb = {point.document for point in points}, collection.removeprefix("kb_")
            numbers = {document: self._ledger.number() for document in documents}
            what = "failed"
            for document, number in numbers.items():
                self._ledger.say(Deed.PUT, number, document=document, kb=kb)
            try:
                await self._inner.put(collection, points)
                what = WRITTEN
            finally:
                for document, number in numbers.items():
                    self._ledger.say(Deed.PUT, number, ended=True, document=document, kb=kb, what=what)

        await self._trouble.writing(write, None)

    async def delete(
        self, collection: str, document: UUID, *, generation: int | None = None, other_than: int | None = None
    ) -> int:
        return await self._trouble.writing(
            lambda: self._inner.delete(collection, document, generation=generation, other_than=other_than), 1
        )

    async def count(self, collection: str, document: UUID) -> Mapping[int, int]:
        return await self._trouble.around(lambda: self._inner.count(collection, document))

    async def search(
        self, collection: str, vector: Vector, limit: int, *, documents: Sequence[UUID] | None = None
    ) -> list[VectorHit]:
        return await self._trouble.around(lambda: self._inner.search(collection, vector, limit, documents=documents))

    def documents(self) -> AsyncIterator[DocumentPoints]:
        return self._trouble.listing(self._inner.documents())

    async def points_of(self, documents: Sequence[UUID]) -> Mapping[UUID, DocumentPoints]:
        return await self._trouble.around(lambda: self._inner.points_of(documents))

    async def close(self) -> None:
        await self._inner.close()


class MisbehavingStorage:
    """A Storage."""

    def __init__(self, inner: Storage, plan: PlanFile) -> None:
        self._inner = inner
        self._trouble = Trouble(lambda: plan.read().objects, NetworkFailed)

    @asynccontextmanager
    async def receive(self, *, most: int | None = None) -> AsyncIterator[Incoming]:
        await self._trouble.begin()
        async with self._inner.receive(most=most) as incoming:
            yield MisbehavingIncoming(incoming, self._trouble)

    async def get(self, key: str, *, most: int) -> bytes:
        return await self._trouble.around(lambda: self._inner.get(key, most=most))

    async def open(self, key: str) -> Download:
        return await self._trouble.around(lambda: self._inner.open(key))

    async def delete(self, key: str) -> None:
        await self._trouble.writing(lambda: self._inner.delete(key), None)

    async def exists(self, key: str) -> bool:
        return await self._trouble.around(lambda: self._inner.exists(key))

    def keys(
        self, owner: object = None, collections: str = ""
    ) -> AsyncIterator[tuple[str, Mapping[str, datetime | int]]]:
        return self._trouble.listing(self._inner.keys(owner, collections))

    async def sweep(self, older: float = 86400.0) -> int:
        return await self._trouble.around(lambda: self._inner.sweep(older))

    async def close(self) -> None:
        await self._inner.close()


class MisbehavingIncoming:
    """An Incoming whose bytes may be stored without the caller hearing of it."""

    def __init__(self, inner: Incoming, trouble: Trouble) -> None:
        self._inner, self._trouble = inner, trouble

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def keep(self, owner: object, collection: object) -> Stored:
        return await self._trouble.around(lambda: self._inner.keep(owner, collection))
