"""Decides what happens to each company, from its number and the seed only, so that the verification knows it too."""

import random
from dataclasses import dataclass
from enum import StrEnum

SLOW_SHARE = 0.03
FLAKY_SHARE = 0.04
GONE_SHARE = 0.02
OWN_TRANSACTION_SHARE = 0.05
FEWEST_SLOW = 40
"""Least number of slow rows, also in a small table: the demo has to find a worker inside a handler."""


class FateKind(StrEnum):
    QUICK = "quick"
    SLOW = "slow"
    """Takes tens of milliseconds to a second."""
    FLAKY = "flaky"
    """Fails once or twice, then succeeds."""
    GONE = "gone"
    """Fails permanently."""
    POISON = "poison"
    """Kills the process that tries it, every time."""


@dataclass(frozen=True, slots=True)
class Fate:
    kind: FateKind
    seconds: float
    """How long the provider takes to reply."""
    failures: int
    """Number of attempts that fail before one succeeds."""
    own_transaction: bool
    """True if the handler writes the effect itself, in `settling()`; otherwise it returns values."""

    @property
    def ends_dead(self) -> bool:
        return self.kind in (FateKind.GONE, FateKind.POISON)


class Fates:
    """The fates of all companies of a demo, numbered from 1."""

    def __init__(self, rows: int, seed: int) -> None:
        self.rows = rows
        self.seed = seed
        self._slow = max(SLOW_SHARE, min(FEWEST_SLOW / rows, 0.3))
        early = range(max(rows // 50, 1), max(rows // 2, 3))
        poison = min(max(rows // 6000, 2), 6, len(early))
        self.poison = frozenset(random.Random(f"{seed}:poison").sample(early, poison))

    def of(self, company: int) -> Fate:
        chance = random.Random(f"{self.seed}:{company}")
        kind = FateKind.POISON if company in self.poison else self._kind(chance.random())
        seconds = 0.03 + 0.97 * chance.random() ** 2 if kind is FateKind.SLOW else 0.005 + 0.015 * chance.random()
        failures = chance.choice((1, 2)) if kind is FateKind.FLAKY else 0
        return Fate(kind, seconds, failures, chance.random() < OWN_TRANSACTION_SHARE)

    def _kind(self, draw: float) -> FateKind:
        for kind, share in ((FateKind.SLOW, self._slow), (FateKind.FLAKY, FLAKY_SHARE), (FateKind.GONE, GONE_SHARE)):
            if draw < share:
                return kind
            draw -= share
        return FateKind.QUICK

    def expected_dead(self) -> frozenset[int]:
        return frozenset(company for company in range(1, self.rows + 1) if self.of(company).ends_dead)
