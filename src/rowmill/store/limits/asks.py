"""What limits ask of the database, and its answers. Times are seconds since 1970, by the database's clock."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from rowmill.model.limits import Breaker, BudgetPeriod, RefusalReason

FAR = 60.0
"""Seconds until the next try of a call whose turn can't be computed."""
USUAL_HOLD = 0.1
"""Assumed seconds that a call holds a slot, before any call was measured."""
KEEP_DONE = 300.0
"""Seconds for which an ended ticket is remembered, so that a repeated report of its end does not count twice."""

Outcome = Literal["ok", "down", "limited", "refused", "unknown", "unused"]
"""How a call ended: ok, provider down, rate limited, credentials refused, unknown, or never made."""
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
    """How many refused calls would rather ask again, if a permit may become free within `horizon` seconds. The others
    are queued."""
    horizon: float = 0.0
    late: float = 0.0
    """Extra seconds in which permits should stay usable, if less than half of the rate is in use."""
    at: float | None = None
    """The time, set by tests instead of the database's clock."""


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
    """Extra seconds in which the permits may be used."""
    failures: int
    """Consecutive failures of the provider so far."""
    probe: bool
    """True for the one trial call to a provider that is down."""
    span: str | None
    astray: bool = False
    """True if no span contains the database's time. The caller asks again with the spans around `now`."""

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
    """Seconds that the provider asked us to wait."""
    held: float = 0.0
    """Seconds that a call took on average."""
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
    """Calls by time bucket. See `Meter`."""
    turn: float = 0.0
    """The turn of the last queued call; 0 if none is queued."""
    slots: int = 0
    spent: dict[str, int] = field(default_factory=dict)
    reserved: dict[str, int] = field(default_factory=dict)
    parked_until: float = 0.0
    off: bool = False
    failures: int = 0
    open_until: float = 0.0
    """When the next trial call is allowed; 0 if the breaker is closed."""


@dataclass(frozen=True, slots=True)
class LimitSummary:
    """The state of a limit over all of its keys: how many there are, and how many of them are in trouble."""

    limit: str
    keys: int = 0
    off: int = 0
    parked: int = 0
    down: int = 0
    spent: int = 0
    """Number of keys whose budget is spent."""
    declared: tuple[str, ...] = ()
    """The declarations of live processes, if they differ."""
    holds: str = ""
    """The declaration in effect, if they differ."""
