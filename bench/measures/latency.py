"""Latency from commit to handler when the worker is idle."""

import statistics
import time
from pathlib import Path

from bench.measures import Scale
from bench.peers.known import GRAPHILE, PGQUEUER, PROCRASTINATE, RAW, ROWMILL_LATENCY, Peer
from bench.results import Account, Result
from bench.runs import fresh

SETTLE_DOWN = 3.0
"""Seconds until a started worker is idle."""


def latencies(server: str, peer: Peer, jobs: int) -> list[float]:
    """Return milliseconds from the moment when the sender knew of the commit; 0 for a job that started before that."""
    with fresh(peer, server) as site, site.running("work"):
        time.sleep(SETTLE_DOWN)
        sent = site.call("send", jobs)["sent"]
        deadline = time.monotonic() + 10.0
        while len(starts := read(site.folder / "starts")) < jobs and time.monotonic() < deadline:
            time.sleep(0.05)
    return [max(starts[n] - committed, 0.0) * 1e3 for n, _, committed in sent]


def read(path: Path) -> dict[int, float]:
    lines = path.read_text().splitlines() if path.exists() else []
    found: dict[int, float] = {}
    for line in lines:
        number, at = line.split()
        found.setdefault(int(number), float(at))
    return found


def idle(server: str, scale: Scale, account: Account) -> None:
    peers = (ROWMILL_LATENCY, PGQUEUER, GRAPHILE, PROCRASTINATE, RAW)
    found = {peer.name: latencies(server, peer, scale.latencies) for peer in peers}
    p50 = {name: statistics.median(times) for name, times in found.items()}
    p99 = {name: statistics.quantiles(times, n=100)[98] for name, times in found.items()}
    others = [peer.name for peer in peers if peer not in (ROWMILL_LATENCY, RAW)]
    best = min(others, key=lambda name: p50[name])
    ours = ROWMILL_LATENCY.name
    results = [
        Result(f"latency p50 / the best peer's ({best})", p50[ours] / p50[best], 1.2, at_most=True),
        Result("latency p99 / its own p50", p99[ours] / p50[ours], 4.0, at_most=True),
    ]
    account.add(results, latency_ms={name: {"p50": p50[name], "p99": p99[name]} for name in found})
