"""What limits ask of the database, and its answers. Times are seconds since 1970, by the database's clock."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from rowmill.model.limits import Breaker, BudgetPeriod, RefusalReason

FAR = 60.0
"""Seconds after which somebody who waits for nobody knows what looks again."""
USUAL_HOLD = 0.1
"""Seconds that a slot is thought to be held, before anybody has held one."""
KEEP_DONE = 300.0
"""Seconds for which an ended ticket is known: an end that is told twice must not count twice."""

Outcome = Literal["ok", "down", "limited", "refused", "unknown", "unused"]
"""How a call ended: the provider answered; was away; asked us to wait; took us for a stranger; nobody knows; or the
call was never made."""
Change = Literal["opened", "closed", "parked", "off"]


@dataclass(frozen=True, slots=True)
class PermitRules:
    """The rules of a limit, as the database checks them. 0 means that there is no such rule."""

    name: str
    calls: int = 0
    reach: float = 0.0
    width: float = 0.0
    slots: int = 0
    budget: int = 0
    spent_by_crash: bool = False
    lease: float = 30.0
    breaker: Breaker | None = None

    @property
    def ticketed(self) -> bool:
        """Whether a call holds a ticket (a slot, or a part of a budget) until it ends."""
        return bool(self.slots or self.budget)


@dataclass(slots=True)
class TakePermits:
    """A request for permits for some calls. Where calls hold tickets, each has a ticket number and its largest cost."""

    rules: PermitRules
    key: str
    calls: int
    tickets: Sequence[int] = ()
    amounts: Sequence[int] = ()
    spans: Sequence[BudgetPeriod] = ()
    hold: int = 0
    """So many of those that are refused would rather ask again, if there may be room within `horizon` seconds. The rest
    get in line."""
    horizon: float = 0.0
    late: float = 0.0
    """Seconds by which permits would rather be used later, if less than half of the calls are made."""
    at: float | None = None
    """The time, where a test says it instead of the database."""


@dataclass(slots=True)
class PermitsTaken:
    """The answer: the first `granted` calls may be made, the next `kept` may ask again in `soon` seconds, and the rest
    queue up, the first of them at `line`, each one `step` later than the one before."""

    granted: int
    kept: int
    now: float
    line: float
    step: float
    soon: float
    reason: RefusalReason | None
    bucket: int
    late: float
    """Seconds by which the permits may be used later than otherwise."""
    failures: int
    """In a row, so far."""
    probe: bool
    """This is the one call that is let through to see whether the provider is back."""
    span: str | None
    astray: bool = False
    """None of the spans holds the database's time: ask again, with those around `now`."""

    def wait(self, place: int) -> float:
        """Return the seconds until the turn of a queued call, counted from 0."""
        return max(self.line + self.step * place - self.now, 0.0)


@dataclass(slots=True)
class FinishCalls:
    """Calls that have ended, all with the same outcome."""

    rules: PermitRules
    key: str
    outcome: Outcome
    tickets: Sequence[int] = ()
    costs: Sequence[int] = ()
    estimates: Sequence[int] = ()
    spans: Sequence[str | None] = ()
    seconds: float = 0.0
    """How long the provider asked us to wait."""
    held: float = 0.0
    """How long a call took."""
    bucket: int = 0
    unused: int = 0
    """Permits of that bucket that were not used."""
    probe: bool = False
    at: float | None = None


class Limiter(Protocol):
    """The port through which limits use a database."""

    async def take(self, asks: Sequence[TakePermits]) -> list[PermitsTaken]:
        """Grant as many permits as there is room for, of one limit and of each key at most once, in one transaction
        under the locks of the limit's rows for these keys."""

    async def finish(self, ask: FinishCalls) -> Change | None:
        """Give back what ended calls held, and note how the provider is. Return what changed. Idempotent."""

    async def renew(self, tickets: Sequence[int], seconds: float) -> set[int]:
        """Extend tickets; return those that are still valid."""


@dataclass(slots=True)
class LimitView:
    """The state of a limit, for one key."""

    name: str
    key: str
    now: float
    width: float = 0.0
    head: int = 0
    counts: list[int] = field(default_factory=list)
    """Of calls, by buckets. See `Meter`."""
    turn: float = 0.0
    """The turn of the last one in line; 0: nobody is."""
    slots: int = 0
    spent: dict[str, int] = field(default_factory=dict)
    reserved: dict[str, int] = field(default_factory=dict)
    parked_until: float = 0.0
    off: bool = False
    failures: int = 0
    open_until: float = 0.0
    """0: the breaker is closed."""


@dataclass(frozen=True, slots=True)
class LimitSummary:
    """The state of a limit over all of its keys: how many there are, and how many of them are in trouble."""

    limit: str
    keys: int = 0
    off: int = 0
    parked: int = 0
    down: int = 0
    spent: int = 0
    """Keys whose budget is."""
    declared: tuple[str, ...] = ()
    """The ways in which living processes declare it, if they differ."""
    holds: str = ""
    """What holds then."""
