"""Workers and beats of Celery as processes."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.support.python import ROOT, Python

QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")
SECONDS = 60.0


class CeleryProcesses:
    """Starts `python -m celery -A APP …` in a folder. What they say is in `log` there."""

    def __init__(self, app: str, folder: Path, environment: Mapping[str, str]) -> None:
        self.log = folder / "log"
        self._app, self._folder = app, folder
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        self._started: list[Python] = []

    def start(self, *arguments: str) -> Python:
        command = ("celery", "-A", self._app, *arguments, "--loglevel", "INFO")
        with self.log.open("ab") as log:
            process = Python("-m", *command, env=self._environment, cwd=self._folder, stdout=log, stderr=log)
        self._started.append(process)
        return process

    def worker(self, pool: str, *arguments: str) -> Python:
        return self.start("worker", "--pool", pool, "--concurrency", "2", *QUIET, *arguments)

    def beat(self, schedule: str = "beat") -> Python:
        return self.start("beat", "--schedule", str(self._folder / schedule))

    def kill_all(self) -> None:
        for process in self._started:
            kill(process)


def kill(process: Python) -> None:
    """Kill a process and its children, all at once."""
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(process.pid)
        family = [parent, *parent.children(recursive=True)]
        for each in family:
            each.suspend()
        for each in family:
            each.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(SECONDS)


@contextmanager
def celery_processes(app: str, folder: Path, **environment: str) -> Iterator[CeleryProcesses]:
    """At the end, every process and its children are gone."""
    processes = CeleryProcesses(app, folder, environment)
    try:
        yield processes
    finally:
        processes.kill_all()
