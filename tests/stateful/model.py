"""What the rows of a queue must look like: the lifecycle once more, in plain Python, written by hand.

Nothing of it is taken from the engine's own table of moves, so that a wrong entry there is noticed here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

FINAL = ("done", "dead", "cancelled")
ATTEMPTS = 2


@dataclass(frozen=True)
class Words:
    """The words of one stage."""

    ready: str
    running: str
    waiting: str


@dataclass
class Row:
    key: int
    per: str | None
    priority: int | None
    word: str
    due: bool
    attempts: int = 0
    token: int | None = None
    expired: int | None = None
    """When the lease ran out, as a place in the order of such events; None while it lives."""
    result: str | None = None
    failures: int = 0
    """Rows in the history."""
    failed_at: int = 0
    """The stage of the last of them."""


@dataclass
class Model:
    stages: Sequence[Words]
    in_order: bool = False
    dead_blocks: bool = False
    counts_failures: bool = False
    rows: dict[int, Row] = field(default_factory=dict)

    def claimable(self, stage: int) -> Iterator[Row]:
        words = (self.stages[stage].ready, self.stages[stage].waiting)
        return (row for row in self.rows.values() if row.word in words and row.due and self.is_free(row))

    def is_free(self, row: Row) -> bool:
        """No earlier row of its key is unfinished, and no other one runs, where that matters."""
        passing = ("done", "cancelled") if self.dead_blocks else FINAL
        running = [words.running for words in self.stages]
        return not self.in_order or not any(
            other.per == row.per
            and ((other.key < row.key and other.word not in passing) or (other is not row and other.word in running))
            for other in self.rows.values()
            if row.per is not None
        )

    def holds(self, token: int, key: int) -> bool:
        return key in self.rows and self.rows[key].token == token

    def claim(self, key: int, stage: int, token: int) -> int:
        row = self.rows[key]
        row.word, row.token, row.expired = self.stages[stage].running, token, None
        row.attempts += 1
        return row.attempts

    def used_up(self, key: int) -> bool:
        return self.rows[key].attempts >= ATTEMPTS

    def exhaust(self, key: int, stage: int) -> None:
        """A claim met it with its attempts used up."""
        row = self.rows[key]
        row.word = "dead"
        self._fail(row, stage)

    def settle(self, key: int, stage: int, move: str, wait: float, result: str | None) -> None:
        row = self.rows[key]
        row.token = row.expired = None
        row.due = wait <= 0
        match move:
            case "done":
                row.word = "done"
            case "advance":
                row.word, row.attempts = self.stages[stage + 1].ready, 0
            case "again":
                row.word = self.stages[stage].waiting
            case "park":
                row.word, row.attempts = self.stages[stage].waiting, row.attempts - 1
            case "dead":
                row.word = "dead"
            case "abandon":
                row.word = "cancelled"
            case "release" | "hold":
                row.word, row.attempts = self.stages[stage].ready, row.attempts - 1
            case _:
                raise AssertionError(f"no worker makes the move {move}")
        if self.counts_failures and move in ("done", "abandon"):
            row.attempts -= 1
        if move in ("again", "park", "dead", "abandon"):
            self._fail(row, stage)
        if result is not None:
            row.result = result

    def expired(self, stage: int) -> list[Row]:
        """Rows to rescue at a stage, the oldest first."""
        found = [(row.expired, row) for row in self.rows.values() if row.word == self.stages[stage].running]
        return [row for expired, row in sorted(found, key=lambda pair: pair[0] or 0) if expired is not None]

    def rescue(self, row: Row, stage: int) -> str:
        """A crash is an attempt: the claim counted it, and it stays counted."""
        row.token = row.expired = None
        self._fail(row, stage)
        row.due = True
        row.word = "dead" if row.attempts >= ATTEMPTS else self.stages[stage].ready
        return row.word

    def _fail(self, row: Row, stage: int) -> None:
        row.failures += 1
        row.failed_at = stage

    def cancel(self, row: Row) -> bool:
        """What nobody has taken yet can be cancelled."""
        if not any(row.word in (words.ready, words.waiting) for words in self.stages):
            return False
        row.word = "cancelled"
        return True

    def requeue(self, row: Row) -> bool:
        """A dead row begins again where it failed, others at the first stage; at its own a row that waits, or is ready
        with no attempts left."""
        stage = row.failed_at if row.word == "dead" else 0
        if row.word not in FINAL:
            here = [n for n, words in enumerate(self.stages) if row.word in (words.ready, words.waiting)]
            if not here:
                return False
            [stage] = here
            words = self.stages[stage]
            waits = row.word == words.waiting and (words.waiting != words.ready or not row.due)
            if not waits and row.attempts < ATTEMPTS:
                return False
        row.word, row.attempts, row.due = self.stages[stage].ready, 0, True
        return True
