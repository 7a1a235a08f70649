"""Learns how many rows to put into one statement from how long statements took."""

MOST = 1000
FLOOR = 100
"""A statement takes fewer rows than this only after one was cancelled."""
TARGET = 0.5
"""The most seconds that a statement should take, so that others do not wait long behind it."""


class BatchSize:
    """The number of rows for the next statement. It starts at the largest size, shrinks when a statement was slow or
    was cancelled, and grows when one was quick."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self.rows = most
        self.cancelled = 0
        """How many statements took longer than the database allows."""
        self.seconds_per_row = 0.0
        """Seconds per row of the last slow or cancelled statement; 0 while all are quick."""

    def took(self, seconds: float, rows: int) -> None:
        """Learn from a statement of `rows` rows that took `seconds`."""
        fitting = int(rows * TARGET / max(seconds, 1e-9))
        if seconds > TARGET:
            self.seconds_per_row = seconds / rows
            # Not below the floor: a database that takes its time over any statement would get one row at a time.
            self.rows = min(self.rows, max(fitting, FLOOR))
        elif self.rows < self._most and fitting > self.rows:
            self.rows = min(self.rows * 2, fitting, self._most)
            if self.rows == self._most:
                self.seconds_per_row = 0.0

    def cut(self, seconds: float, rows: int) -> None:
        """Halve the size: a statement of `rows` rows was cancelled after `seconds`."""
        self.cancelled += 1
        self.seconds_per_row = seconds / rows
        self.rows = max(1, min(self.rows, rows) // 2)
