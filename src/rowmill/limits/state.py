"""The current state of a limit, for handlers and operators."""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from rowmill.model.limits import Amount, LimitDeclaration, RefusalReason, exact, shown
from rowmill.store.limits.asks import LimitView
from rowmill.store.limits.meter import Meter


@dataclass(frozen=True, slots=True)
class LimitState:
    """The current state of a limit for one key. Fields of rules that the limit does not have are None."""

    limit: str
    key: str
    calls: int
    calls_limit: int | None
    per_seconds: float | None
    slots: int
    slots_limit: int | None
    spent: Amount
    reserved: Amount
    budget: Amount | None
    span: str | None
    line_until: datetime | None
    """When the last call in the queue for permits gets its turn."""
    parked_until: datetime | None
    breaker: Literal["closed", "open"]
    open_until: datetime | None
    """When the next trial call to a provider that is down is allowed."""
    off: bool

    @property
    def available(self) -> bool:
        """True if a call with cost 1 would get a permit now."""
        return self.refuses is None

    @property
    def refuses(self) -> RefusalReason | None:
        """Why a call would be refused now; None if it would not."""
        left = None if self.budget is None else exact(self.budget) - exact(self.spent) - exact(1)
        reasons = {
            RefusalReason.OFF: self.off,
            RefusalReason.PARKED: self.parked_until is not None,
            RefusalReason.OPEN: self.breaker == "open",
            RefusalReason.BUDGET: left is not None and left < 0,
            RefusalReason.RESERVED: left is not None and left < exact(self.reserved),
            RefusalReason.SLOTS: self.slots_limit is not None and self.slots >= self.slots_limit,
            RefusalReason.RATE: self.calls_limit is not None and self.calls >= self.calls_limit,
        }
        return next((reason for reason, holds in reasons.items() if holds), None)


def state_of(declared: LimitDeclaration | None, run: str, view: LimitView) -> LimitState:
    """Combine a limit's declaration and its stored counts. Without a declaration, only the counts are filled in."""
    declared = declared or LimitDeclaration()
    rate, budget = declared.rate, declared.budget
    calls = 0
    if rate is not None and view.counts:
        meter = Meter(view.width, view.head, view.counts).turned(view.now, rate.reach, rate.width)
        calls = sum(meter.counted(view.now, rate.per))
    span = None if budget is None else budget.span(view.now, run).name
    return LimitState(
        limit=view.name,
        key=view.key,
        calls=calls,
        calls_limit=None if rate is None else rate.calls,
        per_seconds=None if rate is None else rate.per,
        slots=view.slots,
        slots_limit=declared.concurrent,
        spent=shown(view.spent.get(span or "", 0)),
        reserved=shown(view.reserved.get(span or "", 0)),
        budget=None if budget is None else budget.limit,
        span=span,
        line_until=moment(view.turn, view.now),
        parked_until=moment(view.parked_until, view.now),
        breaker="open" if view.open_until else "closed",
        open_until=moment(view.open_until, -math.inf),
        off=view.off,
    )


def moment(seconds: float, after: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds and seconds > after else None
