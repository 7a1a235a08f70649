"""The processes of a run: start workers and a feeder, harm them, replace them, stop them."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from faults.worker import URL_VARIABLE
from faults.world import GROUPS

ROOT = Path(__file__).parents[1]
UP_SECONDS = 60.0
LEAVE_SECONDS = 20.0


class FleetBroke(RuntimeError):
    """A process ended by itself, and no injected fault explains it."""


@dataclass(eq=False)
class Member:
    process: "subprocess.Popen[bytes]"
    log: Path
    ledger: Path
    frozen: bool = False

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def is_up(self) -> bool:
        """Whether the process has reported that it is up."""
        return b"up" in self.log.read_bytes().splitlines()

    def wait_until_up(self) -> None:
        deadline = time.monotonic() + UP_SECONDS
        while not self.is_up:
            if time.monotonic() > deadline or not self.alive:
                raise FleetBroke(f"a process does not come up:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.01)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)
        self.frozen = True

    def wake(self) -> None:
        if self.alive:
            os.kill(self.process.pid, signal.SIGCONT)
        self.frozen = False


@dataclass
class Fleet:
    url: str
    folder: Path
    """Holds ledgers and logs."""
    seed: int
    workers: int = 3
    rate: float = 400.0
    first: int = 1
    """The first key that the feeder uses."""
    groups: int = GROUPS
    environment: Callable[[int], Mapping[str, str]] = lambda worker: {}
    """Returns the environment of the nth worker, from 1."""

    def __post_init__(self) -> None:
        self.chance = random.Random(f"{self.seed}:fleet")
        self.members: list[Member] = []
        self.feeder: Member | None = None
        self._leaving: list[Member] = []
        self.others: list[Member] = []
        """Processes besides the workers that a scenario started."""
        self._started = 0

    def __enter__(self) -> Self:
        for _ in range(self.workers):
            self.start()
        options = {"--rate": self.rate, "--first": self.first, "--groups": self.groups}
        self.feeder = self._launch(
            "faults.feeder", "feeder", *(str(part) for option in options.items() for part in option)
        )
        return self

    def start(self) -> Member:
        """Start one more worker, without waiting until it is up."""
        self._started += 1
        name, environment = f"worker-{self._started}", self.environment(self._started)
        member = self._launch("faults.worker", name, environment=environment)
        self.members.append(member)
        return member

    def start_other(self, module: str) -> Member:
        """Start a process besides the workers. It runs until it is stopped or killed."""
        self._started += 1
        member = self._launch(module, f"{module.rpartition('.')[2]}-{self._started}")
        self.others.append(member)
        return member

    def _launch(self, module: str, name: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Member:
        command = [sys.executable, "-m", module, "--seed", str(self.seed)]
        ledger = self.folder / f"{name}.ledger"
        command += ["--ledger", str(ledger), *arguments]
        known = {**os.environ, "PYTHONPATH": str(ROOT), URL_VARIABLE: self.url, **(environment or {})}
        path = self.folder / f"{name}.log"
        with path.open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=known, cwd=ROOT)
        return Member(process, path, ledger)

    def is_up(self) -> bool:
        """Whether every worker has reported that it is up."""
        return all(member.is_up for member in self.members)

    def wait_until_up(self, while_finishing: Callable[[], None] | None = None) -> None:
        deadline = time.monotonic() + UP_SECONDS
        while not self.is_up():
            (while_finishing or self.look)()
            if time.monotonic() > deadline:
                raise FleetBroke("a worker does not come up")
            time.sleep(0.01)

    def pick(self) -> Member | None:
        """Return one of the running workers."""
        able = [member for member in self.members if member.alive and not member.frozen]
        return self.chance.choice(able) if able else None

    def replace(self, member: Member) -> None:
        """Start another worker in place of one that was killed."""
        self.members.remove(member)
        self.start()

    def stop_and_replace(self, member: Member) -> None:
        """Stop a worker, frozen or not, and start another one in its place."""
        member.process.terminate()
        member.wake()
        self._leaving.append(member)
        self.replace(member)

    def look(self) -> None:
        """Raise FleetBroke if a process ended by itself."""
        for member in [*self.members, *self.others, *([self.feeder] if self.feeder else [])]:
            if not member.alive:
                raise FleetBroke(last_lines(member))

    def stop_feeding(self) -> None:
        if self.feeder is not None:
            self.feeder.kill()
            self.feeder = None

    def stop(self) -> None:
        """Stop all processes with SIGTERM."""
        self.stop_feeding()
        for member in self.members:
            if member.alive:
                member.wake()
                member.process.terminate()
        deadline = time.monotonic() + LEAVE_SECONDS
        for member in [*self.members, *self._leaving]:
            try:
                member.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.kill()
                raise FleetBroke(f"a worker did not leave:\n{member.log.read_text()[-3000:]}") from None
            if member.process.returncode not in (0, -signal.SIGTERM):  # which it gets if it is just coming up
                raise FleetBroke(last_lines(member))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in [*self.members, *self._leaving, *self.others, *([self.feeder] if self.feeder else [])]:
            member.kill()


def last_lines(member: Member) -> str:
    return f"a process ended with {member.process.returncode}:\n{member.log.read_text()[-3000:]}"
