"""Results of asking a limit for permits, and reports of calls that have ended."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rowmill.model.errors import PermanentError, ProviderDown, ProviderRefused, RateLimited, wait_of
from rowmill.model.judge import bounded
from rowmill.model.limits import Budget, LimitDeclaration, Rate, RefusalReason, exact
from rowmill.store.limits.asks import FinishCalls, Outcome, PermitRules, PermitsTaken


@dataclass(frozen=True, slots=True)
class LimitTerms:
    """A limit as the application declares it and as the database checks it."""

    rules: PermitRules
    declared: LimitDeclaration
    run: str = ""

    @property
    def rate(self) -> Rate | None:
        return self.declared.rate

    @property
    def budget(self) -> Budget | None:
        return self.declared.budget


def terms_of(name: str, declared: LimitDeclaration, lease: float, run: str) -> LimitTerms:
    rate, budget = declared.rate, declared.budget
    rules = PermitRules(
        name,
        calls=0 if rate is None else rate.calls,
        reach=0.0 if rate is None else rate.reach,
        width=0.0 if rate is None else rate.width,
        slots=declared.concurrent or 0,
        budget=0 if budget is None else exact(budget.limit),
        spent_by_crash=budget is not None and budget.crashed == "spent",
        lease=lease,
        breaker=declared.breaker,
    )
    return LimitTerms(rules, declared, run)


@dataclass(slots=True)
class Grant:
    """A permit for one call. Calls without a ticket share one Grant object."""

    terms: LimitTerms
    key: str
    taken: PermitsTaken
    ticket: int
    amount: int
    fresh_until: float
    """Deadline on the monotonic clock: a call that has not started by then must ask again. The loop's clock would not
    do: it stands still while a handler blocks the loop."""
    began: float
    plain: bool
    """True if the call holds no ticket and its provider is healthy. A successful call then needs no report at its
    end."""
    lost: bool = False
    """True once the ticket expired during the call, because this process could not renew it in time."""


@dataclass(slots=True)
class CallRefused:
    """A refused call. It may ask again after `wait` seconds. With `stays`, the caller keeps waiting here; without, it
    gets a place in the queue for permits."""

    reason: RefusalReason
    wait: float
    stays: bool
    soon: float


PermitResult = Grant | CallRefused


@dataclass(slots=True)
class CallsEnded:
    """A report of calls that have ended with the same outcome."""

    grants: Sequence[Grant]
    outcome: Outcome
    cost: int | None
    """Actual cost of each call. None: as estimated before the call."""
    seconds: float
    ended: "asyncio.Future[None]"
    """Resolved once the database has recorded the end."""
    opened: Callable[[], None] | None = None
    """Called if this failure opened the circuit breaker."""


def must_report(grant: Grant, outcome: Outcome) -> bool:
    """Return whether the database has to know how this call ended. It need not if the call held no ticket and its
    provider is healthy."""
    if not grant.plain or outcome in ("down", "limited", "refused"):
        return True
    return outcome == "unused" and grant.terms.rules.calls > 0


def outcome_of(error: BaseException | None) -> tuple[Outcome, float]:
    """Classify an exception that a call raised: the provider's condition, and the seconds that it asks us to wait."""
    match error:
        case None | PermanentError():
            return "ok", 0.0
        case RateLimited():
            return "limited", bounded(wait_of(error))
        case ProviderDown():
            return "down", 0.0
        case ProviderRefused():
            return "refused", 0.0
        case _:  # includes `Limited` by another limit: the provider may or may not have been called
            return "unknown", 0.0


def group_ends(ends: Sequence[CallsEnded], now: float) -> list[tuple[FinishCalls, list[tuple[Grant, CallsEnded]]]]:
    """Group ended calls into few statements. Failures of a provider stay single, because the breaker counts each of
    them."""
    groups: dict[tuple[object, ...], list[tuple[Grant, CallsEnded]]] = {}
    for end in ends:
        for grant in end.grants:
            alone = id(grant) if end.outcome == "down" else 0
            kind = (grant.terms.rules.name, grant.key, end.outcome, grant.taken.bucket, end.seconds, grant.taken.probe)
            groups.setdefault((*kind, alone), []).append((grant, end))
    return [(_finish(group, now), group) for group in groups.values()]


def _finish(group: list[tuple[Grant, CallsEnded]], now: float) -> FinishCalls:
    (first, end), rules = group[0], group[0][0].terms.rules
    unused = end.outcome == "unused"
    costs = [0 if unused else grant.amount if one.cost is None else one.cost for grant, one in group]
    ticketed = bool(first.ticket)
    return FinishCalls(
        rules, first.key, end.outcome,
        [grant.ticket for grant, _ in group] if ticketed else (),
        costs if ticketed else (),
        [grant.amount for grant, _ in group] if ticketed else (),
        [grant.taken.span for grant, _ in group] if ticketed else (),
        seconds=end.seconds,
        held=sum(now - grant.began for grant, _ in group) / len(group) if rules.ticketed and not unused else 0.0,
        bucket=first.taken.bucket,
        unused=len(group) if unused and rules.calls else 0,
        probe=first.taken.probe,
    )  # fmt: skip
