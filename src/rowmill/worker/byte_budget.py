"""Limits the bytes of claimed rows in a process, and decides which stage may claim next."""

from collections import Counter
from collections.abc import Callable
from time import monotonic

from rowmill.store.row_sizes import ByteLimit

PORTION = 8
"""A claim waits until this fraction (1/n) of the budget is free, if it could use that much. Otherwise every settled row
would lead to a claim of one row."""
SHARE = 0.75
"""The share of the budget that one queue may take up if there are others."""
PATIENCE = 10.0
"""Seconds that a stage waits for room before it takes one row anyway."""
DECAY = 0.1
"""How fast a stage forgets that its rows were heavier, per claim."""


class RowWeight:
    """The average bytes of a row of one stage, learned from its claims. Heavier rows raise it at once, lighter ones
    lower it slowly: a claim that takes too few rows costs less than one that takes too many."""

    def __init__(self) -> None:
        self.bytes = 0.0

    def claimed(self, rows: int, weight: int) -> None:
        """Learn from a claim of `rows` rows that weighed `weight` bytes together."""
        if rows:
            mean = weight / rows
            self.bytes = max(mean, self.bytes + DECAY * (mean - self.bytes))

    def too_heavy_for(self, room: int) -> None:
        """Learn that the next row did not fit into `room` bytes."""
        self.bytes = max(self.bytes, room * 2.0)


class ByteBudget:
    """The bytes of rows that this process has claimed and not settled, and their limit.

    Stages that want to claim take turns, in the order in which they asked. The first one waits for room and the others
    wait behind it, so that lighter rows of another stage do not starve it. What a claim may take is reserved while it
    is under way, so that a slow claim holds up no other. A queue whose rows can't be written never takes up the whole
    budget if there are others.
    """

    def __init__(self, most: int, queues: int = 1, clock: Callable[[], float] = monotonic) -> None:
        self.most = most
        self.most_of_queue = most if queues == 1 else int(most * SHARE)
        self.clock = clock
        self.held = 0
        self.peak = 0
        """The largest number of bytes held at one time."""
        self.reserved = 0
        """Bytes set aside for claims that are under way."""
        self.full = False
        """Whether the stage whose turn it is waits for room."""
        self.of_queue: Counter[str] = Counter()
        """Bytes held by each queue, or reserved for it."""
        self.turns: list[ClaimTurn] = []

    def add(self, queue: str, weight: int) -> None:
        self.held += weight
        self.of_queue[queue] += weight
        self.peak = max(self.peak, self.held)

    def remove(self, queue: str, weight: int) -> None:
        self.held -= weight
        self.of_queue[queue] -= weight
        self.call_first()

    def turn(self, queue: str, wake: Callable[[], None]) -> "ClaimTurn":
        """Queue up for a claim. `wake` is called when there may be room."""
        return ClaimTurn(self, queue, wake)

    def call_first(self) -> None:
        if self.turns:
            self.turns[0].wake()


class ClaimTurn:
    """One claim of a stage, from queueing up for room to the end of the claim."""

    def __init__(self, budget: ByteBudget, queue: str, wake: Callable[[], None]) -> None:
        self.wake = wake
        self._budget, self._queue = budget, queue
        self._reserved = 0
        self._waits_since: float | None = None

    def __enter__(self) -> "ClaimTurn":
        self._budget.turns.append(self)
        return self

    def __exit__(self, *_about: object) -> None:
        self._reserve(0)
        if self in self._budget.turns:
            self._budget.turns.remove(self)
        self._budget.call_first()

    def room(self, row: RowWeight, rows: int) -> ByteLimit | None:
        """Return what a claim of `rows` rows may take; None while it is not our turn, or there is no room. A row that
        does not fit waits until nothing else is held, but no longer than PATIENCE: what is held may never be
        settled."""
        budget = self._budget
        if budget.turns[0] is not self:
            return None
        free, alone = budget.most - budget.held - budget.reserved, not (budget.held or budget.reserved)
        of_queue = budget.most_of_queue - budget.of_queue[self._queue]
        needed = max(row.bytes, min(row.bytes * rows, budget.most / PORTION), 1)
        budget.full = not alone and free < needed
        if not alone and min(free, of_queue) < needed:
            self._waits_since = budget.clock() if self._waits_since is None else self._waits_since
            if budget.clock() - self._waits_since < PATIENCE:
                if not budget.full:  # it is our own rows that we wait for: nobody else has to
                    self._let_others_go_first()
                return None
            alone = True
        self._reserve(max(int(min(free, of_queue, max(row.bytes * rows * 2, budget.most / PORTION))), 0))
        budget.turns.remove(self)
        budget.full = False
        budget.call_first()
        return ByteLimit(self._reserved, or_one=alone)

    def _let_others_go_first(self) -> None:
        turns = self._budget.turns
        turns.remove(self)
        turns.append(self)
        if turns[0] is not self:
            self._budget.call_first()

    def _reserve(self, weight: int) -> None:
        self._budget.reserved += weight - self._reserved
        self._budget.of_queue[self._queue] += weight - self._reserved
        self._reserved = weight
