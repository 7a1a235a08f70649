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
    """The claimed rows of this process that are not settled. Claims are made only while it is open."""

    def __init__(self, budget: ByteBudget) -> None:
        self.leases: set[Lease[Any]] = set()
        self.budget = budget
        self.not_begun: list[Callable[[], None]] = []
        """What gives back the rows that lie ready in this process."""
        self._open = asyncio.Event()
        self._open.set()
        self._changed = asyncio.Event()
        self._claims = 0

    def __len__(self) -> int:
        return len(self.leases)

    @property
    def empty(self) -> bool:
        """No row is in flight, and no claim under way."""
        return not self.leases and not self._claims

    @property
    def closed(self) -> bool:
        """Somebody is to be alone: what comes in now goes back."""
        return not self._open.is_set()

    def take(self, leases: Sequence[Lease[Any]]) -> int:
        """Of one queue. Returns their bytes."""
        self.leases.update(leases)
        weight = sum([lease.weight for lease in leases])
        if leases:
            self.budget.add(leases[0].queue.name, weight)
        return weight

    def remove(self, *leases: Lease[Any]) -> None:
        """Of one queue."""
        gone = [lease for lease in leases if lease in self.leases]
        if gone:
            self.leases.difference_update(gone)
            self.budget.remove(gone[0].queue.name, sum([lease.weight for lease in gone]))
        self._changed.set()

    def grow(self, lease: Lease[Any], weight: int) -> None:
        """A row in hand takes up so many bytes more."""
        if lease in self.leases:
            lease.weight += weight
            self.budget.add(lease.queue.name, weight)

    async def opened(self) -> None:
        """Wait until claims may be made."""
        await self._open.wait()

    @asynccontextmanager
    async def claiming(self) -> AsyncIterator[None]:
        """A claim is under way: what it takes is not in hand yet, and still counts."""
        self._claims += 1
        try:
            yield
        finally:
            self._claims -= 1
            self._changed.set()

    async def settled(self, lease: Lease[Any]) -> None:
        """Wait until this lease is no longer in hand."""
        while lease in self.leases:
            self._changed.clear()
            await self._changed.wait()

    def close(self) -> bool:
        """Ask to be alone, as one of `alone`; False if another asked first. What lies ready goes back: a row that
        kills its process must not take it along, nor be killed by one of them."""
        if self.closed:
            return False
        self._open.clear()
        for give_back in self.not_begun:
            give_back()
        return True

    @asynccontextmanager
    async def alone(self, leases: Collection[Lease[Any]]) -> AsyncIterator[None]:
        """After `close`: with nothing else in hand than these, so that a row that kills its process takes no other with
        it."""
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
