"""Processes of `rowmill work tests.schedules.app:mill`."""

import asyncio
import os
import signal
from pathlib import Path

import sqlalchemy as sa

import rowmill as rm
from tests.faults.processes import QUICK
from tests.schedules.app import FOLDER, KILL_EVERY, effect
from tests.support.postgres import REPOSITORY
from tests.support.python import Python


class Fleet:
    """Processes of `rowmill work`, each replaced when it is gone."""

    def __init__(self, url: str, folder: Path, size: int, kill_every: int) -> None:
        self.mill = rm.Mill(url)
        self.folder, self.size = folder, size
        self.environment = os.environ | QUICK | {"ROWMILL_DATABASE_URL": url, "PYTHONPATH": str(REPOSITORY)}
        self.environment |= {FOLDER: str(folder), KILL_EVERY: str(kill_every)}
        self.processes: list[Python] = []
        self.deaths = 0

    def prepare(self) -> None:
        async def work() -> None:
            await self.mill.migrate()
            await self.mill.run(effect.metadata.create_all)

        asyncio.run(work())

    def fill(self) -> None:
        """Start as many as are missing."""
        alive = [process for process in self.processes if process.poll() is None]
        self.deaths += len(self.processes) - len(alive)
        for _ in range(self.size - len(alive)):
            with (self.folder / "log").open("ab") as log:
                command = ("-m", "rowmill", "work", "tests.schedules.app:mill")
                alive.append(Python(*command, cwd=self.folder, stdout=log, stderr=log, env=self.environment))
        self.processes = alive

    def kill_one(self) -> None:
        """The one that has been there longest."""
        os.kill(self.processes[0].pid, signal.SIGKILL)
        self.processes[0].wait()

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def effects(self) -> list[tuple[int, int]]:
        """(due, attempt) of every effect, in order."""
        wanted = sa.select(effect.c.due, effect.c.attempt).order_by(effect.c.id)
        return [tuple(row) for row in asyncio.run(self.mill.run(lambda c: c.execute(wanted).all(), write=False))]

    def begun(self) -> list[tuple[int, int]]:
        path = self.folder / "journal"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(line.split()[0]), int(line.split()[1])) for line in lines]
