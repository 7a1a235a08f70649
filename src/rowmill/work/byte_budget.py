"""How many bytes of rows a process holds, and whose turn it is to claim more."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rowmill.model.lease import Lease
from rowmill.store.weighing import ByteLimit

PORTION = 8
"""A claim waits until this part of the budget is free, if it could use that much: otherwise every row that is settled
would make a claim of one row."""
DECAY = 0.1
"""How fast a stage forgets that its rows were heavier, per claim."""


class RowWeight:
    """What the rows of one stage weigh, as far as its claims have shown. Heavier rows count at once, lighter ones bit
    by bit: a claim that takes too few rows costs less than one that takes too many."""

    def __init__(self) -> None:
        self.bytes = 0.0

    def claimed(self, leases: Sequence[Lease[Any]]) -> None:
        if leases:
            mean = sum(lease.weight for lease in leases) / len(leases)
            self.bytes = max(mean, self.bytes + DECAY * (mean - self.bytes))

    def too_heavy_for(self, room: int) -> None:
        """The next row did not fit into so many bytes."""
        self.bytes = max(self.bytes, room * 2.0)


class ByteBudget:
    """The bytes of rows that are claimed and not settled, in this process, and the most that they may be.

    Stages that want to claim take turns, in the order in which they asked. The first one waits for room, and the others
    wait behind it, so that none is starved by one whose rows are lighter. A row that is larger than the whole budget is
    claimed when nothing else is held.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0
        self.peak = 0
        """The most that was held at one time."""
        self.full = False
        """The stage whose turn it is waits for room."""
        self._line: list[Callable[[], None]] = []

    def add(self, weight: int) -> None:
        self.held += weight
        self.peak = max(self.peak, self.held)

    def remove(self, weight: int) -> None:
        self.held -= weight
        self._call_first()

    @contextmanager
    def turn(self, wake: Callable[[], None]) -> Iterator[Callable[[RowWeight, int], ByteLimit | None]]:
        """Stand in line for a claim, until the block ends. Gives a function that returns what the claim may take, or
        None while it is not our turn or there is no room; `wake` is called when that may have changed."""
        self._line.append(wake)

        def room(row: RowWeight, rows: int) -> ByteLimit | None:
            if self._line[0] is not wake:
                return None
            free = self.most - self.held
            self.full = self.held > 0 and free < max(row.bytes, min(row.bytes * rows, self.most / PORTION), 1)
            return None if self.full else ByteLimit(free, or_one=not self.held)

        try:
            yield room
        finally:
            self._line.remove(wake)
            self._call_first()

    def _call_first(self) -> None:
        if self._line:
            self._line[0]()
