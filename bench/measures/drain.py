"""How fast a backlog is processed."""

from collections.abc import Sequence

from bench.measures import Scale
from bench.peers.known import (
    AWA,
    GRAPHILE,
    PGQUEUER,
    PROCRASTINATE,
    RAW,
    RAW_WIDE,
    ROWMILL,
    ROWMILL_WIDE,
    Peer,
    rowmill,
)  # fmt: skip
from bench.results import Account, Rates, Result
from bench.runs import drained, fresh


def rounds(server: str, scale: Scale, peers: Sequence[Peer], processes: int = 1) -> Rates:
    """Run the peers in turn, so that a slow minute of the machine affects all of them."""
    rates = Rates()
    for _ in range(scale.rounds):
        for peer in peers:
            jobs = scale.slow_jobs if peer.slow else scale.jobs
            with fresh(peer, server, jobs) as site:
                rates.add(peer.name, drained(site, jobs, processes))
    return rates


def narrow(server: str, scale: Scale, account: Account) -> None:
    rates = rounds(server, scale, [ROWMILL, PGQUEUER, GRAPHILE, AWA, RAW, PROCRASTINATE])
    goals = ((GRAPHILE, 1.3), (PGQUEUER, 2.5), (AWA, 5.0), (PROCRASTINATE, 60.0), (RAW, 0.7))
    results = [
        Result(f"drain, one process, narrow table / {peer.name}", rates.ratio(ROWMILL.name, peer.name), goal)
        for peer, goal in goals
    ]
    account.add(results, drain_narrow=rates.summary())


def wide(server: str, scale: Scale, account: Account) -> None:
    rates = rounds(server, scale, [ROWMILL_WIDE, PGQUEUER, RAW_WIDE])
    goals = ((PGQUEUER, 1.8), (RAW_WIDE, 0.7))
    results = [
        Result(
            f"drain, one process, wide table with results / {peer.name}",
            rates.ratio(ROWMILL_WIDE.name, peer.name),
            goal,
        )
        for peer, goal in goals
    ]
    account.add(results, drain_wide=rates.summary())


def two_processes(server: str, scale: Scale, account: Account) -> None:
    rates = rounds(server, scale, [ROWMILL, GRAPHILE, PGQUEUER, RAW], processes=2)
    result = Result("drain, two processes / graphile-worker", rates.ratio(ROWMILL.name, GRAPHILE.name), 1.2)
    account.add([result], drain_two=rates.summary())


def shapes(server: str, scale: Scale, account: Account) -> None:
    """Measure each feature of a queue against a plain queue."""
    peers = [
        ROWMILL,
        rowmill("retries"),
        rowmill("priorities", "bench_ranked"),
        rowmill("ordered", "bench_ordered"),
        rowmill("stages", words=("queued", "reading", "read", "writing")),
        rowmill("batches"),
        rowmill("sync"),
    ]
    rates = rounds(server, scale, peers)
    results = [
        Result(f"drain, {peer.name.removeprefix('rowmill ')} / plain", rates.ratio(peer.name, ROWMILL.name))
        for peer in peers[1:]
    ]
    account.add(results, drain_shapes=rates.summary())
