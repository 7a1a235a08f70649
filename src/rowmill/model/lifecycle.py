"""The state machine, as data. Every statement that changes a row is built from `MOVES`.

ready ──claim──▶ running ──done──▶ done (or the next stage's ready)
  │     └─exhaust─▶ dead (the row was put back although its attempts are used up)
  ▲                 │ ├─again──▶ waiting ──claim──▶ running
  │                 │ ├─dead───▶ dead
  │                 │ └─cancel─▶ cancelled
  ├──release, hold──┤
  ├──rescue─────────┘   (bury: dead, when no attempts are left)
  └──requeue── dead, done, cancelled
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a word on a row means."""

    READY = "ready"
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"


CLAIMABLE = frozenset({Kind.READY, Kind.WAITING})
UNFINISHED = frozenset({Kind.READY, Kind.WAITING, Kind.RUNNING})
FINAL = frozenset({Kind.DONE, Kind.DEAD, Kind.CANCELLED})


class Attempts(StrEnum):
    """What a move does to the attempts column."""

    KEEP = "keep"
    COUNT = "count"
    GIVE_BACK = "give back"
    RESET = "reset"


class Error(StrEnum):
    """What a move does to the error on the row."""

    KEEP = "keep"
    CLEAR = "clear"
    SET = "set"


@dataclass(frozen=True, slots=True)
class Move:
    """One change of state: from where, to where, and what it does to the other columns."""

    name: str
    source: frozenset[Kind]
    target: Kind
    attempts: Attempts = Attempts.KEEP
    error: Error = Error.KEEP
    failures: Attempts | None = None
    """What it does to the attempts column of a queue that counts failures, where that differs."""
    delayed: bool = False
    """`available_at` is set to now plus a given wait (otherwise to now, for a target that can be claimed)."""
    recorded: bool = True
    """An error that it sets goes into the history too. Not for a row that only waits, and did not fail."""

    @property
    def takes_lease(self) -> bool:
        return self.target is Kind.RUNNING

    @property
    def finishes(self) -> bool:
        return self.target in FINAL

    @property
    def failed(self) -> bool:
        """Does an attempt that ends so belong in the history of failures?"""
        return self.error is Error.SET and self.recorded


_RUNNING = frozenset({Kind.RUNNING})

CLAIM = Move("claim", CLAIMABLE, Kind.RUNNING, Attempts.COUNT, Error.CLEAR)
DONE = Move("done", _RUNNING, Kind.DONE, error=Error.CLEAR, failures=Attempts.GIVE_BACK)
ADVANCE = Move("advance", _RUNNING, Kind.READY, Attempts.RESET, Error.CLEAR)
AGAIN = Move("again", _RUNNING, Kind.WAITING, error=Error.SET, delayed=True)
PARK = Move("park", _RUNNING, Kind.WAITING, Attempts.GIVE_BACK, Error.SET, delayed=True)
DIE = Move("dead", _RUNNING, Kind.DEAD, error=Error.SET)
ABANDON = Move("abandon", _RUNNING, Kind.CANCELLED, error=Error.SET, failures=Attempts.GIVE_BACK)
RELEASE = Move("release", _RUNNING, Kind.READY, Attempts.GIVE_BACK, delayed=True)
HOLD = Move("hold", _RUNNING, Kind.READY, Attempts.GIVE_BACK, Error.SET, delayed=True, recorded=False)
RESCUE = Move("rescue", _RUNNING, Kind.READY, error=Error.SET)
BURY = Move("bury", _RUNNING, Kind.DEAD, error=Error.SET)
EXHAUST = Move("exhaust", CLAIMABLE, Kind.DEAD, error=Error.SET)
CANCEL = Move("cancel", CLAIMABLE, Kind.CANCELLED)
REQUEUE = Move("requeue", FINAL | {Kind.WAITING}, Kind.READY, Attempts.RESET, Error.CLEAR)

MOVES = {
    move.name: move
    for move in (
        CLAIM, DONE, ADVANCE, AGAIN, PARK, DIE, ABANDON, RELEASE, HOLD, RESCUE, BURY, EXHAUST, CANCEL, REQUEUE,
    )
}  # fmt: skip
SETTLING = frozenset({DONE, ADVANCE, AGAIN, PARK, DIE, ABANDON, RELEASE, HOLD})
"""Moves that a worker makes at the end of an attempt, each only where its lease still holds."""
