"""Gets permits for claimed rows, many at a time, before slots take them."""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from rowmill.model.lease import Lease
from rowmill.model.permits import NotPermitted, PermitGate
from rowmill.store.port import Disconnected
from rowmill.worker.in_flight import InFlight
from rowmill.worker.prefetch import Prefetch
from rowmill.worker.row_runner import RowRunner

AWAY = 0.5
"""Seconds over which rows are given back while the database can't be asked for permits."""


class Admission:
    """Stands between the claimer of a stage and its slots: rows wait here for their permits."""

    def __init__(
        self, gate: PermitGate, prefetch: Prefetch, in_flight: InFlight, row_runner: RowRunner,
        waiting: deque[Lease[Any]], has_rows: asyncio.Event, wants_rows: asyncio.Event, running: Callable[[], int],
    ) -> None:  # fmt: skip
        self.gate = gate
        self._prefetch, self._in_flight, self._row_runner = prefetch, in_flight, row_runner
        self._waiting, self._has_rows, self._wants_rows, self._running = waiting, has_rows, wants_rows, running
        self.pending: deque[Lease[Any]] = deque()
        self._low = 0 if gate.ahead else prefetch.width
        self._fresh_until = 0.0
        """All permits here are valid until then."""
        self.asking = 0
        """How many rows are being asked permits for."""
        self.moved = asyncio.Event()
        """Set when rows have come, a slot is free, or it is time to stop."""

        gate.revoked = self._look_closely

    def _look_closely(self) -> None:
        self._fresh_until = 0.0

    def __len__(self) -> int:
        return len(self.pending) + self.asking

    def put(self, leases: list[Lease[Any]]) -> None:
        self.pending.extend(leases)
        self.moved.set()

    def at_most(self, wanted: int) -> int:
        """Return how many of the `wanted` rows are worth claiming."""
        most = self.gate.most
        return wanted if most is None else min(wanted, max(most - len(self), 0))

    def passed(self, batch: list[Lease[Any]], left: int) -> list[Lease[Any]]:
        """Return the rows of a slot whose permits are still valid; the others wait here again. `left` rows remain."""
        if left <= self._low:
            self.moved.set()
        if time.monotonic() <= self._fresh_until:
            return batch
        fresh = [lease for lease in batch if self.gate.ready(lease)]
        if len(fresh) < len(batch):
            self.pending.extendleft([lease for lease in reversed(batch) if lease not in fresh])
            self.moved.set()
        else:  # it was the permit of others, which are gone
            self._fresh_until = min(map(self.gate.fresh_until, self._waiting), default=0.0)
        return fresh

    async def run(self) -> None:
        while not self._row_runner.stopping:
            chunk = self._next()
            if not chunk:
                self.moved.clear()
                await self.moved.wait()
                continue
            pause = await self._admit(chunk)
            if pause:
                await asyncio.sleep(pause)

    def _next(self) -> list[Lease[Any]]:
        """Take the rows that will begin while their permits are valid; none while enough rows have permits."""
        ready = len(self._waiting)
        free = self._prefetch.width - self._running() - ready
        if self.gate.ahead:
            soon = self._prefetch.within(self.gate.ahead)
            self._low = max(soon // 2, self._prefetch.width)
            free = max(free, soon - ready if ready <= soon // 2 else 0)
        return [self.pending.popleft() for _ in range(min(free, len(self.pending)))]

    async def _admit(self, chunk: list[Lease[Any]]) -> float:
        """Get permits for rows, and pass those that got one on to the slots. Return after how many seconds the others
        may ask again."""
        self.asking = len(chunk)
        try:
            refused, fresh = await self.gate.admit(chunk)
        except Disconnected:
            for lease in chunk:
                self._row_runner.give_back(lease, random.random() * AWAY)
            return 0.0
        except BaseException:
            for lease in chunk:
                self._row_runner.give_back(lease)
            raise
        finally:
            self.asking = 0
        held = {one.lease: one for one in refused}
        let_in = chunk
        if held or self._row_runner.stopping or self._in_flight.closed or any(lease.lost for lease in chunk):
            let_in = [lease for lease in chunk if lease not in held and self._is_wanted(lease)]
        if let_in:
            self._fresh_until = min(self._fresh_until, fresh) if self._waiting else fresh
            self._waiting.extend(let_in)
            self._has_rows.set()
        stay = [one for one in refused if not self._sent_back(one)]
        self.pending.extendleft([one.lease for one in reversed(stay)])
        if len(stay) < len(refused):  # there is room for others, or it is known now that there is none
            self._wants_rows.set()
        return min((one.wait for one in stay), default=0.0)

    def _sent_back(self, one: NotPermitted) -> bool:
        """Give a row without a permit back, unless its turn is so near that it stays. Return whether it was given
        back."""
        if one.stays and not self._row_runner.stopping and not self._in_flight.closed and not one.lease.lost:
            return False
        self._row_runner.hold_back(one)
        return True

    def _is_wanted(self, lease: Lease[Any]) -> bool:
        """Return whether a row with a permit is still ours to run; if not, give it back."""
        if lease.lost:
            self._row_runner.lose(lease)
        elif self._row_runner.stopping or self._in_flight.closed:
            self._row_runner.give_back(lease)
        else:
            return True
        return False
