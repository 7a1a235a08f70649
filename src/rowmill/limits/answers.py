"""What limits are answered for one call, and what the end of a call says of its provider."""

from dataclasses import dataclass

from rowmill.model.errors import Limited, PermanentError, ProviderDown, ProviderRefused, RateLimited
from rowmill.model.limits import Budget, Rate, Reason
from rowmill.store.limiting.asks import Outcome, Rules, Taken


@dataclass(frozen=True, slots=True)
class Terms:
    """A limit as it was declared, and as the database checks it."""

    rules: Rules
    rate: Rate | None = None
    budget: Budget | None = None
    run: str = ""


@dataclass(slots=True)
class Grant:
    """Room for one call."""

    terms: Terms
    key: str
    taken: Taken
    ticket: int
    amount: int
    fresh_until: float
    """On the loop's clock: a call that has not gone out by then must not any more."""
    began: float
    lost: bool = False
    """It ran out while the call was under way: this process was away for too long."""


@dataclass(slots=True)
class Refusal:
    """No room for one call: it may ask again after `wait` seconds, where it is in line for a turn unless it `stays`."""

    reason: Reason
    wait: float
    stays: bool
    soon: float


Answer = Grant | Refusal


def must_tell(grant: Grant, outcome: Outcome) -> bool:
    """A call that held nothing, to a provider that is well, ends without a word."""
    if grant.ticket or grant.taken.probe or outcome in ("down", "limited", "refused"):
        return True
    if outcome == "unused":
        return grant.terms.rules.calls > 0
    return outcome == "ok" and grant.taken.failures > 0


def outcome_of(error: BaseException | None) -> tuple[Outcome, float]:
    """What an exception out of a call says of its provider."""
    match error:
        case None | PermanentError():
            return "ok", 0.0
        case RateLimited():
            return "limited", error.retry_after
        case ProviderDown():
            return "down", 0.0
        case ProviderRefused():
            return "refused", 0.0
        case Limited():
            return "unused", 0.0
        case _:
            return "unknown", 0.0
