"""When and how the services misbehave: at random with a seed, in a given order, or during an outage."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Fault(StrEnum):
    TOO_MANY = "429"
    UNAVAILABLE = "503"
    """503 with Retry-After."""
    MAXLAG = "maxlag"
    """MediaWiki's maxlag error with status 200, for requests with `maxlag`."""
    RATELIMITED = "ratelimited"
    BROKEN = "500"
    HANG = "hang"
    """No reply until the client gives up."""
    DRIP = "drip"
    """A byte now and then."""
    CUT = "cut"
    """The connection ends in the middle of the body."""
    SHORT = "short"
    """The body ends early, with a matching length."""
    HTML = "html"
    """An error page with status 200."""
    FORBIDDEN = "403"
    REDIRECT = "302"
    REJECTED = "400"


@dataclass
class Plan:
    rates: dict[str, float] = field(default_factory=dict)
    """Probability of each fault, from 0 to 1, at any service."""
    by_service: dict[str, dict[str, float]] = field(default_factory=dict)
    next: dict[str, list[str]] = field(default_factory=dict)
    """Faults of the next requests by service, before random ones; "" for none."""
    outages: list[tuple[str, float, float]] = field(default_factory=list)
    """Outages: service (or *), start, end in seconds. Connections are closed without a reply."""
    retry_after: float = 1.0
    latency: float = 0.0
    """Seconds before each reply."""
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
