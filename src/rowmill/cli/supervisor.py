"""Supervisor of several worker processes: starts them, restarts those that die, and stops them all."""

import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType

from rowmill.cli.exits import Exit

log = logging.getLogger("rowmill")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
CHECK_SECONDS = 0.05
"""Seconds between two checks of the processes."""
NO_RESTART = (Exit.USAGE, Exit.SCHEMA)
"""Exit codes after which a restart would fail the same way."""


@dataclass
class Backoff:
    """Backoff between restarts: doubles each time, and resets after a process has run for a while."""

    base: float = 0.2
    cap: float = 30.0
    long_life: float = 10.0
    deaths: int = 0

    def after(self, lived: float) -> float:
        self.deaths = 1 if lived >= self.long_life else self.deaths + 1
        return min(self.base * 2.0 ** min(self.deaths - 1, 30), self.cap) * (0.75 + random.random() / 2)


@dataclass
class ProcessSlot:
    """A slot for one process and its restarts."""

    number: int
    process: "subprocess.Popen[bytes] | None" = None
    born: float = 0.0
    starts: int = 0
    start_at: float | None = 0.0
    backoff: Backoff = field(default_factory=Backoff)

    @property
    def finished(self) -> bool:
        return self.process is None and self.start_at is None


def worker_command(command: Sequence[str], options: Mapping[str, object]) -> list[str]:
    """Return the command line of a worker process. It is a new interpreter: a fork would share the event loop, threads
    and connections. Options with None or False are left out, True makes a flag, a list repeats its option."""
    words: list[str] = []
    for option, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None and one is not False:
                words += [option] if one is True else [option, str(one)]
    return [sys.executable, "-m", "rowmill", *command, "--lifeline", *words]


class Supervisor:
    """Runs a number of processes of a command until a signal stops them. `run` returns the exit code."""

    def __init__(self, command: Sequence[str], processes: int) -> None:
        self._command = list(command)
        self._slots = [ProcessSlot(number) for number in range(1, processes + 1)]
        self._sent: signal.Signals | None = None
        """The signal that the processes were sent, from outside or because a restart is pointless."""
        self._signalled = False
        self._code = int(Exit.OK)

    def run(self) -> int:
        for number in SIGNALS:
            signal.signal(number, self._on_signal)
        try:
            while not all(slot.finished for slot in self._slots):
                for slot in self._slots:
                    self._check(slot)
                time.sleep(CHECK_SECONDS)
        finally:
            self._end_all()
        return self._code

    def _check(self, slot: ProcessSlot) -> None:
        if slot.process is not None:
            code = slot.process.poll()
            if code is not None:
                self._ended(slot, code)
        elif self._sent is not None:
            slot.start_at = None
        elif slot.start_at is not None and time.monotonic() >= slot.start_at:
            self._start(slot)

    def _start(self, slot: ProcessSlot) -> None:
        # A session of its own: Ctrl-C is for us, who then tell the processes. Standard input is their lifeline.
        try:
            slot.process = subprocess.Popen(self._command, stdin=subprocess.PIPE, start_new_session=True)
        except OSError as error:  # no memory, or the program is being replaced: the others go on meanwhile
            self._restart(slot, 0.0, f"process {slot.number} can't be started ({type(error).__name__})")
            return
        slot.born, slot.starts, slot.start_at = time.monotonic(), slot.starts + 1, None
        if self._sent is not None:  # told between the look and the start
            slot.process.send_signal(self._sent)

    def _ended(self, slot: ProcessSlot, code: int) -> None:
        assert slot.process is not None
        pid, lived = slot.process.pid, time.monotonic() - slot.born
        if slot.process.stdin is not None:
            slot.process.stdin.close()
        slot.process = None
        first = slot.starts == 1
        if self._sent is not None:
            if code in (Exit.OK, -self._sent, 128 + self._sent):
                return  # the latter by the signal itself: it was told before it could listen
            self._code = self._code or Exit.FAILED
            log.warning("process %d (pid %d) %s while it was stopping", slot.number, pid, describe_exit(code))
        elif code in NO_RESTART or (code == Exit.UNREACHABLE and first):
            # An outage later on is another matter: the process that was started into it tries again.
            self._code = self._code or code
            log.error("process %d (pid %d) %s: a new one would do the same", slot.number, pid, describe_exit(code))
            self._stop(signal.SIGTERM)
        else:
            self._restart(slot, lived, f"process {slot.number} (pid {pid}) {describe_exit(code)}")

    def _restart(self, slot: ProcessSlot, lived: float, why: str) -> None:
        wait = slot.backoff.after(lived)
        if self._sent is None:
            slot.start_at = time.monotonic() + wait
            log.warning("%s; a new one starts in %.1f s", why, wait)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._signalled:
            for slot in self._slots:
                if slot.process is not None:
                    slot.process.kill()
            os._exit(128 + number)
        self._signalled = True
        self._stop(signal.Signals(number))

    def _stop(self, number: signal.Signals) -> None:
        if self._sent is None:
            self._sent = number
            for slot in self._slots:
                if slot.process is not None:
                    slot.process.send_signal(number)
                slot.start_at = None

    def _end_all(self) -> None:
        for slot in self._slots:
            if slot.process is not None:
                slot.process.kill()
                slot.process.wait()


def describe_exit(code: int) -> str:
    """Describe how a process ended."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
