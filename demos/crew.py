"""A server and workers of a system, started like an operator would. They end with the block."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

START_SECONDS = 60.0


class Crew:
    def __init__(self, system: str, folder: Path, environment: Mapping[str, str]) -> None:
        self._system, self._folder = system, folder
        self._environment = {**os.environ, "ROWMILL_LOG": "warning", **environment}
        self._log: IO[str] = (folder / "log.txt").open("w")
        self._all: list[subprocess.Popen[str]] = []
        self.workers: list[subprocess.Popen[str]] = []

    def migrate(self) -> None:
        self.run("migrate")

    def run(self, *words: str, accept: tuple[int, ...] = (0,), given: str = "") -> None:
        """Run a command to its end, with this on its standard input. Raises if its exit code is not accepted."""
        command = self._command(*words)
        code = subprocess.run(
            command, env=self._environment, stdout=self._log, stderr=self._log, input=given, text=True, check=False
        ).returncode
        if code not in accept:
            raise subprocess.CalledProcessError(code, command)

    def serve(self) -> str:
        """Start the server. Return its address."""
        server = self._start("serve", "--port", "0", stderr=subprocess.PIPE)
        alarm = threading.Timer(START_SECONDS, server.kill)
        alarm.start()
        assert server.stderr is not None
        try:
            for line in server.stderr:
                self._log.write(line)
                if line.startswith("serving on "):
                    threading.Thread(target=lambda: list(server.stderr or ()), daemon=True).start()
                    return line.split()[-1]
        finally:
            alarm.cancel()
        raise RuntimeError(f"the server did not start: see {self._log.name}")

    def work(self) -> None:
        self.workers.append(self._start("work", stderr=self._log))

    def kill_a_worker(self) -> int:
        """Kill the oldest worker with SIGKILL, and start another. Return its pid."""
        worker = self.workers.pop(0)
        worker.kill()
        worker.wait()
        self.work()
        return worker.pid

    def stop_a_worker(self) -> int:
        """Stop the oldest worker with SIGTERM, and start another. Return its exit code."""
        worker = self.workers.pop(0)
        worker.terminate()
        code = worker.wait(60)
        self.work()
        return code

    def _start(self, *words: str, stderr: "int | IO[str]") -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            self._command(*words), env=self._environment, cwd=self._folder, stdout=self._log, stderr=stderr, text=True
        )
        self._all.append(process)
        return process

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "rowmill", "systems", self._system, *words]

    def end(self) -> None:
        for process in self._all:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._all:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()


@contextmanager
def crew_in(system: str, folder: Path, environment: Mapping[str, str]) -> Iterator[Crew]:
    crew = Crew(system, folder, environment)
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that nobody is left behind
    try:
        yield crew
    finally:
        crew.end()
        signal.signal(signal.SIGTERM, before)
