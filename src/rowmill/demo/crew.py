"""The worker processes of the demo: start, watch, restart, stop."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from rowmill.demo.fate import Fates
from rowmill.demo.ledger import LedgerReader
from rowmill.demo.worker import URL_VARIABLE
from rowmill.model.errors import RowmillError

PATIENCE = 15.0
"""Seconds that workers have to stop by themselves at the end."""


class Condition(StrEnum):
    STARTING = "starting"
    WORKING = "working"
    FROZEN = "frozen"
    DEAD = "dead"


class WorkerBroke(RowmillError):
    """A worker failed with an error of its own: a bug, not a part of the demo."""


@dataclass
class Member:
    """A worker process. When it dies, another one takes its number."""

    place: int
    process: "subprocess.Popen[bytes]"
    ledger: LedgerReader
    log: Path
    frozen: bool = False

    @property
    def condition(self) -> Condition:
        if self.process.returncode is not None:
            return Condition.DEAD
        if self.frozen:
            return Condition.FROZEN
        return Condition.WORKING if self.ledger.worker else Condition.STARTING

    @property
    def pid(self) -> int:
        return self.process.pid

    def halt(self) -> bool:
        """Stop the process with SIGSTOP, and read its ledger to the end. Return False if it was dead already."""
        if self.process.poll() is not None:
            return False
        os.kill(self.pid, signal.SIGSTOP)
        # The signal is only sent by now. When this returns, no thread of it runs any more.
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self.frozen = True
        self.ledger.read()
        return self.process.poll() is None

    def go_on(self) -> None:
        self.frozen = False
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class Crew:
    """Keeps `workers` processes running, and remembers all that ever ran."""

    url: str
    fates: Fates
    folder: Path
    workers: int
    say: Callable[[str], None]
    ever: list[Member] = field(default_factory=list)
    places: list[Member] = field(default_factory=list)
    crashes: int = 0
    """Processes that a poison row killed."""
    _rescued: tuple[int, int] = (0, 0)

    def start(self) -> None:
        for place in range(1, self.workers + 1):
            self.places.append(self._spawn(place))

    def _spawn(self, place: int) -> Member:
        number = len(self.ever) + 1
        ledger, log = self.folder / f"{number}.ledger", self.folder / f"{number}.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [
                    sys.executable, "-m", "rowmill.demo.worker",
                    "--rows", str(self.fates.rows), "--seed", str(self.fates.seed), "--ledger", str(ledger),
                ],
                stdin=subprocess.PIPE,  # its end tells the worker that we are gone
                stdout=errors,
                stderr=errors,
                env=os.environ | {URL_VARIABLE: self.url},
                process_group=0,  # Ctrl-C is for the demo, which then ends its workers
            )  # fmt: skip
        member = Member(place, process, LedgerReader(ledger), log)
        self.ever.append(member)
        return member

    def look(self) -> None:
        """Read the ledgers, and replace each process that died."""
        for index, member in enumerate(self.places):
            code = member.process.poll()
            if member.condition is not Condition.FROZEN:
                member.ledger.read()
            if code is None:
                continue
            if code != -signal.SIGKILL:
                raise WorkerBroke(f"worker {member.place} ended with code {code}: {last_words(member.log)}")
            poison = sorted(self.fates.poison & member.ledger.inside.keys())
            if poison:
                self.crashes += 1
                attempt = member.ledger.inside[poison[0]]
                self.say(f"worker {member.place} died of company {poison[0]}, attempt {attempt}: a new one starts")
            self._leave(member)
            self.places[index] = self._spawn(member.place)
        self._tell_rescued()

    def _tell_rescued(self) -> None:
        before, self._rescued = (
            self._rescued,
            (
                sum(member.ledger.rescued for member in self.ever),
                sum(member.ledger.buried for member in self.ever),
            ),
        )
        returned, buried = (now - then for now, then in zip(self._rescued, before, strict=True))
        if returned:
            self.say(f"rows rescued from workers that are gone: {returned}")
        if buried:
            self.say(f"rows buried, because their last attempt ended with its worker: {buried}")

    def working(self) -> list[Member]:
        return [member for member in self.places if member.condition is Condition.WORKING]

    def stop(self) -> None:
        """Send SIGTERM to all, wait for them, and read their ledgers to the end."""
        for member in self.places:
            if member.process.poll() is None:
                member.process.terminate()
        deadline = time.monotonic() + PATIENCE
        for member in self.places:
            try:
                member.process.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                self.say(f"worker {member.place} did not leave within {PATIENCE:.0f} s")
                member.kill()
            if member.process.returncode != 0:
                self.say(f"worker {member.place} left with code {member.process.returncode}: {last_words(member.log)}")
            self._leave(member)

    def end(self) -> None:
        """Kill all processes, frozen ones too. Idempotent."""
        for member in self.ever:
            if member.process.poll() is None:
                member.kill()
            self._leave(member)

    @staticmethod
    def _leave(member: Member) -> None:
        member.frozen = False
        member.ledger.read()
        if member.process.stdin is not None:
            member.process.stdin.close()


def last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
