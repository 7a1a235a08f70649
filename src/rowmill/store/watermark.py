"""Where the last claim stopped in the index, so that the next one skips the dead index entries before it.

A claim leaves dead entries at the head of the ready index. While an old transaction is open, they can't be removed, and
a scan from the head reads all of them. So a claim starts behind the last row that this worker took. That may miss rows
which come to lie before it (a late commit, an old date, a lock that was skipped). So every few seconds, and whenever a
claim comes back short, a claim starts from the head. Where that has become expensive, it is done less often.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

T = TypeVar("T")
LIFETIME = 2.0
LONGEST = 60.0
SHARE = 0.02
"""The share of time that scans from the head of the index may take. With millions of dead entries in the way, they
become rarer."""
CHEAP = 0.005
"""A scan from the head that takes fewer seconds than this is made whenever a claim comes back short."""
SHORT_SHARE = 0.05
"""The share of time that more expensive scans may take after short claims."""
FEW = 50
"""A claim of more rows than this says nothing about the cost of finding them."""
OLDEST_EVERY = 0.25
"""Seconds between two looks for the oldest ready row."""
MAX_LEVELS = 8


class Stretch(StrEnum):
    """A part of the ready index that one scan reads."""

    AT_ONCE = "at once"
    """Rows of one priority without an `available_at`."""
    TIMED = "timed"
    """Rows of one priority whose `available_at` has come."""
    WHOLE = "whole"
    """All rows, for a queue with more priorities than are worth a scan each."""


STRETCHES = (Stretch.AT_ONCE, Stretch.TIMED)
"""The stretches of each priority. A table may hold NULL times although the declaration allows none: SQLite can't add a
column that is filled with the current time. Such rows are due at once, and to look for them costs one page."""

Shape = tuple[tuple[Stretch, bool], ...]
"""The stretch of each lane, and whether it has a watermark. Claims of one shape share a statement."""


Position = tuple[Any, Any, tuple[Any, ...]]
"""(priority, available_at, the columns that order the rest) of a row."""


@dataclass(slots=True)
class WatermarkLane:
    level: Any
    stretch: Stretch
    position: tuple[Any, ...] | None = None


class Watermark:
    """The positions of the last claim of one stage, by lane, as this worker knows them."""

    def __init__(self, *, by_level: bool) -> None:
        self.by_level = by_level
        self.lanes: list[WatermarkLane] = []
        self.since = float("-inf")
        self._lifetime = LIFETIME
        self._costs: deque[float] = deque([0.0] * 5, maxlen=5)
        self._before: dict[tuple[Any, Stretch], tuple[Any, ...]] = {}
        self._oldest_at = float("-inf")

    def expired(self, now: float) -> bool:
        return not self.lanes or now - self.since > self._lifetime

    def looked(self, now: float, seconds: float, rows: int = 0) -> None:
        """Learn from a claim that started at the head of the index at `now`, took `seconds` and found `rows`."""
        self.since = now
        self._lifetime = min(max(LIFETIME, seconds / SHARE), LONGEST)
        if rows < FEW:
            self._costs.append(seconds)

    def may_look_back(self, now: float) -> bool:
        """Return whether a claim that came back short may start from the head of the index at once."""
        cost = min(self._costs)  # dead entries are in the way of every look, other delays are not
        return cost < CHEAP or now - self.since > cost / SHORT_SHARE

    def start(self, levels: Sequence[Any], now: float) -> None:
        """Start from the head of the index. `levels` are the existing priorities, first to last; [None] without
        priorities."""
        self.drop()
        self.since = now
        if len(levels) > MAX_LEVELS:
            self.lanes = [WatermarkLane(None, Stretch.WHOLE)]
        else:
            self.lanes = [WatermarkLane(level, stretch) for level in levels for stretch in STRETCHES]

    def drop(self) -> None:
        """Make the next claim start from the head of the index."""
        self._before |= {(lane.level, lane.stretch): lane.position for lane in self.lanes if lane.position is not None}
        self.lanes = []

    def go_on(self) -> None:
        """Restore the last positions after a claim from the head found all ready rows: what lies before them is dead,
        and later claims need not read it again."""
        for lane in self.lanes:
            if lane.position is None:
                lane.position = self._before.get((lane.level, lane.stretch))

    @property
    def resumes(self) -> bool:
        """Whether the next claim skips a part of the index."""
        return any(lane.position is not None for lane in self.lanes)

    @property
    def shape(self) -> Shape:
        return tuple((lane.stretch, lane.position is not None) for lane in self.lanes)

    def arguments(self) -> list[Any]:
        found: list[Any] = []
        for lane in self.lanes:
            if self.by_level and lane.stretch is not Stretch.WHOLE:
                found.append(lane.level)
            if lane.position is not None:
                found.extend(lane.position)
        return found

    def wants_oldest(self, now: float) -> bool:
        """Return whether to look for the oldest ready row again. In queues with order per key, claims take rows from
        between others, so only what lies before the oldest ready row is dead."""
        return now - self._oldest_at >= OLDEST_EVERY

    def begins(self, places: Iterable[tuple[int, tuple[Any, ...]]], now: float) -> None:
        """Set the positions of the oldest ready rows, by the place of the lane."""
        self._oldest_at = now
        for place, position in places:
            if self.lanes and None not in position:
                self.lanes[place].position = position
        self.go_on()

    def passed(self, rows: Sequence[T], position: Callable[[T], Position]) -> None:
        """Move each lane's position to its last claimed row. Positions that were dropped while the claim was under way,
        as a rescue does, stay dropped: the next claim starts from the head."""
        if not self.lanes:
            return
        places = {(lane.level, lane.stretch): place for place, lane in enumerate(self.lanes)}

        def place(row: T) -> int:
            level, available_at, _ = position(row)
            # A trigger may have moved the row meanwhile: any lane will do then.
            return places.get((level, Stretch.AT_ONCE if available_at is None else Stretch.TIMED), 0)

        if self.lanes[0].stretch is Stretch.WHOLE:
            return
        end = len(rows)
        while end:
            _, available_at, sequence = position(rows[end - 1])
            last = place(rows[end - 1])
            if None not in sequence:  # nothing is behind that, nor before it
                self.lanes[last].position = sequence if available_at is None else (available_at, *sequence)
            end = bisect_left(rows, last, hi=end, key=place)
