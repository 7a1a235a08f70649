"""Renews leases while their handlers run, and until their results are written."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from time import perf_counter
from typing import Any

from rowmill.model.batch_size import BatchSize
from rowmill.model.lease import Lease
from rowmill.observe.events import Events
from rowmill.store.port import Disconnected, StatementTimeout, Store
from rowmill.worker.in_flight import InFlight

SHARE = 3
"""A lease is renewed when this fraction (1/n) of it is over."""


class Renewer:
    """Renews the leases in flight, each queue by itself, and stops the handlers of leases that are gone."""

    def __init__(self, store: Store, in_flight: InFlight, events: Events, cancel: Callable[[Lease[Any]], None]) -> None:
        self._store = store
        self._in_flight = in_flight
        self._events = events
        self._cancel = cancel
        self._renewed: dict[Lease[Any], float] = {}
        self._missed: set[Lease[Any]] = set()
        self._sizes: defaultdict[str, BatchSize] = defaultdict(BatchSize)

    async def run(self) -> None:
        """Renew until cancelled. A queue whose renewal takes long holds up no other."""
        loop = asyncio.get_running_loop()
        running: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                shortest = min((lease.step.lease for lease in self._in_flight.leases), default=3.0)
                await asyncio.sleep(min(max(shortest / SHARE / 4, 0.05), 1.0))
                for name in [name for name, task in running.items() if task.done()]:
                    running.pop(name).result()
                for name, due in self._due(loop.time()).items():
                    if name not in running:
                        running[name] = asyncio.create_task(self._renew(name, due, loop.time()), name=f"renew {name}")
        finally:
            for task in running.values():
                task.cancel()
            await asyncio.gather(*running.values(), return_exceptions=True)

    async def tick(self, now: float) -> None:
        """Renew what is due. `now` is the loop's time: it only decides when to ask the database."""
        await asyncio.gather(*(self._renew(name, due, now) for name, due in self._due(now).items()))

    def _due(self, now: float) -> dict[str, list[Lease[Any]]]:
        held = self._in_flight.leases
        self._renewed = {lease: self._renewed.get(lease, now) for lease in held if not lease.lost}
        due: defaultdict[str, list[Lease[Any]]] = defaultdict(list)
        for lease, at in self._renewed.items():
            if now - at >= lease.step.lease / SHARE or lease in self._missed:
                due[lease.queue.name].append(lease)
        return due

    async def _renew(self, queue: str, due: list[Lease[Any]], now: float) -> None:
        """Renew leases of one queue, in statements as large as the database carries out in time. What could not be
        renewed stays due."""
        size = self._sizes[queue]
        while due:
            part, began = due[: size.rows], perf_counter()
            try:
                renewed = await self._store.renew(part)
            except StatementTimeout:
                size.cut(perf_counter() - began, len(part))
                if len(part) == 1:
                    due = due[1:]
                continue
            except Disconnected:
                return
            size.took(perf_counter() - began, len(part))
            delayed = set(renewed.delayed)
            self._renewed |= {lease: now for lease in part if lease not in delayed}
            self._note_lost(part, renewed.lost)
            due = due[len(part) :]

    def _note_lost(self, asked: list[Lease[Any]], lost: list[Lease[Any]]) -> None:
        """Note leases that the database does not know. A lease counts as lost when it is missing twice: a row that was
        settled while we asked is missing too."""
        gone = {lease for lease in lost if lease in self._in_flight.leases and not lease.settled}
        for lease in gone & self._missed:
            lease.lost = True
            self._cancel(lease)
        self._missed = (self._missed - set(asked)) | (gone - self._missed)
