"""Everything that is known about a run: what the processes logged, and what the database holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from faults.ledger import Entry

DELETED = ""
"""The state of a deleted row in the witness's log."""

Place = tuple[str, int]
"""A row: its queue and its key."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one row, logged by the database itself, in the order of `id` per row."""

    id: int
    at: float
    queue: str
    key: int
    old_state: str
    new_state: str
    old_lease: int | None = None
    new_lease: int | None = None
    old_until: float | None = None
    old_attempts: int = 0
    new_attempts: int = 0
    mark: int | None = None
    error: str | None = None
    due: float | None = None
    """Until when the row waits after this change."""
    committed: float | None = None
    """When the change became visible, if the database knows: a large transaction takes time."""

    @property
    def place(self) -> Place:
        return self.queue, self.key

    @property
    def deleted(self) -> bool:
        return self.new_state == DELETED

    @property
    def seen(self) -> float:
        """When the change became visible, as far as the database knows."""
        return self.committed or self.at


@dataclass(frozen=True, slots=True)
class Row:
    """A row at the end of the run."""

    queue: str
    key: int
    state: str
    attempts: int
    lease: int | None = None
    mark: int | None = None
    group: int | None = None

    @property
    def place(self) -> Place:
        return self.queue, self.key


@dataclass(frozen=True, slots=True)
class Step:
    """The words of one stage."""

    name: str
    claimable: frozenset[str]
    running: str
    done: str
    """The word of a row after this stage: the next stage's ready, or done."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words and policies of one queue."""

    steps: tuple[Step, ...]
    final: frozenset[str]
    dead: str
    attempts: int
    """The most attempts per stage."""
    lease: float = 0.0
    """Least seconds of a lease."""
    backoff: float = 0.0
    """Least seconds that a row waits after a failure."""
    keep: float = 0.0
    """Least seconds that a finished row stays before an operator may prune it."""
    cancelled: str = "cancelled"

    @property
    def running(self) -> Mapping[str, Step]:
        return {step.running: step for step in self.steps}

    @property
    def claimable(self) -> frozenset[str]:
        return frozenset().union(*(step.claimable for step in self.steps))


@dataclass
class History:
    """The history of a run."""

    words: Mapping[str, Words]
    entries: Sequence[Entry]
    changes: Sequence[Change]
    rows: Sequence[Row]
    effects: Sequence[tuple[int, int]] = ()
    """(item, token) of effects that handlers wrote in the transactions of their rows."""
    with_effect: frozenset[Place] = frozenset()
    """The rows whose handlers write an effect."""
    failures: Mapping[tuple[Place, str, int], int] = field(default_factory=dict)
    """Entries in Rowmill's own history of failures, by row, stage and attempt."""
    counted: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Rows by queue and move, from Rowmill's own counters."""
    pairs: Mapping[str, str] = field(default_factory=dict)
    """Outbox queue → the queue whose rows, with the same key, its events are written with."""
    forgotten: Sequence[tuple[float, float]] = ()
    """Times from which the database itself lost confirmed commits, like a standby that lagged behind and took over.
    Commits before and after still count."""

    def rate(self, since: float, until: float) -> float:
        """Return the settled attempts per second between two times of the machine's clock."""
        settled = sum(
            since <= change.at < until and change.old_lease is not None and change.new_lease is None
            for change in self.changes
        )
        return settled / (until - since)
