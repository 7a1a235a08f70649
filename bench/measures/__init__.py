"""The measurements. Each module returns results, and the figures behind them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from bench.results import Account


@dataclass(frozen=True)
class Scale:
    """The amount of work. A quick run only shows that everything works; its figures mean nothing."""

    jobs: int = 100_000
    slow_jobs: int = 1_000
    transactions: int = 20_000
    """Jobs that get a transaction each."""
    rounds: int = 3
    backlog: int = 10_000_000
    finished: int = 100_000_000
    singles: int = 2_000
    bulk: int = 100_000
    latencies: int = 250
    pinned_seconds: int = 180
    pinned_peer_seconds: int = 30
    warm_seconds: float = 20.0
    """Warm-up before the pin: in the first seconds the system writes nothing back, and everything is faster."""
    idle_seconds: float = 10.0
    starts: int = 5

    @property
    def of_transactions(self) -> "Scale":
        return replace(self, jobs=self.transactions)


QUICK = Scale(
    jobs=5_000, slow_jobs=200, transactions=500, rounds=1, backlog=500_000, finished=50_000, singles=50,
    bulk=5_000, latencies=10, pinned_seconds=6, pinned_peer_seconds=4, warm_seconds=1.0, idle_seconds=2.0, starts=1,
)  # fmt: skip

Measure = Callable[[str, Scale, Account], None]
"""Called with the server's URL."""
