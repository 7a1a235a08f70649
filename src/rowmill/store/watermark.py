"""Where the last claim left off, so that the next does not walk over the dead index entries behind it.

A claim leaves dead entries at the head of the ready index; while some old transaction is open, nothing can
remove them, and a scan from the start walks over all of them. So a claim starts behind the last row that
this worker took. It is only a short cut: rows may come to lie behind it (a late commit, an old date, a lock
that was skipped), so it is dropped every few seconds and whenever a claim comes back short.
Where a look from the start has become dear, it is made less often.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

T = TypeVar("T")
LIFETIME = 2.0
LONGEST = 60.0
SHARE = 0.02
"""Of the time that looks from the start may take: with millions of dead entries in the way, they come less often."""
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
class Lane:
    level: Any
    stretch: Stretch
    position: tuple[Any, ...] | None = None


class Watermark:
    """The lanes of one stage of one queue, as this worker knows them."""

    def __init__(self, *, by_level: bool) -> None:
        self.by_level = by_level
        self.lanes: list[Lane] = []
        self.since = float("-inf")
        self._lifetime = LIFETIME

    def expired(self, now: float) -> bool:
        return not self.lanes or now - self.since > self._lifetime

    def looked(self, seconds: float) -> None:
        """A look from the start took so long."""
        self._lifetime = min(max(LIFETIME, seconds / SHARE), LONGEST)

    def start(self, levels: Sequence[Any], now: float) -> None:
        """Forget every position. `levels` are the priorities there are, first to last; [None] without any."""
        self.since = now
        if len(levels) > MAX_LEVELS:
            self.lanes = [Lane(None, Stretch.WHOLE)]
        else:
            self.lanes = [Lane(level, stretch) for level in levels for stretch in STRETCHES]

    def drop(self) -> None:
        self.lanes = []

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
            self.lanes[last].position = sequence if available_at is None else (available_at, *sequence)
            end = bisect_left(rows, last, hi=end, key=place)
