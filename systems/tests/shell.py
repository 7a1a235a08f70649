"""The commands of a system, as a person calls them: in a folder, on a database."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support.postgres import REPOSITORY
from tests.support.python import PIPE, Python, run_python

SECONDS = 100


class Shell:
    def __init__(self, system: str, folder: Path, given: Mapping[str, str]) -> None:
        self.system, self.folder = system, folder
        self.given = {**os.environ, **given, "PYTHONPATH": str(REPOSITORY)}
        self.started: list[Python] = []

    def command(self, *words: str) -> list[str]:
        return ["-m", "rowmill", "systems", self.system, *words]

    def call(self, *words: str, given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        return run_python(*self.command(*words), env=self.given, cwd=self.folder, given=given, timeout=SECONDS)

    def run(self, *words: str, code: int = 0) -> str:
        """What it prints; what it says on stderr, if it can't."""
        done = self.call(*words)
        assert done.returncode == code, (done.stdout + done.stderr).decode()
        return (done.stdout if code in (0, 5) else done.stderr).decode()

    def start(self, *words: str, stdout: int | None = None) -> Python:
        process = Python(*self.command(*words), env=self.given, cwd=self.folder, stdout=stdout, stderr=PIPE)
        self.started.append(process)
        return process

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def address(server: Python) -> str:
    assert server.stderr is not None
    for line in server.stderr:
        if line.startswith(b"serving on "):
            return line.split()[-1].decode()
    raise AssertionError("it did not say where it serves")
