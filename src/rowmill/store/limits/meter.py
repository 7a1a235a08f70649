"""Counts calls in time buckets, in Python for SQLite. On PostgreSQL, the function `limit_counts` does the same."""

import math
from dataclasses import dataclass


@dataclass(slots=True)
class Meter:
    """The counts of buckets, newest first. The newest has the number `head`."""

    width: float
    head: int
    counts: list[int]

    def turned(self, now: float, reach: float, width: float) -> "Meter":
        """Return the counts as of now, in buckets of this width."""
        meter = self if self.width in (0.0, width) else self._of_width(width)
        newest, kept = math.floor(now / width), math.ceil(reach / width) + 2
        if meter.width == 0.0 or newest - meter.head >= kept:
            return Meter(width, newest, [0])
        if meter.head - newest > kept:  # the clock was set back by far: what was counted is taken for new
            return Meter(width, newest, meter.counts)
        ahead = newest - meter.head
        if ahead <= 0:
            return Meter(width, meter.head, list(meter.counts))
        return Meter(width, newest, ([0] * ahead + meter.counts)[:kept])

    def _of_width(self, width: float) -> "Meter":
        """Return the counts in buckets of another width. Each count goes to the last bucket that ends with its own, or
        contains it."""
        head = moved(self.head, self.width, width)
        counts = [0] * (head - moved(self.head - len(self.counts) + 1, self.width, width) + 1)
        for place, count in enumerate(self.counts):
            counts[head - moved(self.head - place, self.width, width)] += count
        return Meter(width, head, counts)

    def counted(self, now: float, reach: float) -> list[int]:
        """Return the counts of the buckets that are at least partly within reach."""
        return self.counts[: max(self.head - math.floor((now - reach) / self.width) + 1, 0)]

    def frees_at(self, now: float, reach: float) -> float:
        """Return when the oldest calls are out of reach."""
        places = [place for place, count in enumerate(self.counted(now, reach)) if count]
        return (self.head - max(places, default=0) + 1) * self.width + reach

    def take_back(self, bucket: int, calls: int) -> None:
        place = self.head - bucket
        if 0 <= place < len(self.counts):
            self.counts[place] = max(self.counts[place] - calls, 0)


def moved(bucket: int, old: float, new: float) -> int:
    """Return the number of a bucket among buckets of another width. Widths are powers of two."""
    if new >= old:
        return math.floor(bucket / (new / old))
    ratio = round(old / new)
    return bucket * ratio + ratio - 1
