"""When a schedule is due: a cron expression in a time zone, or a fixed period. Pure: times come in, times go out."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST = 1.0
"""Seconds of a period. What comes more often is not a schedule but a queue."""
LONGEST = 366 * 86400.0
EXAMPLES = (
    'five fields: minute, hour, day of month, month, day of week, as in "0 3 * * *"; six begin with the second, '
    'as in "*/10 * * * * *"'
)


class BadTiming(ValueError):
    """An expression, a zone or a period that can't be used; says what to write instead."""


@dataclass(frozen=True)
class Cron:
    """A cron expression, read on the clock of a zone, as Debian's cron does it: a time that the clock jumps over comes
    at the end of the jump; of an hour that comes twice, a fixed time comes once, and every hour or minute comes twice.
    """

    expression: str
    zone: str = "UTC"

    @property
    def text(self) -> str:
        return self.expression

    def check(self) -> None:
        """Raises BadTiming."""
        try:
            _ = self._zone
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise BadTiming(
                f"{self.zone!r} is not a time zone that is known here. Write one like UTC or Europe/Berlin; where the "
                "system has no zones at all: pip install tzdata"
            ) from None
        try:
            CronSim(self.expression, EPOCH)
        except CronSimError as error:
            raise BadTiming(f"{self.expression!r} is not a cron expression ({error}). It has {EXAMPLES}") from None
        if next(self._walk(EPOCH + timedelta(days=365 * 40)), None) is None:
            raise BadTiming(f"{self.expression!r} never comes: there is no such day")

    @cached_property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.zone)

    def _walk(self, after: datetime, *, back: bool = False) -> Iterator[datetime]:
        local = after.astimezone(UTC if self.zone == "UTC" else self._zone)
        for found in CronSim(self.expression, local, reverse=back):
            yield found.astimezone(UTC)

    def following(self, after: datetime) -> datetime | None:
        """The first time after that one; None if there is none in fifty years."""
        # Within an hour that comes twice, the library begins with the first of the two.
        return next((found for found in self._walk(after) if found > after), None)

    def last(self, until: datetime) -> datetime | None:
        """The last time that is not after that one: found from some steps back, so that it is one of `following`."""
        start = until
        for _, found in zip(range(3), self._walk(until, back=True), strict=False):
            start = min(start, found)
        return _last_of(self.following, start - timedelta(seconds=1), until)


@dataclass(frozen=True)
class Every:
    """A fixed period, counted from 1970-01-01 00:00 UTC, so that all workers agree without asking."""

    seconds: float

    zone = "UTC"

    @property
    def text(self) -> str:
        return f"every {self.seconds:g} s"

    def check(self) -> None:
        """Raises BadTiming."""
        if not math.isfinite(self.seconds) or not SHORTEST <= self.seconds <= LONGEST:
            raise BadTiming(
                f"a period of {self.seconds:g} s is out of range. Write seconds(1) to days(366), or use cron=..."
            )

    def _number(self, at: datetime) -> int:
        return (at - EPOCH) // timedelta(seconds=self.seconds)

    def following(self, after: datetime) -> datetime | None:
        """The first time after that one."""
        return EPOCH + timedelta(seconds=self.seconds) * (self._number(after) + 1)

    def last(self, until: datetime) -> datetime | None:
        """The last time that is not after that one."""
        return EPOCH + timedelta(seconds=self.seconds) * self._number(until)


Timing = Cron | Every


def _last_of(following: Callable[[datetime], datetime | None], start: datetime, until: datetime) -> datetime | None:
    found = None
    while (due := following(start)) is not None and due <= until:
        found = start = due
    return found


def between(timing: Timing, after: datetime, until: datetime, most: int) -> list[datetime]:
    """The times after one and not after the other, in order, `most` at the most."""
    found: list[datetime] = []
    while len(found) < most and (due := timing.following(after)) is not None and due <= until:
        found.append(due)
        after = due
    return found
