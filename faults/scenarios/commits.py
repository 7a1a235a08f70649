"""Processes on one SQLite file, killed in the middle of commits by the thousand."""

import asyncio
import ctypes
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import sqlalchemy as sa

from faults.fleet import Fleet
from faults.ledger import Ledger
from faults.recorder import Recorder
from faults.scenario import Scenario, Site
from faults.world import World, world
from rowmill.demo.worker import PR_SET_PDEATHSIG
from rowmill.model.judge import judge
from rowmill.store.own import fleet as members

AT_ONCE = 3
ENLISTED = 200
ENDS = (signal.SIGINT, signal.SIGTERM)
LONGEST = 0.03
"""Most seconds that a process lives after its first claim."""


class CommitKills(Scenario):
    """Three processes claim and settle as fast as the file allows. Each is killed within milliseconds, and replaced. A
    worker that is never killed rescues their rows."""

    name = "killed inside commits"
    stores = ("sqlite",)
    workers = 1
    needed = ("kills",)
    enough = 2000

    def inject(self, fleet: Fleet, site: Site) -> None:
        made = world(site.url)
        churns: list[Churn] = []
        try:
            self._churn(fleet, site, made, churns)
        finally:
            with without_signals():
                for churn in churns:
                    churn.kill()

    def _churn(self, fleet: Fleet, site: Site, made: World, churns: "list[Churn]") -> None:
        launched, numbers = count(1), list[int]()
        for _ in self.ticks(0.0, lambda: self.dose["kills"] >= self.enough):
            with without_signals():
                numbers = numbers or asyncio.run(register_workers(made))
                while len(churns) < AT_ONCE and numbers:
                    ledger = site.folder / f"churn-{next(launched)}.ledger"
                    churns.append(launch(made, numbers.pop(), ledger, fleet.chance.random() * LONGEST))
                for churn in [one for one in churns if one.due()]:
                    churn.kill()
                    churns.remove(churn)
                    self.dose["kills"] += 1
            time.sleep(0.001)
            fleet.look()


@contextmanager
def without_signals() -> Iterator[None]:
    """Delay signals in this block. An exception that a signal raises inside a fork would be lost, and inside a kill it
    would leave half of it undone."""
    heard: list[int] = []
    former = {number: signal.signal(number, lambda got, _: heard.append(got)) for number in ENDS}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        for got in heard[:1]:
            signal.raise_signal(got)


@dataclass(eq=False)
class Churn:
    pid: int
    heard: int
    seconds: float
    """How long the process may live after it has started."""
    begun: float = float("inf")

    def due(self) -> bool:
        if self.begun == float("inf") and select.select([self.heard], [], [], 0)[0]:
            self.begun = time.monotonic()
        return time.monotonic() - self.begun >= self.seconds

    def kill(self) -> None:
        os.close(self.heard)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def launch(made: World, worker: int, ledger: Path, seconds: float) -> Churn:
    """Fork a process. Starting a Python would take longer than it may live."""
    heard, says = os.pipe()
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        try:
            die_with(parent)
            asyncio.run(churn(made, worker, Ledger(ledger), says))
        finally:
            os._exit(1)
    os.close(says)
    return Churn(pid, heard, seconds)


def die_with(parent: int) -> None:
    """Stop claiming when the lab is gone, however it ended."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


async def register_workers(made: World) -> list[int]:
    """Register numbers for the next processes, and prepare their statements before the fork: they live too short for
    either."""

    def register(connection: sa.Connection) -> list[int]:
        return [members.register(connection, [made.lots, made.papers]) for _ in range(ENLISTED)]

    async with made.mill.opened():
        return await made.mill.run(register)


async def churn(made: World, worker: int, ledger: Ledger, says: int) -> None:
    """Claim and settle until killed."""
    store = made.mill.store
    Recorder(store, ledger)
    async with made.mill.opened():
        store.worker = worker
        os.write(says, b"!")
        while True:
            for queue in (made.lots, made.papers):
                for step in queue.steps:
                    leases = await store.claim(queue, step, 20)
                    if leases:
                        await store.settle([judge(lease, {"mark": lease.token}, 0.0) for lease in leases])
