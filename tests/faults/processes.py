"""Real worker processes on a fresh database, and everything that is left of them afterwards."""

import asyncio
import contextlib
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.store.own.schema import own_tables
from tests.faults.jobs import FOLDER, LEASE, Journal, build
from tests.support.postgres import REPOSITORY
from tests.support.python import Python
from tests.support.waiting import until

SECONDS = 60.0
QUICK = {
    "ROWMILL_POLL_BASE": "0.02",
    "ROWMILL_POLL_MAX": "0.1",
    "ROWMILL_HEARTBEAT": "0.2",
    "ROWMILL_RESCUE_EVERY": "0.1",
    "ROWMILL_GRACE": "30",
}


@dataclass
class Worker:
    """One process of ours, and what it said."""

    process: Python
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self) -> str:
        return self.log.read_text()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = SECONDS) -> int:
        """Its exit code."""
        return self.process.wait(seconds)

    def freeze(self, free: Callable[[], bool] = lambda: True) -> None:
        """Stop it where it stands; if that leaves nothing `free`, let it go a little further first."""
        while True:
            self.send(signal.SIGSTOP)
            until(lambda: psutil.Process(self.pid).status() == psutil.STATUS_STOPPED)
            if free():
                return
            self.thaw()

    def thaw(self) -> None:
        self.send(signal.SIGCONT)


@dataclass
class Yard:
    """A database with jobs, and the processes that work on them."""

    url: str
    folder: Path
    lease: float = 1.0
    environment: dict[str, str] = field(default_factory=dict)
    workers: list[Worker] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mill, self.jobs, self.effect = build(self.url, self.lease)
        self.journal = Journal(self.folder)

        def create(connection: Connection) -> None:
            self.effect.create(connection)

        async def migrate() -> None:
            await self.mill.migrate(tables=True)
            await self.mill.run(create)

        asyncio.run(migrate())

    def do(self, work: Callable[[Connection], Any]) -> Any:
        return asyncio.run(self.mill.run(work))

    def put(self, *titles: str) -> None:
        rows = [{"id": key, "title": title} for key, title in enumerate(titles, start=1)]
        self.do(lambda connection: connection.execute(self.jobs.insert(rows)).close())

    def rows(self) -> dict[int, Any]:
        found = self.do(lambda connection: connection.execute(sa.select(self.jobs.table)).all())
        return {row.id: row for row in found}

    def states(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for row in self.rows().values():
            found[row.state] = found.get(row.state, 0) + 1
        return found

    def finished(self) -> bool:
        return not self.states().keys() - {"done", "dead"}

    def effects(self) -> list[int]:
        wanted = sa.select(self.effect.c.job).order_by(self.effect.c.job)
        return list(self.do(lambda connection: connection.scalars(wanted).all()))

    def failures(self, key: int) -> list[tuple[int, str]]:
        attempt = own_tables(self.mill.store.dialect.name).attempt
        wanted = sa.select(attempt.c.attempt, attempt.c.code).where(attempt.c.key == str(key)).order_by(attempt.c.id)
        return [tuple(row) for row in self.do(lambda connection: connection.execute(wanted).all())]

    def writable(self) -> bool:
        """Nobody holds the lock of the file. A frozen process that did would hold up all others."""
        if self.mill.store.dialect.name != "sqlite":
            return True
        connection = sqlite3.connect(str(self.mill.url.database), timeout=0, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
        finally:
            connection.close()
        return True

    def go(self) -> None:
        """Whoever holds may go on."""
        (self.folder / "go").touch()

    def work(self, *options: str, command: str = "work", **environment: str) -> Worker:
        """Start `rowmill work`."""
        log = self.folder / f"log-{len(self.workers)}"
        given = os.environ | QUICK | {
            "ROWMILL_DATABASE_URL": self.url,
            FOLDER: str(self.folder),
            LEASE: str(self.lease),
            "PYTHONPATH": str(REPOSITORY),
        } | self.environment | environment  # fmt: skip
        with log.open("wb") as errors:
            process = Python(
                "-m", "rowmill", command, "tests.faults.app:mill", *options,
                cwd=self.folder, stdout=errors, stderr=errors, env=given,
            )  # fmt: skip
        worker = Worker(process, log)
        self.workers.append(worker)
        return worker

    def until_begun(self, *keys: int, attempt: int = 1) -> None:
        """Wait until handlers of these jobs have begun."""
        until(lambda: set(keys) <= {call.key for call in self.journal.calls("begin") if call.attempt == attempt})


@contextmanager
def yard_on(url: str, folder: Path, **options: Any) -> Iterator[Yard]:
    yard = Yard(url, folder, **options)
    try:
        yield yard
    except BaseException:
        for worker in yard.workers:
            print(f"--- {worker.log.name}, pid {worker.pid}, code {worker.process.poll()}\n{worker.said()}")
        raise
    finally:
        for worker in yard.workers:
            for process in family(worker.pid):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            worker.process.kill()
            worker.process.wait()


def family(pid: int) -> list[psutil.Process]:
    """The processes that this one started and that still live."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
