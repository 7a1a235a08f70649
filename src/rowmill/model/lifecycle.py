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


class StateKind(StrEnum):
    """What a word on a row means."""

    READY = "ready"
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"


CLAIMABLE = frozenset({StateKind.READY, StateKind.WAITING})
UNFINISHED = frozenset({StateKind.READY, StateKind.WAITING, StateKind.RUNNING})
FINAL = frozenset({StateKind.DONE, StateKind.DEAD, StateKind.CANCELLED})


class AttemptsChange(StrEnum):
    """What a move does to the attempts column."""

    KEEP = "keep"
    COUNT = "count"
    GIVE_BACK = "give back"
    RESET = "reset"


class ErrorChange(StrEnum):
    """What a move does to the error on the row."""

    KEEP = "keep"
    CLEAR = "clear"
    SET = "set"


@dataclass(frozen=True, slots=True)
class Move:
    """One change of state: from where, to where, and what it does to the other columns."""

    name: str
    source: frozenset[StateKind]
    target: StateKind
    attempts: AttemptsChange = AttemptsChange.KEEP
    error: ErrorChange = ErrorChange.KEEP
    failures: AttemptsChange | None = None
    """The change to the attempts column of a queue that counts failures, where it differs."""
    delayed: bool = False
    """Whether `available_at` is set to now plus a wait. Otherwise it is set to now, if the target can be claimed."""
    recorded: bool = True
    """Whether an error that it sets goes into the history, too. Not for a row that only waits and did not fail."""

    @property
    def takes_lease(self) -> bool:
        return self.target is StateKind.RUNNING

    @property
    def finishes(self) -> bool:
        return self.target in FINAL

    @property
    def failed(self) -> bool:
        """Whether an attempt that ends with this move is kept in the history of failures."""
        return self.error is ErrorChange.SET and self.recorded


_RUNNING = frozenset({StateKind.RUNNING})

CLAIM = Move("claim", CLAIMABLE, StateKind.RUNNING, AttemptsChange.COUNT, ErrorChange.CLEAR)
DONE = Move("done", _RUNNING, StateKind.DONE, error=ErrorChange.CLEAR, failures=AttemptsChange.GIVE_BACK)
ADVANCE = Move("advance", _RUNNING, StateKind.READY, AttemptsChange.RESET, ErrorChange.CLEAR)
AGAIN = Move("again", _RUNNING, StateKind.WAITING, error=ErrorChange.SET, delayed=True)
PARK = Move("park", _RUNNING, StateKind.WAITING, AttemptsChange.GIVE_BACK, ErrorChange.SET, delayed=True)
DIE = Move("dead", _RUNNING, StateKind.DEAD, error=ErrorChange.SET)
ABANDON = Move("abandon", _RUNNING, StateKind.CANCELLED, error=ErrorChange.SET, failures=AttemptsChange.GIVE_BACK)
RELEASE = Move("release", _RUNNING, StateKind.READY, AttemptsChange.GIVE_BACK, delayed=True)
HOLD = Move("hold", _RUNNING, StateKind.READY, AttemptsChange.GIVE_BACK, ErrorChange.SET, delayed=True, recorded=False)
RESCUE = Move("rescue", _RUNNING, StateKind.READY, error=ErrorChange.SET)
BURY = Move("bury", _RUNNING, StateKind.DEAD, error=ErrorChange.SET)
EXHAUST = Move("exhaust", CLAIMABLE, StateKind.DEAD, error=ErrorChange.SET)
CANCEL = Move("cancel", CLAIMABLE, StateKind.CANCELLED)
REQUEUE = Move("requeue", FINAL | {StateKind.WAITING}, StateKind.READY, AttemptsChange.RESET, ErrorChange.CLEAR)

MOVES = {
    move.name: move
    for move in (
        CLAIM, DONE, ADVANCE, AGAIN, PARK, DIE, ABANDON, RELEASE, HOLD, RESCUE, BURY, EXHAUST, CANCEL, REQUEUE,
    )
}  # fmt: skip
SETTLING = frozenset({DONE, ADVANCE, AGAIN, PARK, DIE, ABANDON, RELEASE, HOLD})
"""The moves that a worker makes at the end of an attempt, each only where its lease still holds."""
GIVEN_BACK = frozenset({RELEASE.name, HOLD.name})
"""The names of the moves after which a row is as if it had not been claimed."""
