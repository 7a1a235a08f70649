"""Everything that is known of a run when it is over: what the processes said, and what the database holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from faults.ledger import Entry

DELETED = ""
"""The state of a row that was deleted, as the witness notes it."""

Place = tuple[str, int]
"""A row: its queue and its key."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one row, noted by the database itself, in the order of `id` for each row."""

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
    """Until when the row waits, as this change left it."""
    committed: float | None = None
    """When others could see it, where the database tells: a large transaction takes its time."""

    @property
    def place(self) -> Place:
        return self.queue, self.key

    @property
    def deleted(self) -> bool:
        return self.new_state == DELETED

    @property
    def seen(self) -> float:
        """When others could see it, as far as the database tells."""
        return self.committed or self.at


@dataclass(frozen=True, slots=True)
class Row:
    """A row as it stands at the end."""

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
    """What a row is called when this stage is done: the next stage's word for ready, or done."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one queue."""

    steps: tuple[Step, ...]
    final: frozenset[str]
    dead: str
    attempts: int
    """The most attempts of a stage."""
    lease: float = 0.0
    """Seconds that a lease lasts, at least."""
    backoff: float = 0.0
    """Seconds that a row waits after it failed, at least."""
    keep: float = 0.0
    """Seconds that a finished row stays before an operator may prune it, at least."""
    cancelled: str = "cancelled"

    @property
    def running(self) -> Mapping[str, Step]:
        return {step.running: step for step in self.steps}

    @property
    def claimable(self) -> frozenset[str]:
        return frozenset().union(*(step.claimable for step in self.steps))


@dataclass
class History:
    """All of it."""

    words: Mapping[str, Words]
    entries: Sequence[Entry]
    changes: Sequence[Change]
    rows: Sequence[Row]
    effects: Sequence[tuple[int, int]] = ()
    """(item, token) of what handlers wrote in the transactions of their rows."""
    with_effect: frozenset[Place] = frozenset()
    """The rows whose handlers write an effect."""
    failures: Mapping[tuple[Place, str, int], int] = field(default_factory=dict)
    """Entries in Rowmill's own history of failures, by row, stage and attempt."""
    counted: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Rows by queue and move, as Rowmill's own counters have them."""
    pairs: Mapping[str, str] = field(default_factory=dict)
    """Outbox queue → the queue with whose rows, of the same key, its events are written."""
    forgotten: Sequence[tuple[float, float]] = ()
    """Times from which the database itself lost what it had confirmed, as a standby that was behind does when it takes
    over. What was confirmed before and after still binds it."""

    def rate(self, since: float, until: float) -> float:
        """Attempts a second that were settled between two times of the machine's clock."""
        settled = sum(
            since <= change.at < until and change.old_lease is not None and change.new_lease is None
            for change in self.changes
        )
        return settled / (until - since)
