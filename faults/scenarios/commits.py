"""Processes on one SQLite file that are killed in the middle of their commits, by the hundred."""

import asyncio
import os
import signal
import time
from pathlib import Path

from faults.fleet import Fleet
from faults.ledger import Ledger
from faults.recorder import Recorder
from faults.scenario import Scenario, Site
from faults.world import world
from rowmill.model.judge import judge
from rowmill.store import fleet as members


class CommitKills(Scenario):
    """Two processes claim and settle as fast as the file allows, and are killed within milliseconds; two more take
    their place. A worker that nobody kills gives their rows back."""

    name = "killed inside commits"
    stores = ("sqlite",)
    workers = 1
    needed = ("kills",)

    def torment(self, fleet: Fleet, site: Site) -> None:
        for _ in self.ticks(0.0):
            pair = [launch(site.url, site.folder / f"churn-{place}.ledger") for place in (1, 2)]
            time.sleep(fleet.chance.uniform(0.001, 0.03))
            for pid in pair:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                self.dose["kills"] += 1
            fleet.look()


def launch(url: str, ledger: Path) -> int:
    """A process that has just begun to work. A fork: to start a Python would take longer than it may live."""
    heard, says = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(churn(url, Ledger(ledger), says))
        finally:
            os._exit(1)
    os.close(says)
    os.read(heard, 1)
    os.close(heard)
    return pid


async def churn(url: str, ledger: Ledger, says: int) -> None:
    """Claim and settle until killed."""
    made = world(url)
    store = made.mill.store
    Recorder(store, ledger)
    async with made.mill.opened():
        queues = (made.lots, made.papers)
        store.worker = await made.mill.run(lambda connection: members.register(connection, list(queues)))
        os.write(says, b"!")
        while True:
            for queue in queues:
                for step in queue.steps:
                    leases = await store.claim(queue, step, 20)
                    if leases:
                        await store.settle([judge(lease, {"mark": lease.token}, 0.0) for lease in leases])
