"""What a process did, in a file of its own that outlives it and the database.

One line per fact, appended with one `write`: what a killed process did up to that moment has been said, and a line that
was cut off is left out. Times are of the machine's own clock, which no scenario changes.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from time import time


class What(StrEnum):
    INSERT = "insert"
    """A row is about to be committed."""
    INSERTED = "inserted"
    """Its commit was confirmed."""
    UNDONE = "undone"
    """Its transaction was rolled back on purpose."""
    CLAIMED = "claimed"
    UNANSWERED = "unanswered"
    """The reply to a claim with this token was lost. Its rows may be released. Belongs to no single row."""
    BEGIN = "begin"
    """A handler starts."""
    END = "end"
    """A handler ends, and is about to return this move."""
    ASK = "ask"
    """A settle is about to be sent."""
    KEPT = "kept"
    """The settle was confirmed."""
    REFUSED = "refused"
    """The settle was refused: the lease is gone."""
    RENEWED = "renewed"
    """A renewal that was sent at this time was confirmed."""
    OPERATE = "operate"
    """An operator is about to make this move on this row, or, with key 0, on rows of its choice. `token` numbers the
    actions of an operator."""
    OPERATED = "operated"
    """The action was completed, and changed so many rows."""


@dataclass(frozen=True, slots=True)
class Entry:
    what: What
    queue: str
    key: int
    at: float = 0.0
    token: int = 0
    stage: str = ""
    move: str = ""
    process: int = 0
    rows: int = 0
    """Rows that an operator changed."""


class Ledger:
    """Writes a ledger."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._process = os.getpid()

    def say(
        self,
        what: What,
        queue: str,
        key: int,
        *,
        token: int = 0,
        stage: str = "",
        move: str = "",
        at: float | None = None,
    ) -> None:
        self.say_all([Entry(what, queue, key, time() if at is None else at, token, stage, move, self._process)])

    def say_all(self, entries: Iterable[Entry]) -> None:
        lines = "".join(json.dumps(asdict(entry)) + "\n" for entry in entries)
        if lines:
            os.write(self._file, lines.encode())

    def entry(
        self, what: What, queue: str, key: int, at: float, token: int, stage: str, move: str = "", rows: int = 0
    ) -> Entry:
        return Entry(what, queue, key, at, token, stage, move, self._process, rows)


def read(folder: Path) -> list[Entry]:
    """Read the entries of all processes, in the order of time."""
    lines = (line for path in folder.glob("*.ledger") for line in path.read_text().splitlines(keepends=True))
    facts = (json.loads(line) for line in lines if line.endswith("\n"))
    return sorted((Entry(**{**fact, "what": What(fact["what"])}) for fact in facts), key=lambda entry: entry.at)
