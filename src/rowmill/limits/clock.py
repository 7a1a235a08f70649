"""Convert times of the database's clock to this process's monotonic clock."""

SECONDS = 10.0
"""For how many seconds a comparison of the two clocks is used."""


class DatabaseClock:
    """Estimates how far the database's clock is ahead of ours.

    A reply can't be older than its request, so each reply gives an upper bound. The fastest reply of the last seconds
    gives the best one. A reply that waited for a lock does not make its permits look old.
    """

    def __init__(self) -> None:
        self._ahead = self._before = float("inf")
        self._since = float("-inf")

    def note(self, asked: float, now: float) -> None:
        """Record a reply: the request was sent at `asked` by our clock, and the reply carries the database's time
        `now`."""
        if asked - self._since > SECONDS:
            self._before = self._ahead if asked - self._since <= 2 * SECONDS else float("inf")
            self._ahead, self._since = float("inf"), asked
        self._ahead = min(self._ahead, now - asked)

    def ours(self, moment: float) -> float:
        """Convert a time of the database to the earliest possible time on our clock."""
        return moment - min(self._ahead, self._before)

    def theirs(self, moment: float, otherwise: float) -> float:
        """Convert a time on our clock to the database's clock, approximately. Without any reply yet, return
        `otherwise`."""
        ahead = min(self._ahead, self._before)
        return otherwise if ahead == float("inf") else moment + ahead
