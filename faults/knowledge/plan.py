"""What the stores do wrong just now, in a file that all processes look at before each call."""

import json
import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path


class Fault(StrEnum):
    NONE = "none"
    OUTAGE = "outages"
    """Nothing is done, every call fails."""
    SLOW = "slow times"
    """Every call takes up to half a second longer."""
    LOST_ANSWERS = "times of lost answers"
    """What was asked for is done, and an error is the answer, now and then."""
    BROKEN_OFF = "times of broken listings"
    """Listings end with an error in their middle; other calls fail now and then."""
    LIES = "times of lies"
    """A write or deletion is confirmed and not done, now and then."""


@dataclass(frozen=True, slots=True)
class StorePlan:
    """What each store does wrong."""

    objects: Fault = Fault.NONE
    vectors: Fault = Fault.NONE


class PlanFile:
    """The plan, as a file that is replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._plan = StorePlan()

    def write(self, plan: StorePlan) -> None:
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(asdict(plan)))
        new.rename(self._path)

    def read(self) -> StorePlan:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return StorePlan()
        if self._seen != (found.st_mtime_ns, found.st_ino):
            facts = json.loads(self._path.read_text())
            self._plan = StorePlan(Fault(facts["objects"]), Fault(facts["vectors"]))
            self._seen = found.st_mtime_ns, found.st_ino
        return self._plan
