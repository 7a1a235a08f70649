"""A log of what a worker process did, in a file that outlives it.

Each fact is one line, appended with a single `write` before the next step. So a killed process has logged everything up
to that moment, and the ledger of a frozen one can be read.
"""

import os
from pathlib import Path

from rowmill.model.lifecycle import RELEASE


class LedgerWriter:
    """Writes the ledger, in the worker."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def up(self, worker: int) -> None:
        self._say(f"up {worker}")

    def start(self, key: int, attempt: int) -> None:
        self._say(f"start {key} {attempt}")

    def end(self, key: int, attempt: int) -> None:
        self._say(f"end {key} {attempt}")

    def lost(self, key: str, move: str) -> None:
        """Log that the lease was lost: a result was refused, or a row was dropped before there was one (`release`)."""
        self._say(f"lost {key} {move}")

    def rescued(self, rows: int, buried: int) -> None:
        self._say(f"rescued {rows} {buried}")

    def _say(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())


class LedgerReader:
    """Reads the ledger, in the demo: each call returns what was added since the last one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place = 0
        self._rest = b""
        self.worker = 0
        self.starts: list[tuple[int, int]] = []
        """(company, attempt) of every handler that started."""
        self.inside: dict[int, int] = {}
        """Attempt by company, for handlers that started and have not ended."""
        self.refused: list[int] = []
        """The company of every result whose settle was refused."""
        self.rescued = 0
        """Rows of dead workers that this one returned to the queue."""
        self.buried = 0
        """Rows of dead workers that this one buried, because no attempt was left."""

    def read(self) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self._place)
                found = file.read()
        except FileNotFoundError:
            return
        self._place += len(found)
        *lines, self._rest = (self._rest + found).split(b"\n")
        for line in lines:
            self._take(line.decode())

    def _take(self, line: str) -> None:
        what, _, rest = line.partition(" ")
        first, _, second = rest.partition(" ")
        match what:
            case "up":
                self.worker = int(first)
            case "start":
                self.starts.append((int(first), int(second)))
                self.inside[int(first)] = int(second)
            case "end":
                self.inside.pop(int(first), None)
            case "lost":
                if second != RELEASE.name:
                    self.refused.append(int(first))
            case "rescued":
                self.rescued += int(first)
                self.buried += int(second)
