"""Limits as they are declared (rate, concurrency, budget, circuit breaker), and the reasons for which a call is
refused."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Literal
from zoneinfo import ZoneInfo

from rowmill.model.duration import Duration, DurationField, in_seconds

MICRO = 1_000_000
"""Amounts are whole numbers of millionths: exact, and the same in every database."""
MOST = 2**63 - 1
BUCKETS = 64
"""The least number of buckets in a period."""
LONGEST_PERIOD = 30 * 86400.0
"""The longest period of a rate, in seconds."""
MARGIN_SHARE, LEAST_MARGIN, MOST_MARGIN = 0.05, 0.02, 5.0

Amount = int | Decimal
Per = Literal["run", "hour", "day", "month"]


class RefusalReason(StrEnum):
    """Why a call was refused. A row that waits for it has the code `limit_` plus this."""

    RATE = "rate"
    SLOTS = "slots"
    RESERVED = "reserved"
    BUDGET = "budget"
    PARKED = "parked"
    OPEN = "open"
    OFF = "off"

    @property
    def code(self) -> str:
        return f"{CODE_PREFIX}{self.value}"


CODE_PREFIX = "limit_"
PASSING = frozenset({RefusalReason.RATE, RefusalReason.SLOTS, RefusalReason.RESERVED})
"""Reasons that end soon by themselves: work that waits for them is only slow. The others may last."""
PASSING_CODES = frozenset(reason.code for reason in PASSING)
MEANINGS = {
    RefusalReason.RATE: "its calls for the moment are made",
    RefusalReason.SLOTS: "all of its slots are in use",
    RefusalReason.RESERVED: "what is left of its budget is reserved for calls under way",
    RefusalReason.BUDGET: "its budget is spent",
    RefusalReason.PARKED: "the provider asked us to wait",
    RefusalReason.OPEN: "the provider is down, and is asked again now and then",
    RefusalReason.OFF: "it is switched off",
}


@dataclass(frozen=True, init=False)
class Rate:
    """Allow `calls` in any stretch of `per` (seconds or a `timedelta`), as the provider counts them. All may come at
    once.

    A call may reach the provider up to `margin` after it was granted, and is counted for so much longer. The default is
    a twentieth of the period, between 0.02 and 5 seconds.
    """

    calls: int
    per: float
    margin: float | None

    def __init__(self, calls: int, per: Duration, margin: Duration | None = None) -> None:
        object.__setattr__(self, "calls", calls)
        object.__setattr__(self, "per", in_seconds(per))
        object.__setattr__(self, "margin", in_seconds(margin))
        if self.calls < 1:
            raise ValueError(f"a rate allows 1 call or more, not {self.calls}")
        if not 0.05 <= self.per <= LONGEST_PERIOD:
            raise ValueError(f"the period of a rate is between 0.05 seconds and 30 days, not {self.per} seconds")
        if self.margin is not None and not 0.0 < self.margin <= self.per * 10:
            raise ValueError(f"the margin of a rate is more than 0, and ten periods at the most, not {self.margin}")

    @cached_property
    def slack(self) -> float:
        """The margin in effect: the declared one, or the default."""
        if self.margin is not None:
            return self.margin
        return min(max(self.per * MARGIN_SHARE, LEAST_MARGIN), MOST_MARGIN)

    @cached_property
    def reach(self) -> float:
        """How many seconds a call is counted for."""
        return self.per + self.slack

    @cached_property
    def width(self) -> float:
        """The width of a counting bucket in seconds, a power of two. Buckets of different periods then share their
        borders, so that counts can be taken over when a declaration changes."""
        return float(2.0 ** math.floor(math.log2(self.per / BUCKETS)))

    @property
    def late(self) -> float:
        """How many seconds later a permit may be used while less than half of the calls are made; it is counted for so
        much longer. Far from its limit, a worker can then get permits for many rows at once."""
        return min(self.per / 4, 1.0)

    @property
    def fresh(self) -> float:
        """How many seconds a permit may be kept before it is used. The other half of the margin is for the way to the
        provider."""
        return self.slack / 2


@dataclass(frozen=True)
class Budget:
    """Allow so much per run, hour, day or month: calls, tokens or money (whole numbers or Decimal). `zone` says when a
    day begins. What a crashed process had reserved comes `"back"`, or counts as `"spent"`."""

    limit: Amount
    per: Per = "day"
    zone: str = "UTC"
    crashed: Literal["back", "spent"] = "back"

    def __post_init__(self) -> None:
        if exact(self.limit) <= 0:
            raise ValueError(f"a budget is more than 0, not {self.limit}")
        if self.per not in ("run", "hour", "day", "month"):
            raise ValueError(f"a budget is per run, hour, day or month, not per {self.per}")
        if self.crashed not in ("back", "spent"):
            raise ValueError(f"what a crashed process reserved comes back or is spent, not {self.crashed}")
        _ = self.clock  # an unknown zone is said at once

    @cached_property
    def clock(self) -> ZoneInfo:
        try:
            return ZoneInfo(self.zone)
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(f"there is no time zone {self.zone!r}") from error

    def span(self, at: float, run: str) -> "BudgetPeriod":
        """Return the period that contains a time, given in seconds since 1970."""
        if self.per == "run":
            return BudgetPeriod(f"run {run}", -math.inf, math.inf)
        here = datetime.fromtimestamp(at, UTC).astimezone(self.clock)
        if self.per == "hour":
            # By the seconds since 1970: an hour that a change of the clocks brings twice is two hours.
            offset = (here.utcoffset() or timedelta()).total_seconds()
            start = (at + offset) // 3600 * 3600 - offset
            begun = datetime.fromtimestamp(start, UTC).astimezone(self.clock)
            return BudgetPeriod(f"hour {begun:%Y-%m-%d %H:%M%z}", start, start + 3600)
        first = here.date() if self.per == "day" else here.date().replace(day=1)
        after = first + timedelta(days=1 if self.per == "day" else 32)
        after = after if self.per == "day" else after.replace(day=1)
        bounds = [datetime.combine(day, time(), self.clock).timestamp() for day in (first, after)]
        return BudgetPeriod(f"{self.per} {first.isoformat()[: 10 if self.per == 'day' else 7]}", *bounds)

    def spans(self, at: float, run: str) -> "list[BudgetPeriod]":
        """Return the period that contains a time, between its two neighbours. The database's clock decides which of
        them holds."""
        now = self.span(at, run)
        if self.per == "run":
            return [now]
        return [self.span(now.start - 1, run), now, self.span(now.end + 1, run)]


@dataclass(frozen=True, slots=True)
class BudgetPeriod:
    """One run, hour, day or month of a budget, by name and in seconds since 1970."""

    name: str
    start: float
    end: float


@dataclass(frozen=True)
class Breaker:
    """Stop calls after so many `failures` in a row. After a `pause` one call is let through; if it fails too, the next
    pause is twice as long, up to `longest`. Both are seconds or a `timedelta`."""

    failures: int = 5
    pause: DurationField[float] = DurationField(5.0)
    longest: DurationField[float] = DurationField(300.0)

    def __post_init__(self) -> None:
        if self.failures < 1:
            raise ValueError(f"a breaker opens after 1 failure or more, not {self.failures}")
        if not 0.0 < self.pause <= self.longest:
            raise ValueError(f"the pause of a breaker is more than 0 and not over its longest, not {self.pause}")


USUAL_BREAKER = Breaker()
PERIODS: tuple[Per, ...] = ("run", "hour", "day", "month")
"""The periods of budgets, shortest first."""


@dataclass(frozen=True, slots=True)
class LimitDeclaration:
    """How one process declares a limit. Processes may differ during a deploy."""

    rate: Rate | None = None
    concurrent: int | None = None
    budget: Budget | None = None
    breaker: Breaker | None = None

    def __str__(self) -> str:
        parts = []
        if self.rate is not None:
            parts.append(f"{self.rate.calls:,} calls in {self.rate.per:g} s")
        if self.concurrent is not None:
            parts.append(f"{self.concurrent:,} at once")
        if self.budget is not None:
            parts.append(f"{self.budget.limit:,} per {self.budget.per}")
        if self.breaker is not None:
            parts.append(f"{self.breaker.failures:,} failures, then a pause of {self.breaker.pause:g} s")
        return ", ".join(parts) or "no limit"

    def to_json(self) -> str:
        """Return the declaration as JSON. Equal declarations give equal text."""
        rate, budget, breaker = self.rate, self.budget, self.breaker
        return json.dumps({
            "rate": None if rate is None else [rate.calls, float(rate.per), rate.slack],
            "concurrent": self.concurrent,
            "budget": None if budget is None else [exact(budget.limit), budget.per, budget.zone, budget.crashed],
            "breaker": None if breaker is None else [breaker.failures, float(breaker.pause), float(breaker.longest)],
        })  # fmt: skip

    @staticmethod
    def from_json(text: str) -> "LimitDeclaration | None":
        """Read a declaration. Return None for one that another version of Rowmill wrote and this one can't read."""
        try:
            found = json.loads(text)
            rate, budget, breaker = found["rate"], found["budget"], found["breaker"]
            return LimitDeclaration(
                None if rate is None else Rate(*rate),
                found["concurrent"],
                None if budget is None else Budget(shown(budget[0]), *budget[1:]),
                None if breaker is None else Breaker(*breaker),
            )
        except (ValueError, TypeError, KeyError):
            return None


def strictest(declarations: Sequence[LimitDeclaration]) -> LimitDeclaration:
    """Combine different declarations of a limit into one that allows no more than any of them.

    A rate: the fewest calls in the longest period, with the longest margin. At once: the fewest. A budget: the smallest
    amount for the longest period. A breaker: the fewest failures, the longest pauses. A rule that only some of them
    have holds for all.
    """
    rates = [one.rate for one in declarations if one.rate is not None]
    slots = [one.concurrent for one in declarations if one.concurrent is not None]
    breakers = [one.breaker for one in declarations if one.breaker is not None]
    return LimitDeclaration(
        Rate(min(r.calls for r in rates), max(r.per for r in rates), max(r.slack for r in rates)) if rates else None,
        min(slots, default=None),
        _strictest_budget([one.budget for one in declarations if one.budget is not None]),
        Breaker(
            min(one.failures for one in breakers),
            max(one.pause for one in breakers),
            max(one.longest for one in breakers),
        )
        if breakers
        else None,
    )


def _strictest_budget(budgets: list[Budget]) -> Budget | None:
    if not budgets:
        return None
    per = max((one.per for one in budgets), key=PERIODS.index)
    return Budget(
        shown(min(exact(one.limit) for one in budgets)),
        per,
        # Any of them will do, as long as every process takes the same.
        min(one.zone for one in budgets if one.per == per),
        "spent" if any(one.crashed == "spent" for one in budgets) else "back",
    )


def exact(amount: Amount) -> int:
    """Return an amount in millionths. Refuse a float, which may not be exactly what was written."""
    if isinstance(amount, bool) or not isinstance(amount, (int, Decimal)):
        raise TypeError(f"an amount is a whole number or a Decimal, not {type(amount).__name__}")
    scaled = Decimal(amount) * MICRO if isinstance(amount, Decimal) else amount * MICRO
    if scaled != int(scaled) or not 0 <= scaled <= MOST:
        raise ValueError(f"an amount is 0 or more, with six decimal places at the most, not {amount}")
    return int(scaled)


def shown(micro: int) -> Amount:
    """Return an amount in millionths as a whole number or a Decimal."""
    return micro // MICRO if micro % MICRO == 0 else (Decimal(micro) / MICRO).normalize()
