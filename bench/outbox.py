"""Is every event handled, in order per aggregate, while workers are killed?

    python -m bench.outbox [--events 100000] [--aggregates 5000] [--policy block] [--every 4] [--quiet]

Fills an outbox, starts three worker processes, and kills one of them (SIGKILL) every few seconds. One aggregate of a
hundred has an event that can't be handled. What the handlers wrote into a journal is judged at the end. With --quiet
nobody is killed: how fast it is by itself.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa

import rowmill as rm
from bench.outbox_app import BROKEN, FOLDER, GATES, LEASE, POLICY, URL, build, gate, is_broken

REPOSITORY = Path(__file__).parents[1]
Policy = Literal["block", "skip"]
HELD = 41
"""Number of events held at a gate before a worker is killed: more than two of the three can hold."""


@dataclass
class Verdict:
    """What the journal and the table show."""

    events: int = 0
    handled: int = 0
    again: int = 0
    """Events handled again after the death of a worker."""
    dead: int = 0
    alerts: int = 0
    """Dead events in the log: each at most once, and none if the worker died at that moment."""
    held_back: int = 0
    kills: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        rate = round(self.handled / self.seconds) if self.seconds else 0
        return vars(self) | {"seconds": round(self.seconds, 1), "events_per_second": rate}


class Fleet:
    """Worker processes, one of which is killed now and then."""

    def __init__(self, url: str, folder: Path, policy: Policy, lease: float, gates: Sequence[int]) -> None:
        self._given = os.environ | {
            URL: url, FOLDER: str(folder), POLICY: policy, LEASE: str(lease), "PYTHONPATH": str(REPOSITORY),
            GATES: " ".join(map(str, gates)),
            "ROWMILL_RESCUE_EVERY": "1", "ROWMILL_HEARTBEAT": "0.5", "ROWMILL_LOG": "error",
        }  # fmt: skip
        self._log = folder / "log"
        self._workers = [self._start() for _ in range(3)]
        self.kills = 0

    def _start(self) -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "rowmill", "work", "bench.outbox_app:mill"]
            return subprocess.Popen(command, cwd=REPOSITORY, env=self._given, stdout=log, stderr=log)

    def kill_one(self) -> None:
        """Kill the oldest process, and start another."""
        victim = self._workers.pop(0)
        victim.kill()
        victim.wait()
        self.kills += 1
        self._workers.append(self._start())

    def stop(self) -> None:
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            try:
                worker.wait(60)
            finally:
                worker.kill()


@contextmanager
def fleet(url: str, folder: Path, policy: Policy, lease: float, gates: Sequence[int]) -> Iterator[Fleet]:
    found = Fleet(url, folder, policy, lease, gates)
    try:
        yield found
    finally:
        found.stop()


async def fill(mill: rm.Mill, events: int, aggregates: int) -> None:
    await mill.migrate(tables=True)
    queue = mill.queues["outbox"]
    places = ((n % aggregates, n // aggregates) for n in range(events))
    await queue.load(
        {"event_type": "document.process", "aggregate_id": f"a{aggregate}", "payload": [aggregate, number]}
        for aggregate, number in places
    )


async def show(
    url: str,
    folder: Path,
    *,
    events: int,
    aggregates: int,
    policy: Policy,
    every: float | None = None,
    gates: Sequence[int] = (),
    lease: float = 5.0,
) -> Verdict:
    """Fill the outbox, kill workers, wait for the end, judge. A worker is killed every so many seconds, or whenever all
    three hold events of a gated number."""
    mill, shut = build(url, folder, policy, lease), list(gates)
    async with mill.opened():
        await fill(mill, events, aggregates)
        began = killed_at = time.perf_counter()
        with fleet(url, folder, policy, lease, gates) as workers:
            expected = expected_states(events, aggregates, policy)
            while await states(mill) != expected:
                await asyncio.sleep(0.1)
                if every is not None and time.perf_counter() - killed_at > every:
                    workers.kill_one()
                    killed_at = time.perf_counter()
                if shut and held(folder / "journal", shut[0]) >= HELD:
                    workers.kill_one()
                    gate(folder, shut.pop(0)).touch()
            seconds, kills = time.perf_counter() - began, workers.kills
        verdict = judged(folder / "journal", events, aggregates, policy)
    verdict.seconds, verdict.kills = seconds, kills
    verdict.alerts = (folder / "log").read_text().count("ADMIN_INTERVENTION_REQUIRED")
    return verdict


def held(journal: Path, number: int) -> int:
    """Count the aggregates that are at this number."""
    if not journal.exists():
        return 0
    lines = [line.split() for line in journal.read_text().splitlines()]
    return len({aggregate for what, aggregate, at in lines if what == "begin" and int(at) == number})


async def states(mill: rm.Mill) -> dict[str, int]:
    table = mill.queues["outbox"].table
    wanted = sa.select(table.c.state, sa.func.count()).group_by(table.c.state)
    rows = await mill.run(lambda connection: connection.execute(wanted).all(), write=False)
    return {str(word): int(number) for word, number in rows}


def numbers(aggregate: int, events: int, aggregates: int) -> int:
    """Return the number of events of an aggregate."""
    return events // aggregates + (aggregate < events % aggregates)


def expected_states(events: int, aggregates: int, policy: Policy) -> dict[str, int]:
    dead = held = 0
    for aggregate in range(aggregates):
        many = numbers(aggregate, events, aggregates)
        if is_broken(aggregate, BROKEN) and many > BROKEN:
            dead += 1
            held += many - BROKEN - 1 if policy == "block" else 0
    found = {"processed": events - dead - held, "dead": dead, "pending": held}
    return {word: number for word, number in found.items() if number}


def judged(journal: Path, events: int, aggregates: int, policy: Policy) -> Verdict:
    """Check the order: an event starts only after the one before it has ended, or is the broken one and may be
    skipped."""
    ended: dict[int, int] = dict.fromkeys(range(aggregates), -1)
    begun: Counter[tuple[int, int]] = Counter()
    verdict = Verdict(events)
    for line in journal.read_text().splitlines():
        what, *parts = line.split()
        aggregate, number = map(int, parts)
        if what == "end":
            ended[aggregate] = max(ended[aggregate], number)
            continue
        begun[aggregate, number] += 1
        before = number - 1
        if is_broken(aggregate, before):
            if policy == "block":
                verdict.problems.append(f"event {number} of {aggregate} was handled behind a dead one")
            before -= 1
        if ended[aggregate] not in (before, number):
            verdict.problems.append(f"event {number} of {aggregate} began when {ended[aggregate]} was the last to end")
    for aggregate in range(aggregates):
        many = numbers(aggregate, events, aggregates)
        sick = is_broken(aggregate, BROKEN) and many > BROKEN
        verdict.dead += sick
        last = BROKEN - 1 if sick and policy == "block" else many - 1
        verdict.held_back += many - 1 - BROKEN if sick and policy == "block" else 0
        if ended[aggregate] != last:
            verdict.problems.append(f"aggregate {aggregate} ended at {ended[aggregate]}, not at {last}")
        missing = [n for n in range(last + 1) if not begun[aggregate, n]]
        verdict.problems += [f"event {n} of {aggregate} was never handled" for n in missing]
    verdict.handled = len(begun)
    verdict.again = sum(begun.values()) - len(begun)
    return verdict


async def main() -> int:
    from bench.server import bench_server

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--aggregates", type=int, default=5_000)
    parser.add_argument("--policy", choices=["block", "skip"], default="block")
    parser.add_argument("--every", type=float, default=4.0, help="seconds between two kills")
    parser.add_argument("--quiet", action="store_true", help="kill nobody")
    given = parser.parse_args()
    with bench_server() as server, tempfile.TemporaryDirectory() as folder:
        verdict = await show(
            server.url, Path(folder), events=given.events, aggregates=given.aggregates, policy=given.policy,
            every=None if given.quiet else given.every,
        )  # fmt: skip
    found = verdict.as_dict()
    found["problems"] = found["problems"][:10]
    print(json.dumps({"policy": given.policy, **found}))
    return 1 if verdict.problems else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
