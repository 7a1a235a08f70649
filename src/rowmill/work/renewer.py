"""Keeps leases alive while their handlers run."""

import asyncio
from collections.abc import Callable
from typing import Any

from rowmill.model.lease import Lease
from rowmill.observe.events import Events
from rowmill.store.port import Disconnected, Store
from rowmill.work.hand import Hand

SHARE = 3
"""A lease is renewed when this part of it has gone by."""


class Renewer:
    """Renews what is in hand; tells the slots of leases that are gone."""

    def __init__(self, store: Store, hand: Hand, events: Events, cut: Callable[[Lease[Any]], None]) -> None:
        self._store = store
        self._hand = hand
        self._events = events
        self._cut = cut
        self._renewed: dict[Lease[Any], float] = {}
        self._missed: set[Lease[Any]] = set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            shortest = min((lease.step.lease for lease in self._hand.leases), default=3.0)
            await asyncio.sleep(min(max(shortest / SHARE / 4, 0.05), 1.0))
            await self.tick(loop.time())

    async def tick(self, now: float) -> None:
        """Renew what is due. `now` is of the loop's clock, which only decides when to ask the database."""
        held = self._hand.leases
        self._renewed = {lease: self._renewed.get(lease, now) for lease in held if not lease.lost}
        due = [
            lease
            for lease, at in self._renewed.items()
            if now - at >= lease.step.lease / SHARE or lease in self._missed
        ]
        if not due:
            return
        try:
            lost = await self._store.renew(due)
        except Disconnected:
            return
        self._renewed |= dict.fromkeys(due, now)
        gone = {lease for lease in lost if lease in self._hand.leases and not lease.settled}
        # A row that was settled while we asked is gone too, and its answer may be on the way: ask twice.
        for lease in gone & self._missed:
            lease.lost = True
            self._cut(lease)
        self._missed = gone - self._missed
