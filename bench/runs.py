"""Runs of a peer: a fresh database, its workers, and timing."""

import json
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from bench.environments import ROOT
from bench.peers import kit
from bench.peers.known import Peer

LONGEST = 600.0
"""Seconds after which a run is an error."""


@dataclass
class Site:
    """The place where a peer runs: its own database, and a folder for its counters."""

    peer: Peer
    url: str
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def call(self, verb: str, *numbers: int) -> dict[str, Any]:
        """Run a command to its end. Return its output."""
        command = self.peer.command_of(verb, self.url, *numbers)
        environment = self.peer.environment(str(self.folder), self.url)
        ran = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, env=environment, cwd=ROOT)
        if ran.returncode:
            raise SystemExit(f"{self.peer.name} {verb} failed:\n{ran.stderr[-2000:]}")
        answers = [line for line in ran.stdout.splitlines() if line.startswith("{")]
        return json.loads(answers[-1]) if answers else {}

    @contextmanager
    def running(self, verb: str, *numbers: int, processes: int = 1) -> Iterator[list[subprocess.Popen[bytes]]]:
        """Start processes of a command that does not end by itself. Kill them at the end of the block."""
        command = self.peer.command_of(verb, self.url, *numbers)
        environment = self.peer.environment(str(self.folder), self.url)
        with (self.folder / f"{verb}.log").open("ab") as log:
            started = [
                subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log) for _ in range(processes)
            ]
        self.processes += started
        try:
            yield started
        finally:
            for process in started:
                self.processes.remove(process)
                process.send_signal(signal.SIGKILL)
            for process in started:
                process.wait()

    def counted(self) -> tuple[int, float, float]:
        kit.TICKS = self.folder / "ticks"
        return kit.counted()

    @contextmanager
    def asking(self) -> Iterator[Any]:
        """Open a connection to the peer's database."""
        if self.url.startswith("sqlite"):
            path = self.url.removeprefix("sqlite:///")
            with closing(sqlite3.connect(path, timeout=30.0, isolation_level=None)) as file:
                yield file
        else:
            with psycopg.connect(self.url, autocommit=True) as connection:
                yield connection

    def reset(self) -> None:
        """Reset the counters."""
        shutil.rmtree(self.folder / "ticks", ignore_errors=True)

    def wait_for_start(self, jobs: int) -> tuple[int, float, float]:
        """Wait until so many jobs have started. Return the counters."""
        deadline = time.monotonic() + LONGEST
        while (counted := self.counted())[0] < jobs:
            self._in_time(deadline)
            time.sleep(0.002)
        return counted

    def wait_for(self, jobs: int) -> tuple[float, float]:
        """Return when the first of so many jobs started, and when all were finished."""
        self.wait_for_start(jobs)
        deadline = time.monotonic() + LONGEST
        with self.asking() as connection:
            while connection.execute(self.peer.unfinished).fetchone()[0]:
                self._in_time(deadline)
                time.sleep(0.005)
        return self.counted()[1], time.monotonic()

    def _in_time(self, deadline: float) -> None:
        ended = any(process.poll() is not None for process in self.processes)
        if ended or time.monotonic() > deadline:
            logs = "".join(path.read_text()[-2000:] for path in self.folder.glob("*.log"))
            how = "it ended by itself" if ended else f"not done within {LONGEST:.0f} s"
            raise SystemExit(f"{self.peer.name}: {self.counted()[0]} jobs, {how}\n{logs}")


@contextmanager
def fresh(peer: Peer, server_url: str, jobs: int = 0, *, name: str = "") -> Iterator[Site]:
    """Create an empty database with the peer's tables and so many jobs."""
    name = "bench_" + (name or peer.name).replace(" ", "_").replace("-", "_")
    folder = Path(tempfile.mkdtemp(prefix="rowmill-bench-"))
    try:
        with psycopg.connect(server_url, autocommit=True) as admin:
            admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            admin.execute(f"CREATE DATABASE {name}")
            site = Site(peer, server_url.rsplit("/", 1)[0] + f"/{name}", folder)
            site.call("setup")
            if jobs:
                site.call("load", jobs)
            with site.asking() as connection:
                connection.execute("VACUUM ANALYZE" if jobs else "ANALYZE")
            admin.execute("CHECKPOINT")
            yield site
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def fresh_file(peer: Peer, jobs: int) -> Iterator[Site]:
    """The same in a SQLite file."""
    folder = Path(tempfile.mkdtemp(prefix="rowmill-bench-"))
    try:
        site = Site(peer, f"sqlite:///{folder}/bench.db", folder)
        site.call("setup")
        site.call("load", jobs)
        yield site
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def drained(site: Site, jobs: int, processes: int = 1) -> float:
    """Return jobs per second, from the first start until all were finished."""
    with site.running("work", processes=processes):
        first, end = site.wait_for(jobs)
    return jobs / (end - first)
