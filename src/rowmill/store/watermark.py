"""Where the last claim left off, so that the next does not walk over the dead index entries behind it.

A claim leaves dead entries at the head of the ready index; while some old transaction is open, nothing can
remove them, and a scan from the start walks over all of them. So a claim starts behind the last row that
this worker took. It is only a short cut: rows may come to lie behind it (a late commit, an old date, a lock
that was skipped), so every few seconds, and whenever a claim comes back short, everything is looked at from the start.
Where such a look has become dear, it is made less often.
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
"""Of the time that looks from the start may take: with millions of dead entries in the way, they come less often."""
CHEAP = 0.005
"""Seconds: a look from the start that costs less is made whenever a claim comes back short."""
SHORT_SHARE = 0.05
"""Of the time that those may take that are dearer."""
FEW = 50
"""Rows. A claim of more says nothing of what the way to them costs."""
OLDEST_EVERY = 0.25
"""Seconds between two looks for the oldest ready row."""
MAX_LEVELS = 8


class Stretch(StrEnum):
    """A part of the ready index that one scan walks."""

    AT_ONCE = "at once"
    """Rows of one priority without an `available_at`."""
    TIMED = "timed"
    """Rows of one priority whose `available_at` has come."""
    WHOLE = "whole"
    """Everything: for a queue with more priorities than are worth a scan each."""


STRETCHES = (Stretch.AT_ONCE, Stretch.TIMED)
"""What there is of each priority. A table may hold empty times although the declaration allows none: SQLite can't add
a column that is filled with the time of day. Such rows are due at once, and to ask for them costs one page."""

Shape = tuple[tuple[Stretch, bool], ...]
"""Of each lane: its stretch, and whether it has a watermark. Claims of one shape share a statement."""


Position = tuple[Any, Any, tuple[Any, ...]]
"""(priority, available_at, the columns that order the rest) of a row."""


@dataclass(slots=True)
class WatermarkLane:
    level: Any
    stretch: Stretch
    position: tuple[Any, ...] | None = None


class Watermark:
    """The lanes of one stage of one queue, as this worker knows them."""

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
        """A look from the start began now, took so long, and found so many rows."""
        self.since = now
        self._lifetime = min(max(LIFETIME, seconds / SHARE), LONGEST)
        if rows < FEW:
            self._costs.append(seconds)

    def may_look_back(self, now: float) -> bool:
        """A claim came back short: may it look from the start at once?"""
        cost = min(self._costs)  # dead entries are in the way of every look, other delays are not
        return cost < CHEAP or now - self.since > cost / SHORT_SHARE

    def start(self, levels: Sequence[Any], now: float) -> None:
        """Begin from the start. `levels` are the priorities there are, first to last; [None] without any."""
        self.drop()
        self.since = now
        if len(levels) > MAX_LEVELS:
            self.lanes = [WatermarkLane(None, Stretch.WHOLE)]
        else:
            self.lanes = [WatermarkLane(level, stretch) for level in levels for stretch in STRETCHES]

    def drop(self) -> None:
        """The next claim begins from the start."""
        self._before |= {(lane.level, lane.stretch): lane.position for lane in self.lanes if lane.position is not None}
        self.lanes = []

    def go_on(self) -> None:
        """A look from the start found all there was: what lay behind the last positions is dead, and later claims need
        not walk over it again."""
        for lane in self.lanes:
            if lane.position is None:
                lane.position = self._before.get((lane.level, lane.stretch))

    @property
    def resumes(self) -> bool:
        """Does the next claim pass over a part of the index?"""
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
        """Is it time to see where the oldest ready row stands? For queues that keep order per key, whose claims take
        rows from between others: nothing lies before the oldest but dead entries."""
        return now - self._oldest_at >= OLDEST_EVERY

    def begins(self, places: Iterable[tuple[int, tuple[Any, ...]]], now: float) -> None:
        """Where the oldest ready rows of lanes stand, by the place of the lane."""
        self._oldest_at = now
        for place, position in places:
            if self.lanes and None not in position:
                self.lanes[place].position = position
        self.go_on()

    def passed(self, rows: Sequence[T], position: Callable[[T], Position]) -> None:
        """These rows were claimed, lane by lane: the last of each is its lane's new mark. Marks that were dropped while
        the claim was under way, as a rescue does, stay so: the next claim looks at everything."""
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
