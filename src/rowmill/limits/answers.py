"""What limits are answered for one call, and what the end of a call says of its provider."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rowmill.model.errors import PermanentError, ProviderDown, ProviderRefused, RateLimited, wait_of
from rowmill.model.judge import bounded
from rowmill.model.limits import Budget, LimitDeclaration, Rate, RefusalReason, exact
from rowmill.store.limits.asks import FinishCalls, Outcome, PermitRules, PermitsTaken


@dataclass(frozen=True, slots=True)
class LimitTerms:
    """A limit as it was declared, and as the database checks it."""

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
    """Room for one call; where calls hold nothing, for each of several."""

    terms: LimitTerms
    key: str
    taken: PermitsTaken
    ticket: int
    amount: int
    fresh_until: float
    """On the system's monotonic clock: a call that has not gone out by then must not any more. The loop's clock may
    stand still while a handler keeps the loop busy."""
    began: float
    plain: bool
    """It holds nothing, and its provider is well: if all goes well, its end need not be told."""
    lost: bool = False
    """It ran out while the call was under way: this process was away for too long."""


@dataclass(slots=True)
class CallRefused:
    """No room for one call: it may ask again after `wait` seconds, where it is in line for a turn unless it `stays`."""

    reason: RefusalReason
    wait: float
    stays: bool
    soon: float


Answer = Grant | CallRefused


@dataclass(slots=True)
class CallsEnded:
    """Calls that have ended in the same way."""

    grants: Sequence[Grant]
    outcome: Outcome
    cost: int | None
    """Of each; None: as much as was said before."""
    seconds: float
    ended: "asyncio.Future[None]"
    """It was told."""
    opened: Callable[[], None] | None = None
    """Called if that was one failure too many, and nobody calls the provider any more."""


def must_tell(grant: Grant, outcome: Outcome) -> bool:
    """A call that held nothing, to a provider that is well, ends without a word."""
    if not grant.plain or outcome in ("down", "limited", "refused"):
        return True
    return outcome == "unused" and grant.terms.rules.calls > 0


def outcome_of(error: BaseException | None) -> tuple[Outcome, float]:
    """What an exception out of a call says of its provider."""
    match error:
        case None | PermanentError():
            return "ok", 0.0
        case RateLimited():
            return "limited", bounded(wait_of(error))
        case ProviderDown():
            return "down", 0.0
        case ProviderRefused():
            return "refused", 0.0
        case _:  # `Limited` by another limit too: whether this one's provider was called before, nobody knows
            return "unknown", 0.0


def together(ends: Sequence[CallsEnded], now: float) -> list[tuple[FinishCalls, list[tuple[Grant, CallsEnded]]]]:
    """What has to be told of these, in few pieces. Failures of a provider are counted one by one."""
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
