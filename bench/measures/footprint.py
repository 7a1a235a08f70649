"""Footprint of a worker: idle, starting, and busy. Rowmill's is `rowmill work`, as users start it."""

import os
import statistics
import time
from dataclasses import asdict, dataclass

from bench.measures import Scale
from bench.peers.known import GRAPHILE, PGQUEUER, PROCRASTINATE, RAW, ROWMILL_WORK, ROWMILL_WORK_ORM, Peer
from bench.results import Account, Result
from bench.runs import Site, fresh

REST = 3.0
"""Seconds until a started worker is idle."""
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def megabytes(pid: int) -> float:
    with open(f"/proc/{pid}/status") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def cpu(pid: int) -> float:
    """Return the CPU seconds of a process so far."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


@dataclass(frozen=True)
class Footprint:
    """The footprint of one worker process."""

    start: float
    """Seconds from its start to its first job."""
    idle_mb: float
    idle_percent: float
    busy_mb: float
    busy_us: float
    """CPU microseconds per job."""


def measured(server: str, scale: Scale, peer: Peer) -> Footprint:
    jobs = scale.slow_jobs if peer.slow else scale.jobs
    with fresh(peer, server) as site:
        start = statistics.median(started(site) for _ in range(scale.starts))
        site.reset()
        with site.running("work") as [process]:
            time.sleep(REST)
            idle_mb, before = megabytes(process.pid), cpu(process.pid)
            time.sleep(scale.idle_seconds)
            idle = cpu(process.pid) - before
            site.call("load", jobs)
            site.wait_for(jobs)
            busy = cpu(process.pid) - before - idle
            busy_mb = megabytes(process.pid)
    return Footprint(start, idle_mb, idle / scale.idle_seconds * 100, busy_mb, busy / jobs * 1e6)


def started(site: Site) -> float:
    """Measure the seconds from the start of a worker to its first job."""
    site.reset()
    site.call("load", 1)
    began = time.monotonic()
    with site.running("work"):
        _, first, _ = site.wait_for_start(1)
        site.wait_for(1)
    return first - began


def worker(server: str, scale: Scale, account: Account) -> None:
    found = measured(server, scale, ROWMILL_WORK)
    with_orm = measured(server, scale, ROWMILL_WORK_ORM)
    results = [
        Result("idle worker, memory", found.idle_mb, 55.0, at_most=True, unit="MB"),
        Result("idle worker, processor", found.idle_percent, 1.0, at_most=True, unit="%"),
        Result("start of a worker, to its first job", found.start, 0.5, at_most=True, unit="s"),
        Result("idle worker on an ORM class, memory", with_orm.idle_mb, unit="MB"),
        Result("busy worker, memory", found.busy_mb, unit="MB"),
        Result("busy worker, processor per job", found.busy_us, unit="µs"),
    ]
    account.add(results)


def beside_peers(server: str, scale: Scale, account: Account) -> None:
    peers = (ROWMILL_WORK, ROWMILL_WORK_ORM, PGQUEUER, GRAPHILE, PROCRASTINATE, RAW)
    account.add([], footprint={peer.name: asdict(measured(server, scale, peer)) for peer in peers})
