"""Judges a history. Pure: the same history gives the same verdict, whoever made it.

| rule | |
| --- | --- |
| 1 | no row is lost: all that was committed is there, and final or ready; nothing else is there |
| 2 | exactly one effective result per row and stage |
| 3 | no settlement or renewal is accepted from a lease that was no longer held |
| 4 | no two live leases on a row: it is claimed only when free, and taken back only when its lease has run out |
| 5 | counters and history agree with the rows |
| 6 | an event exists exactly when its row was committed, and the events of a group are handled in order |
| 7 | everything is final within the bound |
| 8 | attempts never exceed their maximum, but for the crashes that explain them |
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from faults.history import Change, History, Place, Row, Step, Words
from faults.ledger import Entry, What
from rowmill import Crash
from rowmill.model.lifecycle import ADVANCE, AGAIN, DIE, DONE, MOVES, PARK, RELEASE

CRASHES = (Crash().requeued, Crash().buried)
"""What stands on a row that was taken from a worker whose lease had run out."""
DISCLAIM = "disclaim"
"""What a worker does with rows of a claim whose answer was lost: it gives them back. No settle, so nobody counts it."""
TICK = 0.002
"""Seconds by which two clocks of one machine may be read apart: SQLite's has milliseconds."""


@dataclass(frozen=True, slots=True)
class Violation:
    rule: int
    place: Place
    what: str

    def __str__(self) -> str:
        queue, key = self.place
        return f"rule {self.rule}, {queue} {key}: {self.what}"


def check(history: History) -> list[Violation]:
    """All violations, in the order of the rules."""
    case = Case(history)
    rules = (lost, results, settlements, renewals, leases, counters, events, ends, attempts)
    return sorted((found for rule in rules for found in rule(case)), key=lambda found: (found.rule, found.place))


class Case:
    """A history, laid out by row."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.rows: Mapping[Place, Row] = {row.place: row for row in history.rows}
        self.changes: defaultdict[Place, list[Change]] = defaultdict(list)
        for change in sorted(history.changes, key=lambda change: change.id):
            self.changes[change.place].append(change)
        self.asked: defaultdict[tuple[Place, int], set[str]] = defaultdict(set)
        for entry in self.said(What.ASK):
            self.asked[(entry.queue, entry.key), entry.token].add(entry.move)
        self.unanswered = {(entry.queue, entry.token) for entry in self.said(What.UNANSWERED)}

    def said(self, what: What) -> Iterator[Entry]:
        return (entry for entry in self.history.entries if entry.what is what)

    def words(self, place: Place) -> Words:
        return self.history.words[place[0]]

    @cached_property
    def leaves(self) -> list["Leave"]:
        """Every time that a row ceased to run."""
        found = []
        for place, changes in self.changes.items():
            running = self.words(place).running
            for change in changes:
                step = running.get(change.old_state)
                if step is not None and change.new_state != change.old_state:
                    found.append(Leave(change, step, self._mover(change, step)))
        return found

    @cached_property
    def _leaves_of(self) -> Mapping[Place, list["Leave"]]:
        found: defaultdict[Place, list[Leave]] = defaultdict(list)
        for leave in self.leaves:
            found[leave.change.place].append(leave)
        return found

    def left(self, place: Place) -> list["Leave"]:
        """Every time that this row ceased to run."""
        return self._leaves_of.get(place, [])

    def _mover(self, change: Change, step: Step) -> str | None:
        """The move that a worker asked for under the lease that was there, if it leads where the row went."""
        if change.error in CRASHES:
            return None
        asked = self.asked[change.place, change.old_lease or 0]
        if (change.queue, change.old_lease) in self.unanswered:
            asked = asked | {DISCLAIM}
        return next((move for move in sorted(asked) if leads(move, self.words(change.place), step, change)), None)


@dataclass(frozen=True, slots=True)
class Leave:
    change: Change
    step: Step
    move: str | None
    """What its holder asked for; None: somebody else took it away."""

    @property
    def rescued(self) -> bool:
        return self.move is None

    @property
    def failed(self) -> bool:
        """Does it belong into the history of failures?"""
        return self.rescued or (self.move in MOVES and MOVES[self.move].failed)

    @property
    def costs_nothing(self) -> bool:
        """It spent no attempt, or one that is explained by a crash."""
        return self.rescued or self.move in (RELEASE.name, PARK.name, DISCLAIM)


def leads(move: str, words: Words, step: Step, change: Change) -> bool:
    """Could this move have made this change?"""
    given_back = change.new_attempts == max(change.old_attempts - 1, 0)
    if move in (DONE.name, ADVANCE.name):
        return change.new_state == step.done
    if move == DIE.name:
        return change.new_state == words.dead
    if move in (RELEASE.name, PARK.name, DISCLAIM):
        return change.new_state in step.claimable and given_back
    if move == AGAIN.name:
        return change.new_state in step.claimable and change.new_attempts == change.old_attempts
    return change.new_state in words.final


def lost(case: Case) -> Iterator[Violation]:
    committed = {(entry.queue, entry.key) for entry in case.said(What.INSERTED)}
    asked = {(entry.queue, entry.key) for entry in case.said(What.INSERT)}
    undone = {(entry.queue, entry.key) for entry in case.said(What.UNDONE)}
    for place in committed - case.rows.keys() if not case.history.forgetful else ():
        yield Violation(1, place, "was committed, and is not there")
    for place in case.rows.keys() - (asked | committed):
        yield Violation(1, place, "is there, and nobody put it there")
    for place in case.rows.keys() & undone:
        yield Violation(1, place, "is there, and its transaction was rolled back")
    for row in case.rows.values():
        words = case.words(row.place)
        if row.state not in words.final | words.claimable | words.running.keys():
            yield Violation(1, row.place, f"ended in a state that nobody knows: {row.state}")


def results(case: Case) -> Iterator[Violation]:
    for place, row in case.rows.items():
        words = case.words(place)
        done = Counter(leave.step.name for leave in case.left(place) if leave.change.new_state == leave.step.done)
        for step in words.steps:
            if done[step.name] > 1:
                yield Violation(2, place, f"has {done[step.name]} results of stage {step.name}")
        if row.state == words.steps[-1].done:
            for step in words.steps:
                if not done[step.name]:
                    yield Violation(2, place, f"is {row.state} without a result of stage {step.name}")
    written = Counter(item for item, _ in case.history.effects)
    tokens = set(case.history.effects)
    for place in case.history.with_effect & case.rows.keys():
        key = place[1]
        finished = [leave for leave in case.left(place) if leave.change.new_state == leave.step.done]
        if written[key] != len(finished):
            yield Violation(2, place, f"has {written[key]} effects of its handler and {len(finished)} results")
        for leave in finished:
            if (key, leave.change.old_lease) not in tokens:
                yield Violation(2, place, f"its effect is not by lease {leave.change.old_lease}, which finished it")


def settlements(case: Case) -> Iterator[Violation]:
    """What was confirmed was written, once, on the lease that it was for; and what was written bears its mark."""
    left = {(leave.change.place, leave.change.old_lease): leave for leave in case.leaves}
    for entry in () if case.history.forgetful else case.said(What.KEPT):
        place = entry.queue, entry.key
        leave = left.get((place, entry.token))
        if leave is None:
            yield Violation(3, place, f"{entry.move} was accepted from lease {entry.token}, and never written under it")
        elif not leads(entry.move, case.words(place), leave.step, leave.change):
            yield Violation(
                3, place,
                f"{entry.move} was accepted from lease {entry.token}, which went from {leave.change.old_state} to "
                f"{leave.change.new_state} before",
            )  # fmt: skip
    for leave in case.leaves:
        change = leave.change
        if change.new_state == leave.step.done and change.mark != change.old_lease:
            yield Violation(
                3, change.place, f"the result of lease {change.mark} was written on lease {change.old_lease}"
            )


def renewals(case: Case) -> Iterator[Violation]:
    gone = {
        (leave.change.place, leave.change.old_lease): leave.change.committed or leave.change.at for leave in case.leaves
    }
    for entry in case.said(What.RENEWED):
        place = entry.queue, entry.key
        at = gone.get((place, entry.token))
        if at is not None and entry.at > at + TICK:
            yield Violation(3, place, f"lease {entry.token} was renewed {entry.at - at:.3f} s after it was gone")


def leases(case: Case) -> Iterator[Violation]:
    given = {(change.place, change.new_lease) for change in case.history.changes}
    for entry in () if case.history.forgetful else case.said(What.CLAIMED):
        place = entry.queue, entry.key
        if (place, entry.token) not in given:
            yield Violation(4, place, f"was handed to a worker under lease {entry.token}, which it never had")
    for place, changes in case.changes.items():
        words = case.words(place)
        for change in changes:
            taken = change.new_lease is not None and change.new_lease != change.old_lease
            if taken and (change.old_lease is not None or change.old_state not in words.claimable):
                yield Violation(
                    4, place,
                    f"lease {change.new_lease} was given while the row was {change.old_state} under {change.old_lease}",
                )  # fmt: skip
    for leave in case.leaves:
        change = leave.change
        live = change.old_until is not None and change.old_until > change.at + TICK
        if leave.rescued and live:
            assert change.old_until is not None
            yield Violation(
                4, change.place,
                f"lease {change.old_lease} was taken away {change.old_until - change.at:.3f} s before its end, "
                f"and its holder had not asked for it",
            )  # fmt: skip


def counters(case: Case) -> Iterator[Violation]:
    for place, row in case.rows.items():
        changes = case.changes.get(place, [])
        for earlier, later in pairwise(changes):
            if (earlier.new_state, earlier.new_lease) != (later.old_state, later.old_lease):
                yield Violation(5, place, f"change {later.id} does not begin where {earlier.id} ended")
        if changes and (changes[-1].new_state, changes[-1].new_attempts) != (row.state, row.attempts):
            yield Violation(5, place, "stands otherwise than its last change left it")
        failed = sum(leave.failed for leave in case.left(place))
        if case.history.failures.get(place, 0) != failed:
            found = case.history.failures.get(place, 0)
            yield Violation(5, place, f"failed {failed} times, and the history has {found}")
    moved = Counter((leave.change.queue, leave.move) for leave in case.leaves if leave.move in MOVES)
    for queue, move in sorted(moved.keys() | case.history.counted.keys()):
        counted = case.history.counted.get((queue, move), 0)
        if counted != moved[queue, move]:
            yield Violation(5, (queue, 0), f"{moved[queue, move]} rows went {move}, and {counted} were counted")


def events(case: Case) -> Iterator[Violation]:
    for outbox, source in case.history.pairs.items():
        written = {key for queue, key in case.rows if queue == outbox}
        rows = {key for queue, key in case.rows if queue == source}
        for key in sorted(written ^ rows):
            what = "has an event and no row" if key in written else "has a row and no event"
            yield Violation(6, (outbox, key), what)
        groups: defaultdict[int, list[Row]] = defaultdict(list)
        for row in case.rows.values():
            if row.queue == outbox and row.group is not None:
                groups[row.group].append(row)
        for group in groups.values():
            yield from _in_order(case, sorted(group, key=lambda row: row.key))


def _in_order(case: Case, rows: Iterable[Row]) -> Iterator[Violation]:
    """No event of a group is claimed before the one before it has come to its end."""
    ended = 0.0
    before: Row | None = None
    for row in rows:
        words = case.words(row.place)
        changes = case.changes.get(row.place, [])
        claims = [change.at for change in changes if change.new_state in words.running]
        if before is not None and claims and claims[0] < ended - TICK:
            yield Violation(6, row.place, f"was begun before {before.key} of its group had ended")
        ends = [change.at for change in changes if change.new_state in words.final]
        ended = max([ended, *ends]) if ends else float("inf")
        before = row


def ends(case: Case) -> Iterator[Violation]:
    for row in case.rows.values():
        if row.state not in case.words(row.place).final:
            yield Violation(7, row.place, f"is still {row.state}")


def attempts(case: Case) -> Iterator[Violation]:
    """A crash may be others' fault, and then costs no attempt; nothing else is tried more often than it may be."""
    begun = Counter(((entry.queue, entry.key), entry.stage) for entry in case.said(What.BEGIN))
    excused: Counter[tuple[Place, str]] = Counter()
    for leave in case.leaves:
        if leave.costs_nothing:
            excused[leave.change.place, leave.step.name] += 1
    for (place, stage), times in () if case.history.forgetful else begun.items():
        most = case.words(place).attempts + excused[place, stage]
        if times > most:
            yield Violation(8, place, f"was begun {times} times in stage {stage}, and {most} can be explained")
    for row in case.rows.values():
        if row.attempts > case.words(row.place).attempts:
            yield Violation(8, row.place, f"counts {row.attempts} attempts")
