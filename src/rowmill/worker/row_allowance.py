"""How many rows a worker may still claim."""

import math


class RowAllowance:
    """The rows that the stages of a worker may still claim together. There is no bound until one is set."""

    def __init__(self) -> None:
        self._left = math.inf

    def bound(self, rows: int) -> None:
        """Claim at most this many rows from now on, or as few as an earlier bound allows."""
        self._left = min(self._left, rows)

    @property
    def used_up(self) -> bool:
        return not self._left

    def reserve(self, wanted: int) -> int:
        """Return how many of the wanted rows may be claimed. The caller gives back what its claim does not find."""
        reserved = int(min(wanted, self._left))
        self._left -= reserved
        return reserved

    def give_back(self, rows: int) -> None:
        self._left += rows
