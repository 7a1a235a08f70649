"""How the services misbehave, by a plan: by chance with a seed, in an order, or for as long as an outage lasts."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Fault(StrEnum):
    TOO_MANY = "429"
    UNAVAILABLE = "503"
    """With Retry-After."""
    MAXLAG = "maxlag"
    """Of those who send `maxlag`, as MediaWiki does it: status 200."""
    RATELIMITED = "ratelimited"
    BROKEN = "500"
    HANG = "hang"
    """No answer, until the client goes."""
    DRIP = "drip"
    """A byte now and then."""
    CUT = "cut"
    """The connection ends in the middle of the body."""
    SHORT = "short"
    """The body ends early, and its length agrees."""
    HTML = "html"
    """An error page with status 200."""
    FORBIDDEN = "403"
    REDIRECT = "302"
    REJECTED = "400"


@dataclass
class Plan:
    rates: dict[str, float] = field(default_factory=dict)
    """By fault: how often, from 0 to 1, at any service."""
    by_service: dict[str, dict[str, float]] = field(default_factory=dict)
    next: dict[str, list[str]] = field(default_factory=dict)
    """By service: faults of its next requests, before chance has a say; "" for none."""
    outages: list[tuple[str, float, float]] = field(default_factory=list)
    """Service (or *), from, to: seconds after the start. Connections are closed without a word."""
    retry_after: float = 1.0
    latency: float = 0.0
    """Seconds before each answer."""
    seed: int = 1
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.chance, self.began = random.Random(self.seed), self.clock()

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> "Plan":
        known = {name: given[name] for name in cls.__dataclass_fields__ if name in given and name != "clock"}
        return cls(**known)

    def away(self, service: str) -> bool:
        now = self.clock() - self.began
        return any(named in (service, "*") and start <= now < end for named, start, end in self.outages)

    def fault(self, service: str) -> Fault | None:
        if waiting := self.next.get(service):
            named = waiting.pop(0)
            return Fault(named) if named else None
        drawn = self.chance.random()
        for name, rate in {**self.rates, **self.by_service.get(service, {})}.items():
            if drawn < rate:
                return Fault(name)
            drawn -= rate
        return None
