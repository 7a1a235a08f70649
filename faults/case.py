"""A history by row: who made each change, and under which lease."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from faults.history import Change, History, Place, Row, Step, Words
from faults.ledger import Entry, What
from faults.operations import Operation, Verb, operations
from rowmill import CrashCodes
from rowmill.model.lifecycle import ADVANCE, AGAIN, DIE, DONE, HOLD, MOVES, PARK, RELEASE

CRASHES = (CrashCodes().requeued, CrashCodes().buried)
"""Error codes of rows that were taken from a worker after their lease expired, or whose last attempt runs alone."""
DISCLAIM = "disclaim"
"""The release of rows from a claim whose reply was lost. It is no settle, and is not counted."""
TICK = 0.002
"""Seconds by which two clock readings on one machine may differ. SQLite's clock has milliseconds."""

LATE = 0.5
"""Seconds between the start of a statement and the logged change of a row: one statement may change a thousand rows."""

Held = tuple[Place, int | None]
"""A row, and the lease that it was under."""


@dataclass(frozen=True, slots=True)
class Violation:
    rule: int
    place: Place
    what: str

    def __str__(self) -> str:
        queue, key = self.place
        return f"rule {self.rule}, {queue} {key}: {self.what}"


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of a row's running state."""

    change: Change
    step: Step
    move: str | None
    """The move that its holder requested; None if somebody else took the row."""

    @property
    def rescued(self) -> bool:
        return self.move is None

    @property
    def finished(self) -> bool:
        """Whether the row has a result of its stage now."""
        return self.change.new_state == self.step.done

    @property
    def failed(self) -> bool:
        """Whether it belongs in the history of failures."""
        return self.rescued or (self.move in MOVES and MOVES[self.move].failed)

    @property
    def held(self) -> Held:
        return self.change.place, self.change.old_lease


class Case:
    def __init__(self, history: History) -> None:
        self.history = history
        self.rows: Mapping[Place, Row] = {row.place: row for row in history.rows}
        self.changes: defaultdict[Place, list[Change]] = defaultdict(list)
        for change in sorted(history.changes, key=lambda change: change.id):
            self.changes[change.place].append(change)
        self.asked: defaultdict[Held, list[Entry]] = defaultdict(list)
        for entry in self.said(What.ASK):
            self.asked[held(entry)].append(entry)
        self.unanswered = {(entry.queue, entry.token) for entry in self.said(What.UNANSWERED)}
        self.operations: defaultdict[tuple[str, Verb], list[Operation]] = defaultdict(list)
        for operation in operations(history.entries):
            self.operations[operation.queue, operation.verb].append(operation)

    def said(self, what: What) -> Iterator[Entry]:
        return (entry for entry in self.history.entries if entry.what is what)

    def remembered(self, what: What) -> Iterator[Entry]:
        """Yield ledger entries, except from times whose commits the database itself has lost. A settle of many rows is
        confirmed when all of them are written; the first may be long before."""
        for entry in self.said(what):
            asked = min((ask.at for ask in self.asked.get(held(entry), ())), default=entry.at)
            if not any(since <= entry.at and min(asked, entry.at) <= until for since, until in self.history.forgotten):
                yield entry

    def words(self, place: Place) -> Words:
        return self.history.words[place[0]]

    def operated(self, change: Change) -> Verb | None:
        """Return the operator's action that made this change of a free row, if one was under way that may."""
        verb = self._verb(change)
        return verb if verb is not None and self.under_way(verb, change) else None

    def under_way(self, verb: Verb, change: Change) -> bool:
        return any(operation.covers(change) for operation in self.operations[change.queue, verb])

    def _verb(self, change: Change) -> Verb | None:
        """Return the operator's command that makes such a change, if any."""
        words = self.words(change.place)
        if change.old_lease is not None or change.new_lease is not None:
            return None
        if change.deleted:
            return Verb.PRUNE if change.old_state in words.final and self._old_enough(change) else None
        if change.new_state == words.cancelled:
            return Verb.CANCEL if change.old_state in words.claimable else None
        put_back = change.old_state in words.final | words.claimable and change.new_state in words.claimable
        return Verb.REQUEUE if put_back and change.new_attempts == 0 and change.error is None else None

    def _old_enough(self, change: Change) -> bool:
        """Return whether the row had been finished for long enough to be pruned."""
        words = self.words(change.place)
        ends = [one.at for one in self.changes[change.place] if one.id < change.id and one.new_state in words.final]
        return not ends or change.at - ends[-1] >= words.keep - LATE

    def between(self, queue: str, since: float, until: float) -> list[Change]:
        """Return the changes of a queue's rows between two times."""
        changes = self._by_time[queue]
        first = bisect_left(changes, since, key=lambda change: change.at)
        return changes[first : bisect_right(changes, until, key=lambda change: change.at)]

    @cached_property
    def _by_time(self) -> Mapping[str, list[Change]]:
        found: defaultdict[str, list[Change]] = defaultdict(list)
        for change in sorted(self.history.changes, key=lambda change: change.at):
            found[change.queue].append(change)
        return found

    @cached_property
    def pruned(self) -> set[Place]:
        """Return rows that an operator deleted and was allowed to."""
        return {change.place for change in self.history.changes if self.operated(change) is Verb.PRUNE}

    def life(self, change: Change) -> int:
        """Return how often an operator had requeued the row before this change."""
        return bisect_left(self._put_back[change.place], change.id)

    @cached_property
    def _put_back(self) -> Mapping[Place, list[int]]:
        found: defaultdict[Place, list[int]] = defaultdict(list)
        for place, changes in self.changes.items():
            found[place] = [change.id for change in changes if self.operated(change) is Verb.REQUEUE]
        return found

    def lives(self, place: Place) -> int:
        """Return how many times this row went through its stages, or began to."""
        return len(self._put_back[place]) + 1 if place in self._put_back else 1

    @cached_property
    def run_ends(self) -> list[RunEnd]:
        """Return every end of a running state."""
        found = []
        for place, changes in self.changes.items():
            running = self.words(place).running
            for change in changes:
                step = running.get(change.old_state)
                if step is not None and change.new_state != change.old_state:
                    found.append(RunEnd(change, step, self._mover(change, step)))
        return found

    @cached_property
    def _leaves_of(self) -> Mapping[Place, list[RunEnd]]:
        found: defaultdict[Place, list[RunEnd]] = defaultdict(list)
        for end in self.run_ends:
            found[end.change.place].append(end)
        return found

    def run_ends_of(self, place: Place) -> list[RunEnd]:
        """Return every end of this row's running state."""
        return self._leaves_of.get(place, [])

    @cached_property
    def on_trial(self) -> set[Held]:
        """Return last attempts that were marked at their start as running alone."""
        changes = (change for change in self.history.changes if change.new_lease is not None)
        return {(change.place, change.new_lease) for change in changes if change.error in CRASHES}

    def _mover(self, change: Change, step: Step) -> str | None:
        """Return the move that a worker requested under this lease, if it leads to the row's new state."""
        words = self.words(change.place)
        asked = self.asked[change.place, change.old_lease or 0]
        moves = {entry.move for entry in asked if entry.at <= change.at + TICK}
        if change.error in CRASHES:
            moves &= {RELEASE.name} if (change.place, change.old_lease) in self.on_trial else set()  # it keeps its note
        elif (change.queue, change.old_lease) in self.unanswered:
            moves.add(DISCLAIM)
        return next((move for move in sorted(moves) if leads(move, words, step, change)), None)


def held(entry: Entry) -> Held:
    return (entry.queue, entry.key), entry.token


def leads(move: str, words: Words, step: Step, change: Change) -> bool:
    """Return whether this move could have made this change."""
    given_back = change.new_attempts == max(change.old_attempts - 1, 0)
    kept = change.new_attempts == change.old_attempts
    if move == ADVANCE.name:
        return change.new_state == step.done and change.new_attempts == 0
    if move == DONE.name:
        return change.new_state == step.done and kept
    if move == DIE.name:
        return change.new_state == words.dead and kept
    if move in (RELEASE.name, HOLD.name, PARK.name, DISCLAIM):
        return change.new_state in step.claimable and given_back
    if move == AGAIN.name:
        return change.new_state in step.claimable and kept
    return change.new_state in words.final
