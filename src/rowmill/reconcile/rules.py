"""Rules: pure decisions about one key, from the inventories that have it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from rowmill.model.duration import Duration, in_seconds
from rowmill.model.errors import RowmillError
from rowmill.reconcile.inventory import Inventory
from rowmill.reconcile.item import Facts, key_text

Here = Mapping[str, Facts]
"""The inventories that have a key, with what each knows about it."""
When = Callable[..., bool]


class RuleVerdict(StrEnum):
    """What a rule decides about a key."""

    FINE = "fine"
    IN_FLIGHT = "in_flight"
    """The rule matches, but the item is younger than the grace period."""
    FOUND = "found"


@dataclass(frozen=True, slots=True)
class RunClock:
    """The database's time at the start of the run. Items with a later time are in flight."""

    now: datetime
    grace: timedelta
    inventories: Mapping[str, Inventory]

    def time_of(self, name: str, facts: Facts) -> datetime | None:
        try:
            return self.inventories[name].time_of(facts)
        except (TypeError, ValueError) as error:
            raise RowmillError(
                f"inventory {name} gives a time that is none: {self.inventories[name].at} is "
                f"{type(facts.get(self.inventories[name].at or '')).__name__}. "
                "Give a datetime, ISO 8601 text, or seconds since 1970"
            ) from error

    def young(self, here: Here) -> bool:
        times = (self.time_of(name, facts) for name, facts in here.items())
        return any(time is not None and time > self.now - self.grace for time in times)


@dataclass(frozen=True, slots=True)
class Missing:
    """Matches a key that is present in some inventories and absent in others."""

    kind: str
    present: tuple[str, ...]
    absent: tuple[str, ...]
    when: When | None = None

    @property
    def involved(self) -> tuple[str, ...]:
        return self.present + self.absent

    def judge(self, key: Any, here: Here, clock: RunClock) -> RuleVerdict:
        for name in self.absent:
            if name in here:
                return RuleVerdict.FINE
        for name in self.present:
            if name not in here:
                return RuleVerdict.FINE
        if not _holds(self.kind, self.when, key, [here[name] for name in self.present]):
            return RuleVerdict.FINE
        return RuleVerdict.IN_FLIGHT if clock.young(here) else RuleVerdict.FOUND


@dataclass(frozen=True, slots=True)
class Stale:
    """Matches an item that stayed in a state for too long."""

    kind: str
    present: tuple[str, ...]
    when: When | None = None
    older: timedelta | None = None
    absent: tuple[str, ...] = ()

    @property
    def involved(self) -> tuple[str, ...]:
        return self.present

    def judge(self, key: Any, here: Here, clock: RunClock) -> RuleVerdict:
        (name,) = self.present
        facts = here.get(name)
        if facts is None or not _holds(self.kind, self.when, key, [facts]):
            return RuleVerdict.FINE
        if self.older is None:
            return RuleVerdict.FOUND
        time = clock.time_of(name, facts)
        return RuleVerdict.FOUND if time is not None and time < clock.now - self.older else RuleVerdict.FINE


@dataclass(frozen=True, slots=True)
class Differs:
    """Matches a key that several inventories have, but do not agree about."""

    kind: str
    present: tuple[str, ...]
    when: When
    absent: tuple[str, ...] = ()

    @property
    def involved(self) -> tuple[str, ...]:
        return self.present

    def judge(self, key: Any, here: Here, clock: RunClock) -> RuleVerdict:
        for name in self.present:
            if name not in here:
                return RuleVerdict.FINE
        if not _holds(self.kind, self.when, key, [here[name] for name in self.present]):
            return RuleVerdict.FINE
        return RuleVerdict.IN_FLIGHT if clock.young(here) else RuleVerdict.FOUND


Rule = Missing | Stale | Differs


def _holds(kind: str, when: When | None, key: Any, facts: Sequence[Facts]) -> bool:
    if when is None:
        return True
    try:
        return bool(when(*facts))
    except Exception as error:
        raise RowmillError(
            f"the condition of rule {kind} fails on key {key_text(key)}: {type(error).__name__}. "
            "Does the inventory give the facts that it looks at?"
        ) from error


def missing(
    kind: str, *, present: str | Sequence[str], absent: str | Sequence[str], when: When | None = None
) -> Missing:
    """Return a rule that matches each key that is present in these inventories and absent in those. `when` gets the
    facts from each of the present ones, and returns whether the rule applies."""
    return Missing(kind, _names(present), _names(absent), when)


def stale(kind: str, *, present: str, when: When | None = None, older: Duration | None = None) -> Stale:
    """Return a rule that matches each key of an inventory for which `when` holds and whose time is more than `older`
    seconds ago. An item without a time does not match. The grace period does not apply."""
    return Stale(kind, (present,), when, None if older is None else timedelta(seconds=in_seconds(older)))


def differs(kind: str, *, present: Sequence[str], when: When) -> Differs:
    """Return a rule that matches each key that all of these inventories have and for which `when` holds. `when` gets
    the facts from each of them, in this order: `lambda row, points: row["chunks"] != points["count"]`."""
    return Differs(kind, tuple(present), when)


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
