"""What operators did, out of their ledgers."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from faults.history import Change
from faults.ledger import Entry, What

SLACK = 0.05
"""Seconds by which clocks, and what is noted before and after an action, may be apart."""
UNANSWERED = 10.0
"""Seconds for which an action whose operator was killed may still take effect."""


class Verb(StrEnum):
    REQUEUE = "requeue"
    CANCEL = "cancel"
    PRUNE = "prune"
    RESCUE = "rescue"
    PAUSE = "pause"
    RESUME = "resume"
    MIGRATE = "migrate"
    PLAN = "plan"
    """To look at what a table lacks to be a queue."""
    ADOPT = "adopt"
    """To give it that."""
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Operation:
    """One action of an operator, from before it was asked for until it was answered."""

    verb: Verb
    queue: str
    since: float
    until: float
    rows: int | None
    """How many rows it says that it changed; None: its operator was killed before it was told."""
    keys: frozenset[int] = frozenset()
    """The rows that it was asked to change; none: rows of its own choice."""

    def covers(self, change: Change) -> bool:
        """May it have made this change?"""
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
