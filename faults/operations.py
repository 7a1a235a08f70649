"""Read the operators' actions from their ledgers."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from faults.history import Change
from faults.ledger import Entry, What

SLACK = 0.05
"""Seconds by which clocks, and log entries before and after an action, may differ."""
UNANSWERED = 10.0
"""Seconds for which an action may still take effect after its operator was killed."""


class Verb(StrEnum):
    REQUEUE = "requeue"
    CANCEL = "cancel"
    PRUNE = "prune"
    RESCUE = "rescue"
    PAUSE = "pause"
    RESUME = "resume"
    MIGRATE = "migrate"
    PLAN = "plan"
    """List what a table lacks to be a queue."""
    ADOPT = "adopt"
    """Migrate the table."""
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Operation:
    """One action of an operator, from before its request until its reply."""

    verb: Verb
    queue: str
    since: float
    until: float
    rows: int | None
    """The number of changed rows that it reported; None if its operator was killed before."""
    keys: frozenset[int] = frozenset()
    """The rows that it was asked to change; empty if it chose the rows itself."""

    def covers(self, change: Change) -> bool:
        """Return whether it may have made this change."""
        in_time = self.since - SLACK <= change.at <= self.until + SLACK
        return in_time and (not self.keys or change.key in self.keys)


def operations(entries: Iterable[Entry]) -> list[Operation]:
    asked: dict[tuple[int, int], list[Entry]] = {}
    answered: dict[tuple[int, int], Entry] = {}
    for entry in entries:
        if entry.what is What.OPERATE:
            asked.setdefault((entry.process, entry.token), []).append(entry)
        elif entry.what is What.OPERATED:
            answered[entry.process, entry.token] = entry
    return [_operation(about, answered.get(which)) for which, about in asked.items()]


def _operation(about: list[Entry], answer: Entry | None) -> Operation:
    first = about[0]
    return Operation(
        Verb(first.move),
        first.queue,
        first.at,
        first.at + UNANSWERED if answer is None else answer.at,
        None if answer is None else answer.rows,
        frozenset(entry.key for entry in about if entry.key),
    )
