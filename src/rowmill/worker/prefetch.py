"""Decides how many rows a stage claims beyond those that run."""

HORIZON = 0.1
"""Seconds of work that a process may prefetch. More would starve other processes, and be lost longer in a crash."""
MOST = 2000
SMOOTHING = 0.02
"""The weight of the last row in the average. Small, so that a few quick rows in a row do not make a process with some
slow rows hoard."""


class Prefetch:
    """Learns how long a row takes, and allows as many prefetched rows as are worked off within the horizon."""

    def __init__(self, concurrency: int, batch: int | None, *, gated: bool = False) -> None:
        self.concurrency = concurrency
        self._gated = gated
        """Whether rows need a permit before they run. Half as many more are then claimed, so that asking costs no
        time."""
        self.width = concurrency * (batch or 1)
        self._seconds: float | None = None
        self._weight = 1.0
        self.low = 0
        """With so few rows waiting, it is time for another claim. As of the last one."""

    def ran(self, each: float) -> None:
        """Learn that a row took `each` seconds."""
        if self._seconds is None:
            self._seconds = each
            return
        if self._weight > SMOOTHING:  # at first, the mean of all
            self._weight /= 1.0 + self._weight
        self._seconds += self._weight * (each - self._seconds)

    @property
    def prefetch(self) -> int:
        base = self.within(HORIZON)
        return base * 3 // 2 if self._gated else base

    def within(self, seconds: float) -> int:
        """Return how many rows begin within so many seconds, at the most."""
        if self._seconds is None:
            return 0
        return min(MOST, int(self.concurrency * seconds / max(self._seconds, 1e-6)))

    def wanted(self, waiting: int, running: int) -> int:
        """Return how many rows to claim now. None while enough are waiting, so that claims stay large."""
        prefetch = self.prefetch
        free = self.width - running
        self.low = prefetch * 2 // 3 if self._gated else prefetch // 2
        if waiting > max(free, self.low) or (waiting and waiting >= free + prefetch):
            return 0
        return max(free + prefetch - waiting, 0)
