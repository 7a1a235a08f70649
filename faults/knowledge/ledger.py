"""What a process did, in a file of its own that outlives it: a line for each fact, appended with one `write`.

What a killed process did up to that moment has been said; a line that was cut off is left out.
"""

import json
import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from time import time


class Deed(StrEnum):
    CREATE_KB = "create_kb"
    UPLOAD = "upload"
    DELETE = "delete"
    REPROCESS = "reprocess"
    DELETE_KB = "delete_kb"
    HANDLE = "handle"
    """A worker handles an event."""
    PUT = "put"
    """Points of a document reach the vector store, or are lost on the way."""
    MAKE_COLLECTION = "make_collection"
    COMPARE = "compare"
    """The stores are compared, with corrections."""
    FOUND = "found"
    """The auditor saw something that must never be, also while faults go on."""


REQUESTS = (Deed.CREATE_KB, Deed.UPLOAD, Deed.DELETE, Deed.REPROCESS, Deed.DELETE_KB)


WRITTEN = "written"
"""What is said of points that the store has confirmed."""


@dataclass(frozen=True, slots=True)
class Said:
    """A deed began, or ended."""

    deed: Deed
    ended: bool
    """Whether it ended well: then a request is acknowledged."""
    number: str
    """The same at the beginning and at the end."""
    at: float = 0.0
    kb: str = ""
    document: str = ""
    word: str = ""
    """That of an upload: its text has it, and few others do."""
    event: int = 0
    findings: int = 0
    what: str = ""
    """What was found, or became of it."""
    may_be_late: bool = False
    """Whether a write that a worker had begun before may explain it."""


class DeedLedger:
    """Writes a ledger."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._numbers = 0

    def number(self) -> str:
        self._numbers += 1
        return f"{os.getpid()}-{self._numbers}"

    def say(
        self, deed: Deed, number: str, *, ended: bool = False, kb: object = "", document: object = "", word: str = "",
        event: int = 0, findings: int = 0, what: str = "", may_be_late: bool = False,
    ) -> None:  # fmt: skip
        said = Said(deed, ended, number, time(), str(kb), str(document), word, event, findings, what, may_be_late)
        os.write(self._file, (json.dumps({k: v for k, v in asdict(said).items() if v}) + "\n").encode())


def read(folder: Path) -> list[Said]:
    """Read what all processes said, in the order of time."""
    lines = (line for path in folder.glob("*.ledger") for line in path.read_text().splitlines(keepends=True))
    facts = (json.loads(line) for line in lines if line.endswith("\n"))
    said = (Said(**{"ended": False, **fact, "deed": Deed(fact["deed"])}) for fact in facts)
    return sorted(said, key=lambda each: each.at)
