"""The retry policy: how many attempts a row gets, and how long it waits between them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rowmill.model.duration import Duration, in_seconds
from rowmill.model.option_names import checks_options
from rowmill.model.wait import seconds_to_wait

LARGEST_COUNT = 2**31 - 1
Backoff = Callable[[int], Duration]
"""How long to wait after attempt n (1 is the first)."""


def seconds(n: float) -> float:
    return float(n)


def minutes(n: float) -> float:
    return n * 60.0


def hours(n: float) -> float:
    return n * 3600.0


def days(n: float) -> float:
    return n * 86400.0


@dataclass(frozen=True, slots=True, init=False)
class exponential:
    """Wait `base`, then 2·base, 4·base and so on, never longer than `cap`."""

    base: float
    cap: float

    def __init__(self, base: Duration, cap: Duration = 3600.0) -> None:
        object.__setattr__(self, "base", in_seconds(base))
        object.__setattr__(self, "cap", in_seconds(cap))

    def __call__(self, attempt: int) -> float:
        doublings = min(attempt - 1, 64)
        return min(self.base * 2.0**doublings, self.cap)


@dataclass(frozen=True, slots=True)
class steps:
    """Wait as listed, attempt by attempt. The last wait repeats."""

    waits: Sequence[float]

    def __init__(self, *waits: Duration) -> None:
        if not waits:
            raise ValueError("steps() needs at least one wait, as in steps(60, 300, 900)")
        object.__setattr__(self, "waits", tuple(map(in_seconds, waits)))

    def __call__(self, attempt: int) -> float:
        return self.waits[min(attempt, len(self.waits)) - 1]


def fixed(wait: Duration) -> Backoff:
    """Wait the same time after every attempt."""
    return steps(wait)


@checks_options
@dataclass(frozen=True, slots=True)
class Retry:
    """Make `attempts` in all, the first included, with `backoff` between them. `jitter` makes each wait longer by up to
    that share.

    `permanent` and `transient` judge exceptions by type; an exception of another kind is transient
    unless `unknown_is_permanent`.
    """

    attempts: int = 3
    backoff: Backoff = exponential(30.0, cap=600.0)
    jitter: float = 0.0
    permanent: tuple[type[BaseException], ...] = ()
    transient: tuple[type[BaseException], ...] = ()
    unknown_is_permanent: bool = False

    @property
    def unlimited(self) -> bool:
        """Whether rows may be tried for ever: more attempts than an integer column can count."""
        return self.attempts > LARGEST_COUNT

    def with_limit(self, own: int | None) -> "Retry":
        """Return this policy with a row's own limit of attempts; unchanged if that is None. A row gets at least one
        attempt."""
        return self if own is None else replace(self, attempts=max(own, 1))

    def wait(self, attempt: int, chance: float) -> float:
        """Return the seconds to wait after this attempt; `chance` is in [0, 1). Raises whatever the backoff raises, and
        ValueError if it returns no duration."""
        seconds = seconds_to_wait(self.backoff(max(attempt, 1)), "backoff")
        if seconds is None:
            raise ValueError("backoff answered with neither seconds nor a timedelta")
        return seconds * (1.0 + self.jitter * chance)
