"""Throughput while a transaction elsewhere prevents the cleanup of dead rows, and jobs keep arriving."""

import time

import psycopg

from bench.measures import Scale
from bench.peers.known import GRAPHILE, PGQUEUER, ROWMILL, Peer
from bench.results import Account, Result
from bench.runs import fresh

AHEAD = 20_000
"""Jobs that wait at any time."""
STEP = 5.0
"""Seconds per sample."""


def rates(server: str, peer: Peer, seconds: int, warm: float, *, pin: bool = True) -> list[float]:
    """Return jobs per second, sample by sample, from the moment when the horizon is pinned."""
    with (
        fresh(peer, server) as site,
        psycopg.connect(site.url) as holder,
        site.running("work"),
        site.running("feed", AHEAD),
    ):
        site.wait_for_start(1)
        time.sleep(warm)
        if pin:
            holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            holder.execute("SELECT txid_current(), count(*) FROM pg_class")
        samples = []
        began = before = time.monotonic()
        count = site.counted()[0]
        while before - began < seconds:
            time.sleep(STEP)
            now, counted = time.monotonic(), site.counted()[0]
            samples.append((counted - count) / (now - before))
            before, count = now, counted
    return samples


def pinned(server: str, scale: Scale, account: Account) -> None:
    found = {
        ROWMILL.name: rates(server, ROWMILL, scale.pinned_seconds, scale.warm_seconds),
        PGQUEUER.name: rates(server, PGQUEUER, scale.pinned_peer_seconds, scale.warm_seconds),
        GRAPHILE.name: rates(server, GRAPHILE, scale.pinned_peer_seconds, scale.warm_seconds),
    }
    kept = {name: last_to_first(samples) for name, samples in found.items()}
    minutes = scale.pinned_seconds / 60
    results = [Result(f"horizon pinned for {minutes:g} minutes, last third / first", kept[ROWMILL.name], 0.9)]
    results += [
        Result(f"the same, {name}, {scale.pinned_peer_seconds / 60:g} minutes", kept[name])
        for name in (PGQUEUER.name, GRAPHILE.name)
    ]
    account.add(results, pinned={name: [round(rate) for rate in samples] for name, samples in found.items()})


def control(server: str, scale: Scale, account: Account) -> None:
    """Measure the same without a pin: the effect of the machine and of the growing table alone."""
    samples = rates(server, ROWMILL, scale.pinned_seconds, scale.warm_seconds, pin=False)
    result = Result("the same without a pin, last third / first", last_to_first(samples))
    account.add([result], unpinned=[round(rate) for rate in samples])


def last_to_first(samples: list[float]) -> float:
    third = max(len(samples) // 3, 1)
    return sum(samples[-third:]) / sum(samples[:third])
