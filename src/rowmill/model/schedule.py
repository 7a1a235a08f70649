"""A schedule: its name, when it is due, the function it runs, and what becomes of missed ticks."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from rowmill.model.lease import Lease, SettlingBlock
from rowmill.model.outcome import Outcome
from rowmill.model.retry import Retry

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST = 1.0
"""The shortest period in seconds. Work that comes more often belongs in a queue."""
LONGEST = 366 * 86400.0
EXAMPLES = (
    'five fields: minute, hour, day of month, month, day of week, as in "0 3 * * *"; six begin with the second, '
    'as in "*/10 * * * * *"'
)


class BadTiming(ValueError):
    """An expression, a time zone or a period that can't be used. The message says what to write instead."""


@dataclass(frozen=True)
class Cron:
    """A cron expression, read on the clock of a time zone. It follows Debian's cron: a time that the clock jumps over
    comes at the end of the jump; when an hour comes twice, a fixed time in it comes once, and a step such as every
    minute comes twice."""

    expression: str
    zone: str = "UTC"

    @property
    def text(self) -> str:
        return self.expression

    def check(self) -> None:
        """Raise BadTiming if the expression or the zone can't be used."""
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
        """Return the first time after the given one; None if there is none in fifty years."""
        # Within an hour that comes twice, the library begins with the first of the two.
        return next((found for found in self._walk(after) if found > after), None)

    def last(self, until: datetime) -> datetime | None:
        """Return the last time that is not after the given one. It is searched for from a few steps back, so that it is
        one that `following` would return."""
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
        """Raise BadTiming if the period is out of range."""
        if not math.isfinite(self.seconds) or not SHORTEST <= self.seconds <= LONGEST:
            raise BadTiming(
                f"a period of {self.seconds:g} s is out of range. Write seconds(1) to days(366), or use cron=..."
            )

    def _number(self, at: datetime) -> int:
        return (at - EPOCH) // timedelta(seconds=self.seconds)

    def following(self, after: datetime) -> datetime | None:
        """Return the first time after the given one."""
        return EPOCH + timedelta(seconds=self.seconds) * (self._number(after) + 1)

    def last(self, until: datetime) -> datetime | None:
        """Return the last time that is not after the given one."""
        return EPOCH + timedelta(seconds=self.seconds) * self._number(until)


Timing = Cron | Every


def _last_of(following: Callable[[datetime], datetime | None], start: datetime, until: datetime) -> datetime | None:
    found = None
    while (due := following(start)) is not None and due <= until:
        found = start = due
    return found


def between(timing: Timing, after: datetime, until: datetime, most: int) -> list[datetime]:
    """Return up to `most` times after one time and not after the other, in order."""
    found: list[datetime] = []
    while len(found) < most and (due := timing.following(after)) is not None and due <= until:
        found.append(due)
        after = due
    return found


Missed = Literal["all", "last", "skip"]
"""What becomes of ticks that were not begun in time: each runs, only the last one runs, or none does."""
LATE = 60.0
"""Seconds after which `missed="skip"` calls a tick late. Shorter delays are the usual wait for a free worker."""
NAME_LENGTH = 100
PASSED_OVER = "passed over"
MOST_AT_ONCE = 1000
"""The most ticks that are made at once. More follow with the next round."""


@dataclass(frozen=True)
class Schedule:
    """A checked declaration of a schedule. Made by `Mill.schedule` and `Mill.every`."""

    name: str
    timing: Timing
    call: Callable[["Tick"], Any]
    missed: Missed = "last"
    overlap: bool = False
    retry: Retry = field(default_factory=Retry)
    timeout: float | None = None
    lease: float = 30.0

    @property
    def terms(self) -> tuple[str, str, str, bool]:
        """What every process that makes ticks has to declare alike: expression, zone, missed, overlap."""
        return self.timing.text, self.timing.zone, self.missed, self.overlap

    @property
    def lane(self) -> str | None:
        """The key whose ticks run one after another; None if ticks may overlap."""
        return None if self.overlap else self.name

    @property
    def outgrows_a_slot(self) -> bool:
        """Whether two calls of its function may run in one process. A thread goes on after its time-out."""
        return self.overlap or self.timeout is not None

    def problems(self) -> list[str]:
        """Return everything that is wrong with the declaration, each with its fix."""
        found = []
        if not self.name.strip() or not self.name.isprintable() or len(self.name) > NAME_LENGTH:
            found.append(f"its name must be printable text of 1 to {NAME_LENGTH} characters")
        try:
            self.timing.check()
        except BadTiming as error:
            found.append(str(error))
        if self.missed not in get_args(Missed):
            found.append(f'missed=... is "all", "last" or "skip", not {self.missed!r}')
        if self.retry.attempts < 1:
            found.append(f"Retry(attempts=...) must be 1 or more, not {self.retry.attempts}")
        if self.lease < 1:
            found.append(f"a lease of {self.lease} s is too short to be renewed; use 1 s or more")
        if self.timeout is not None and self.timeout <= 0:
            found.append(f"a timeout must be positive, not {self.timeout}")
        return found

    def coming(self, made_to: datetime, now: datetime, ahead: float) -> list[datetime]:
        """Return the ticks to make: missed ones as the policy says, then those of the next `ahead` seconds, and always
        the next one. `made_to` is the time up to which ticks were made before."""
        found: list[datetime] = []
        if self.missed == "all":
            found = between(self.timing, made_to, now, MOST_AT_ONCE)
            if len(found) == MOST_AT_ONCE:
                return found
        elif self.missed == "last":
            last = self.timing.last(now)
            found = [last] if last is not None and last > made_to else []
        start = max(made_to, now)
        future = between(self.timing, start, now + timedelta(seconds=ahead), MOST_AT_ONCE)
        if not future and made_to <= now and (due := self.timing.following(start)) is not None:
            future = [due]
        return found + future

    def passed_over(self, due_at: datetime, now: datetime) -> str | None:
        """Return why a tick is not begun at its first claim; None if it is."""
        if self.missed == "all":
            return None
        later = self.timing.following(due_at)
        if later is not None and later <= now:
            return f"{PASSED_OVER}: a later tick is due"
        if self.missed == "skip" and now - due_at > timedelta(seconds=LATE):
            return f"{PASSED_OVER}: nobody began it within {LATE:.0f} s"
        return None


class Tick:
    """One run of a schedule. Its function gets it as the argument."""

    __slots__ = ("_lease", "due_at", "manual", "name")

    def __init__(self, name: str, due_at: datetime, manual: bool, lease: Lease[Any]) -> None:
        self.name = name
        self.due_at = due_at
        """When the tick was due, in UTC; for one that was asked for by hand, when it was asked for."""
        self.manual = manual
        """Whether somebody asked for it with `rowmill schedule run`."""
        self._lease = lease

    @property
    def attempt(self) -> int:
        return self._lease.attempt

    @property
    def last_attempt(self) -> bool:
        return self._lease.last_attempt

    @property
    def lost(self) -> bool:
        """True once the engine knows that somebody else runs this tick: long work may stop early."""
        return self._lease.lost

    def settling(self, outcome: Outcome | None = None) -> SettlingBlock:
        """Open a transaction for your own writes that ends with the end of this tick, fenced. See `Lease.settling`."""
        return self._lease.settling(outcome)

    def __repr__(self) -> str:
        return f"<Tick {self.name} due {self.due_at:%Y-%m-%d %H:%M:%S} attempt {self.attempt}>"
