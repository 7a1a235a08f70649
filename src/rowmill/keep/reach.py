"""How far back a sweep for expired leases looks.

The index of running rows is ordered by the end of their leases. While some old transaction is open, the entries of
rows that were settled long ago can't be cleaned away, and a sweep that begins with the oldest walks over all of them.
"""

SHARE = 0.02
"""Of the time that sweeps over everything may take."""
LONGEST = 60.0
MARGIN = 10.0
"""Seconds before the last sweep that the next one looks at again: a row may have been locked, or its claim not yet
committed."""


class Reach:
    """Of one stage. Sweeps look at everything while that is cheap; where it is dear, now and then, and in between only
    at the leases that ran out since the last one."""

    def __init__(self) -> None:
        self._everything_at = self._last = float("-inf")

    def back(self, now: float) -> float | None:
        """So many seconds; None: to the oldest. In steps, so that sweeps share their statements."""
        if now >= self._everything_at:
            return None
        return MARGIN * (2 + (now - self._last) // MARGIN)

    def swept(self, began: float, ended: float, back: float | None, *, left: bool) -> None:
        """A sweep that looked `back` so far is over; `left`: it stopped at its limit."""
        self._last = began
        if left:
            self._everything_at = ended
        elif back is None:
            self._everything_at = ended + min((ended - began) / SHARE, LONGEST)
