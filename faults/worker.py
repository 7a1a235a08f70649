"""A worker process of the lab: `python -m faults.worker`. It never outlives the process that started it."""

import argparse
import asyncio
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any, Self

import rowmill as rm
from faults.broken import GUARDS
from faults.ledger import Ledger, What
from faults.recorder import Recorder
from faults.world import LEASE, Effect, Event, Fate, Item, Lot, Paper, World, fate, poison, settled_by_handler, world
from rowmill.demo.worker import die_with_parent

URL_VARIABLE = "FAULTS_DATABASE_URL"
MEMORY = 1 << 30
"""Most bytes of a process where rows use up memory."""


@dataclass(frozen=True, slots=True)
class WorkerFaults:
    """What a scenario tells this process by its environment."""

    version: int = 1
    clock: float = 0.0
    """Seconds by which its clock is wrong."""
    poison: bool = False
    broken: str = ""
    """The guard of the engine that is removed."""

    @classmethod
    def by_environment(cls) -> Self:
        get = os.environ.get
        return cls(
            int(get("FAULTS_VERSION", "1")),
            float(get("FAULTS_CLOCK", "0")),
            "FAULTS_POISON" in os.environ,
            get("FAULTS_BROKEN", ""),
        )


class Busy(rm.TransientError):
    code = "busy"


class Broken(rm.PermanentError):
    code = "broken"


class Handlers:
    """Handlers that follow the fate of each row, and write the ledger."""

    def __init__(self, made: World, seed: int, ledger: Ledger, faults: WorkerFaults) -> None:
        self._seed, self._ledger, self._faults = seed, ledger, faults
        made.items.handler(concurrency=8)(self.item)
        made.lots.batch_handler(size=20 * faults.version, concurrency=2)(self.lot)
        made.papers.handler(stage="read", concurrency=4)(self.paper)
        made.papers.handler(stage="write", concurrency=4)(self.paper_in_a_thread)
        made.events.handler(concurrency=8)(self.event)

    async def item(self, lease: rm.Lease[Item]) -> Mapping[str, Any] | None:
        await self._live(lease)
        if self._faults.poison:
            poisoned(lease.key)
        if not settled_by_handler(lease.key):
            return {"mark": lease.token}
        self._say(What.ASK, lease, "done")
        async with lease.settling(rm.Done({"mark": lease.token})) as session:
            session.add(Effect(item=lease.key, token=lease.token))
        self._say(What.KEPT, lease, "done")
        return None

    async def lot(self, leases: list[rm.Lease[Lot]]) -> dict[int, Any]:
        answers: dict[int, Any] = {}
        for lease in leases:
            try:
                await self._live(lease)
                answers[lease.key] = {"mark": lease.token}
            except Busy:
                answers[lease.key] = rm.RetryLater(code="busy")
            except Broken:
                answers[lease.key] = rm.Dead("broken")
        return answers

    async def paper(self, lease: rm.Lease[Paper]) -> Mapping[str, Any]:
        await self._live(lease)
        return {"mark": lease.token}

    def paper_in_a_thread(self, lease: rm.Lease[Paper]) -> Mapping[str, Any]:
        time.sleep(self._begin(lease).seconds)
        self._end(lease)
        return {"mark": lease.token}

    async def event(self, lease: rm.Lease[Event]) -> Mapping[str, Any]:
        await self._live(lease)
        return {"mark": lease.token}

    async def _live(self, lease: rm.Lease[Any]) -> None:
        """Take as long as the fate says, and fail if it says so."""
        if seconds := self._begin(lease).seconds:
            await asyncio.sleep(seconds)
        self._end(lease)

    def _begin(self, lease: rm.Lease[Any]) -> Fate:
        self._say(What.BEGIN, lease)
        return fate(self._seed, lease.queue.name, lease.stage, lease.key)

    def _end(self, lease: rm.Lease[Any]) -> None:
        decided = fate(self._seed, lease.queue.name, lease.stage, lease.key)
        fails = lease.attempt <= decided.fails
        self._say(What.END, lease, "dead" if decided.dies else "again" if fails else "done")
        if decided.dies:
            raise Broken("decided")
        if fails:
            raise Busy("decided")

    def _say(self, what: What, lease: rm.Lease[Any], move: str = "") -> None:
        self._ledger.say(what, lease.queue.name, lease.key, token=lease.token, stage=lease.stage, move=move)


def poisoned(key: int) -> None:
    """Do to this process what a poison row does."""
    match poison(key):
        case "kills":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hangs":
            time.sleep(LEASE * 2)  # the whole loop, with every other row and the renewals
        case "eats":
            [bytearray(1 << 26) for _ in range(64)]  # four gigabytes, of which we may have one


def shift_clock(seconds: float) -> None:
    """Shift the clock of this process. The ledger keeps the right time."""
    real = time.time

    class Wide(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, datetime)

    class Shifted(datetime, metaclass=Wide):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.fromtimestamp(real() + seconds, tz)

    for name, module in list(sys.modules.items()):
        if name.startswith("rowmill") and getattr(module, "datetime", None) is datetime:
            module.datetime = Shifted  # type: ignore[attr-defined]
    time.time = lambda: real() + seconds


async def work(url: str, seed: int, ledger: Ledger, faults: WorkerFaults) -> None:
    made = world(url, faults.version)
    Handlers(made, seed, ledger, faults)
    Recorder(made.mill.store, ledger)
    async with made.mill.worker() as worker:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
        print("up", flush=True)
        await worker.run()


def main() -> None:
    die_with_parent()
    options = argparse.ArgumentParser()
    options.add_argument("--seed", type=int, required=True)
    options.add_argument("--ledger", type=Path, required=True)
    given = options.parse_args()
    faults = WorkerFaults.by_environment()
    if faults.broken:
        GUARDS[faults.broken]()
    if faults.clock:
        shift_clock(faults.clock)
    if faults.poison:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with suppress(KeyboardInterrupt):
        asyncio.run(work(os.environ[URL_VARIABLE], given.seed, Ledger(given.ledger), faults))


if __name__ == "__main__":
    main()
