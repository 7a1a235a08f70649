"""When something was granted, on this process's clock."""

SECONDS = 10.0
"""For how long a comparison of the two clocks is trusted."""


class DatabaseClock:
    """What a database's clock is ahead of ours, from above: an answer can't have been given before it was asked for.
    The quickest answer of the last seconds bounds it best, so that waiting for a lock makes no permit look old."""

    def __init__(self) -> None:
        self._ahead = self._before = float("inf")
        self._since = float("-inf")

    def note(self, asked: float, now: float) -> None:
        """An answer with the database's time `now` to what was asked at `asked` by our clock."""
        if asked - self._since > SECONDS:
            self._before = self._ahead if asked - self._since <= 2 * SECONDS else float("inf")
            self._ahead, self._since = float("inf"), asked
        self._ahead = min(self._ahead, now - asked)

    def ours(self, moment: float) -> float:
        """The earliest time by our clock at which it may have been this moment there."""
        return moment - min(self._ahead, self._before)

    def theirs(self, moment: float, otherwise: float) -> float:
        """The time there, about."""
        ahead = min(self._ahead, self._before)
        return otherwise if ahead == float("inf") else moment + ahead
