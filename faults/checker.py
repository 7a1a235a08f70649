"""Judges a history. Pure: the same history gives the same verdict, whoever made it.

| rule | |
| --- | --- |
| 1 | no row is lost: all that was committed is there, nothing else is, and what is dead has died for a reason |
| 2 | exactly one effective result per row and stage |
| 3 | no settlement or renewal is accepted from a lease that was no longer held, and none is refused that was |
| 4 | no two live leases on a row: it is claimed only when free and due, and taken back only when its lease ran out |
| 5 | counters and history agree with the rows |
| 6 | an event exists exactly when its row was committed, and the events of a group are handled in order |
| 7 | everything is final within the bound |
| 8 | every claim counts as one attempt, none goes beyond their maximum, and none is begun twice |
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from faults.case import CRASHES, TICK, Case, Leave, Violation, held
from faults.history import History, Row
from faults.lease_rules import leases, refusals, renewals, settlements
from faults.ledger import What
from rowmill.model.lifecycle import DIE, MOVES


def check(history: History) -> list[Violation]:
    """All violations, in the order of the rules."""
    case = Case(history)
    rules = (lost, deaths, results, settlements, refusals, renewals, leases, counters, notes, events, ends, attempts)
    return sorted((found for rule in rules for found in rule(case)), key=lambda found: (found.rule, found.place))


def lost(case: Case) -> Iterator[Violation]:
    committed = {(entry.queue, entry.key) for entry in case.said(What.INSERTED)}
    asked = {(entry.queue, entry.key) for entry in case.said(What.INSERT)}
    undone = {(entry.queue, entry.key) for entry in case.said(What.UNDONE)}
    for place in {(entry.queue, entry.key) for entry in case.remembered(What.INSERTED)} - case.rows.keys():
        yield Violation(1, place, "was committed, and is not there")
    for place in case.rows.keys() - (asked | committed):
        yield Violation(1, place, "is there, and nobody put it there")
    for place in case.rows.keys() & undone:
        yield Violation(1, place, "is there, and its transaction was rolled back")
    for row in case.rows.values():
        words = case.words(row.place)
        if row.state not in words.final | words.claimable | words.running.keys():
            yield Violation(1, row.place, f"ended in a state that nobody knows: {row.state}")


def deaths(case: Case) -> Iterator[Violation]:
    """A row dies when its handler says so, or when its attempts are used up; by a crash, only if it had been alone."""
    decided = {held(entry) for entry in case.said(What.END) if entry.move == DIE.name}
    for leave in case.leaves:
        change, words = leave.change, case.words(leave.change.place)
        if change.new_state != words.dead:
            continue
        if leave.rescued and leave.held not in case.on_trial:
            yield Violation(1, change.place, "was buried for a crash, and had not been on trial")
        elif leave.held not in decided and change.old_attempts < words.attempts:
            yield Violation(1, change.place, f"died at attempt {change.old_attempts} of {words.attempts}")


def results(case: Case) -> Iterator[Violation]:
    for place, row in case.rows.items():
        words = case.words(place)
        done = Counter(leave.step.name for leave in case.left(place) if leave.finished)
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
        finished = [leave for leave in case.left(place) if leave.finished]
        if written[key] != len(finished):
            yield Violation(2, place, f"has {written[key]} effects of its handler and {len(finished)} results")
        for leave in finished:
            if (key, leave.change.old_lease) not in tokens:
                yield Violation(2, place, f"its effect is not by lease {leave.change.old_lease}, which finished it")


def counters(case: Case) -> Iterator[Violation]:
    failed = Counter(
        (leave.change.place, leave.step.name, leave.change.old_attempts) for leave in case.leaves if leave.failed
    )
    for place, row in case.rows.items():
        changes = case.changes.get(place, [])
        for earlier, later in pairwise(changes):
            ended = earlier.new_state, earlier.new_lease, earlier.new_attempts
            if ended != (later.old_state, later.old_lease, later.old_attempts):
                yield Violation(5, place, f"change {later.id} does not begin where {earlier.id} ended")
        last = changes[-1] if changes else None
        stands = row.state, row.attempts, row.lease, row.mark
        if last and (last.new_state, last.new_attempts, last.new_lease, last.mark) != stands:
            yield Violation(5, place, "stands otherwise than its last change left it")
    for about in sorted(failed.keys() | case.history.failures.keys()):
        (place, stage, attempt), found = about, case.history.failures.get(about, 0)
        if found != failed[about] and place in case.rows:
            times = f"failed {failed[about]} times at attempt {attempt} of stage {stage}"
            yield Violation(5, place, f"{times}, and the history has {found}")
    moved = Counter((leave.change.queue, leave.move) for leave in case.leaves if leave.move in MOVES)
    for queue, move in sorted(moved.keys() | case.history.counted.keys()):
        counted = case.history.counted.get((queue, move), 0)
        if counted != moved[queue, move]:
            yield Violation(5, (queue, 0), f"{moved[queue, move]} rows went {move}, and {counted} were counted")


def notes(case: Case) -> Iterator[Violation]:
    """A row that failed says why, and one that is done says nothing."""
    for leave in case.leaves:
        error = leave.change.error
        if leave.rescued and error not in CRASHES:
            yield Violation(5, leave.change.place, f"was taken back, and its error is {error}")
        elif leave.failed and error is None:
            yield Violation(5, leave.change.place, f"went {leave.move} without an error")
        elif leave.finished and error is not None:
            yield Violation(5, leave.change.place, f"has a result and an error: {error}")


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
    for place, changes in case.changes.items():
        most = case.words(place).attempts
        for change in changes:
            taken = change.new_lease is not None and change.new_lease != change.old_lease
            if change.new_lease is not None and change.new_attempts != change.old_attempts + taken:
                yield Violation(8, place, f"a claim made {change.new_attempts} attempts of {change.old_attempts}")
            if taken and change.new_attempts > most:
                yield Violation(8, place, f"was claimed for attempt {change.new_attempts} of {most}")
    for leave in case.leaves:
        if leave.rescued and not _counted(case, leave):
            change = leave.change
            what = f"{change.new_attempts} attempts of {change.old_attempts}"
            yield Violation(8, change.place, f"was taken from lease {change.old_lease} with {what}")
    over = {held(entry): entry.at for entry in reversed(list(case.said(What.ASK)))}
    begun = Counter(map(held, case.said(What.BEGIN)))
    for entry in case.said(What.BEGIN):
        if entry.at > over.get(held(entry), float("inf")):
            yield Violation(8, (entry.queue, entry.key), f"was begun under lease {entry.token}, which had been let go")
    for (place, token), times in begun.items():
        if times > 1:
            yield Violation(8, place, f"was begun {times} times under lease {token}")


def _counted(case: Case, leave: Leave) -> bool:
    """A rescue leaves the count as it is. Only the last attempt is given back, of a row that was not alone."""
    change = leave.change
    acquitted = change.old_attempts >= case.words(change.place).attempts and leave.held not in case.on_trial
    given_back = acquitted and change.new_state in leave.step.claimable
    return change.new_attempts == change.old_attempts - given_back
