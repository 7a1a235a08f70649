"""Several worker processes: started fresh, watched, started again when they die, and gone when we are."""

import logging
import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FrameType

from rowmill.cli.exits import Exit

log = logging.getLogger("rowmill")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
LOOK = 0.05
"""Seconds between two looks at the processes."""
NO_USE = (Exit.USAGE, Exit.SCHEMA)
"""Ends that would only repeat themselves."""


@dataclass
class Backoff:
    """Waits before a new start: longer each time, short again after a life of some length."""

    base: float = 0.2
    cap: float = 30.0
    long_life: float = 10.0
    deaths: int = 0

    def after(self, lived: float) -> float:
        self.deaths = 1 if lived >= self.long_life else self.deaths + 1
        return min(self.base * 2.0 ** min(self.deaths - 1, 30), self.cap) * (0.75 + random.random() / 2)


@dataclass
class ProcessSlot:
    """What one process after another takes."""

    number: int
    process: "subprocess.Popen[bytes] | None" = None
    born: float = 0.0
    starts: int = 0
    start_at: float | None = 0.0
    backoff: Backoff = field(default_factory=Backoff)

    @property
    def finished(self) -> bool:
        return self.process is None and self.start_at is None


class Supervisor:
    """Runs `processes` of a command until they are told to stop. `run` answers the exit code."""

    def __init__(self, command: Sequence[str], processes: int) -> None:
        self._command = list(command)
        self._places = [ProcessSlot(number) for number in range(1, processes + 1)]
        self._told: signal.Signals | None = None
        """What the processes were told, by somebody's signal or because there is no use in them."""
        self._heard = False
        self._code = int(Exit.OK)

    def run(self) -> int:
        for number in SIGNALS:
            signal.signal(number, self._hear)
        try:
            while not all(place.finished for place in self._places):
                for place in self._places:
                    self._look(place)
                time.sleep(LOOK)
        finally:
            self._end_all()
        return self._code

    def _look(self, place: ProcessSlot) -> None:
        if place.process is not None:
            code = place.process.poll()
            if code is not None:
                self._ended(place, code)
        elif self._told is not None:
            place.start_at = None
        elif place.start_at is not None and time.monotonic() >= place.start_at:
            self._start(place)

    def _start(self, place: ProcessSlot) -> None:
        # A session of its own: Ctrl-C is for us, who then tell the processes. Standard input is their lifeline.
        try:
            place.process = subprocess.Popen(self._command, stdin=subprocess.PIPE, start_new_session=True)
        except OSError as error:  # no memory, or the program is being replaced: the others go on meanwhile
            self._again(place, 0.0, f"process {place.number} can't be started ({type(error).__name__})")
            return
        place.born, place.starts, place.start_at = time.monotonic(), place.starts + 1, None
        if self._told is not None:  # told between the look and the start
            place.process.send_signal(self._told)

    def _ended(self, place: ProcessSlot, code: int) -> None:
        assert place.process is not None
        pid, lived = place.process.pid, time.monotonic() - place.born
        if place.process.stdin is not None:
            place.process.stdin.close()
        place.process = None
        first = place.starts == 1
        if self._told is not None:
            if code in (Exit.OK, -self._told, 128 + self._told):
                return  # the latter by the signal itself: it was told before it could listen
            self._code = self._code or Exit.FAILED
            log.warning("process %d (pid %d) %s while it was stopping", place.number, pid, how(code))
        elif code in NO_USE or (code == Exit.UNREACHABLE and first):
            # An outage later on is another matter: the process that was started into it tries again.
            self._code = self._code or code
            log.error("process %d (pid %d) %s: a new one would do the same", place.number, pid, how(code))
            self._stop(signal.SIGTERM)
        else:
            self._again(place, lived, f"process {place.number} (pid {pid}) {how(code)}")

    def _again(self, place: ProcessSlot, lived: float, why: str) -> None:
        wait = place.backoff.after(lived)
        if self._told is None:
            place.start_at = time.monotonic() + wait
            log.warning("%s; a new one starts in %.1f s", why, wait)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        if self._heard:
            for place in self._places:
                if place.process is not None:
                    place.process.kill()
            os._exit(128 + number)
        self._heard = True
        self._stop(signal.Signals(number))

    def _stop(self, number: signal.Signals) -> None:
        if self._told is None:
            self._told = number
            for place in self._places:
                if place.process is not None:
                    place.process.send_signal(number)
                place.start_at = None

    def _end_all(self) -> None:
        for place in self._places:
            if place.process is not None:
                place.process.kill()
                place.process.wait()


def how(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
