"""The commands of a system, as a person calls them: in a folder, on a database."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.postgres import REPOSITORY

SECONDS = 100


class Shell:
    def __init__(self, system: str, folder: Path, given: Mapping[str, str]) -> None:
        self.system, self.folder = system, folder
        self.given = {**os.environ, **given, "PYTHONPATH": str(REPOSITORY)}
        self.started: list[subprocess.Popen[str]] = []

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "rowmill", "systems", self.system, *words]

    def call(self, *words: str, given: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            self.command(*words), env=self.given, cwd=self.folder, capture_output=True, input=given, timeout=SECONDS
        )

    def run(self, *words: str, code: int = 0) -> str:
        """What it prints; what it says on stderr, if it can't."""
        done = self.call(*words)
        assert done.returncode == code, (done.stdout + done.stderr).decode()
        return (done.stdout if code in (0, 5) else done.stderr).decode()

    def start(self, *words: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            self.command(*words), env=self.given, cwd=self.folder, stderr=subprocess.PIPE, text=True
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()


def address(server: "subprocess.Popen[str]") -> str:
    assert server.stderr is not None
    for line in server.stderr:
        if line.startswith("serving on "):
            return line.split()[-1]
    raise AssertionError("it did not say where it serves")
