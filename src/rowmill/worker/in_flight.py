"""The leases that this process holds, from claim to settle."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from rowmill.model.lease import Lease
from rowmill.worker.byte_budget import ByteBudget

PATIENCE = 10.0
"""How long a suspect waits for the process to be empty before it runs beside others after all."""


class InFlight:
    """The claimed rows of this process that are not settled yet. Stages claim only while it is open."""

    def __init__(self, budget: ByteBudget) -> None:
        self.leases: set[Lease[Any]] = set()
        self.budget = budget
        self.not_begun: list[Callable[[], None]] = []
        """Functions that give back the rows of this process that have not begun."""
        self._open = asyncio.Event()
        self._open.set()
        self._changed = asyncio.Event()
        self._claims = 0

    def __len__(self) -> int:
        return len(self.leases)

    @property
    def empty(self) -> bool:
        """Whether no row is in flight and no claim under way."""
        return not self.leases and not self._claims

    @property
    def closed(self) -> bool:
        """Whether a suspect is to run alone: rows that are claimed now are given back."""
        return not self._open.is_set()

    def take(self, leases: Sequence[Lease[Any]]) -> int:
        """Add leases of one queue. Return their bytes."""
        self.leases.update(leases)
        weight = sum([lease.weight for lease in leases])
        if leases:
            self.budget.add(leases[0].queue.name, weight)
        return weight

    def remove(self, *leases: Lease[Any]) -> None:
        """Remove leases of one queue."""
        gone = [lease for lease in leases if lease in self.leases]
        if gone:
            self.leases.difference_update(gone)
            self.budget.remove(gone[0].queue.name, sum([lease.weight for lease in gone]))
        self._changed.set()

    def grow(self, lease: Lease[Any], weight: int) -> None:
        """Count `weight` more bytes for a row in flight."""
        if lease in self.leases:
            lease.weight += weight
            self.budget.add(lease.queue.name, weight)

    async def opened(self) -> None:
        """Wait until claims may be made."""
        await self._open.wait()

    @asynccontextmanager
    async def claiming(self) -> AsyncIterator[None]:
        """Count a claim as under way, so that its rows are not missed before they are added."""
        self._claims += 1
        try:
            yield
        finally:
            self._claims -= 1
            self._changed.set()

    async def settled(self, lease: Lease[Any]) -> None:
        """Wait until this lease is no longer in flight."""
        while lease in self.leases:
            self._changed.clear()
            await self._changed.wait()

    def close(self) -> bool:
        """Ask to be alone in the process, as `alone` is. Return False if another asked first. Rows that have not begun
        are given back: a row that kills its process must not take them along."""
        if self.closed:
            return False
        self._open.clear()
        for give_back in self.not_begun:
            give_back()
        return True

    @asynccontextmanager
    async def alone(self, leases: Collection[Lease[Any]]) -> AsyncIterator[None]:
        """After `close`, wait until nothing else than these leases is in flight, for the time of the block."""
        own = set(leases)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    while self._claims or not self.leases <= own:
                        self._changed.clear()
                        await self._changed.wait()
            yield
        finally:
            self._open.set()
