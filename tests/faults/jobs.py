"""The application of the fault tests: jobs whose title says what becomes of their worker.

Every handler call is written to a journal before anything happens, so that nothing of it is lost with the process.
"""

import asyncio
import os
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, MetaData, Table

from rowmill import Lease, Mill, Queue, Retry, States, fixed

MOMENT = sa.DateTime(timezone=True)
FOLDER = "FAULTS_FOLDER"
LEASE = "FAULTS_LEASE"
CONCURRENCY = "FAULTS_CONCURRENCY"
HANDLER = "FAULTS_HANDLER"


def build(url: str, lease: float = 1.0) -> tuple[Mill, Queue[Any], Table]:
    metadata = MetaData()
    job = Table(
        "job",
        metadata,
        Column("id", sa.Integer, primary_key=True),
        Column("title", sa.Text, nullable=False, server_default=""),
        Column("state", sa.Text, nullable=False, server_default="ready"),
        Column("attempts", sa.Integer, nullable=False, server_default="0"),
        Column("available_at", MOMENT),
        Column("lease", sa.BigInteger),
        Column("leased_until", MOMENT),
        Column("error", sa.Text),
        Column("finished_at", MOMENT),
    )
    effect = Table("effect", metadata, Column("id", sa.Integer, primary_key=True), Column("job", sa.Integer))
    mill = Mill(url)
    jobs = mill.queue(job, states=States(), retry=Retry(attempts=3, backoff=fixed(0.0)), lease=lease)
    return mill, jobs, effect


@dataclass(frozen=True)
class Call:
    key: int
    attempt: int
    pid: int
    what: str


class Journal:
    """Lines that survive their writer."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal"

    def write(self, job: Lease[Any], what: str) -> None:
        line = f"{job.key} {job.attempt} {os.getpid()} {what}\n"
        file = os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def calls(self, what: str | None = None) -> list[Call]:
        if not self.path.exists():
            return []
        parts = [line.split() for line in self.path.read_text().splitlines()]
        found = [Call(int(key), int(attempt), int(pid), said) for key, attempt, pid, said in parts]
        return [call for call in found if what is None or call.what == what]


def register(jobs: Queue[Any], effect: Table, folder: Path) -> None:
    """`poison` kills its process, `interrupt` raises KeyboardInterrupt, `break` breaks its worker, `hold` waits for the
    file `go`, `block` blocks the loop, `ignore` never ends, whoever cancels it; any other title is quick. With `effect`
    in it, the handler writes one, and settles in the same transaction."""
    journal = Journal(folder)
    go = folder / "go"

    if os.environ.get(HANDLER) == "thread":

        @jobs.handler()
        def handle_in_thread(job: Lease[Any]) -> None:
            journal.write(job, "begin")
            threading.Event().wait()

        return

    @jobs.handler(concurrency=int(os.environ.get(CONCURRENCY, "10")))
    async def handle(job: Lease[Any]) -> None:
        journal.write(job, "begin")
        title = job.row.title
        if "poison" in title:
            os.kill(os.getpid(), signal.SIGKILL)
        if "interrupt" in title:
            raise KeyboardInterrupt
        if "break" in title:
            jobs.mill.store.claim = None  # type: ignore[assignment,method-assign]
        if "block" in title:
            while not go.exists():
                time.sleep(0.02)  # noqa: ASYNC251
        if "hold" in title:
            while not go.exists():
                await asyncio.sleep(0.02)
        while "ignore" in title:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        if "effect" in title:
            async with job.settling() as session:
                await session.execute(sa.insert(effect).values(job=job.key))
        journal.write(job, "end")
