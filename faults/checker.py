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
| 9 | what an operator asks for is done to every row that it is meant for, and the reported number of rows is right |

A row that an operator puts back begins a new life: rules 2 and 6 hold for each of its lives.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from faults.case import CRASHES, TICK, Case, RunEnd, Violation, held
from faults.history import History, Row
from faults.lease_rules import leases, refusals, renewals, settlements
from faults.ledger import What
from faults.operations import SLACK, Operation, Verb
from rowmill.model.lifecycle import DIE, MOVES

BEGUN = 1.0
"""Seconds for which a statement may have run without seeing concurrent changes."""


def check(history: History) -> list[Violation]:
    """Return all violations, in the order of the rules."""
    case = Case(history)
    rules = (
        lost, deaths, results, settlements, refusals, renewals, leases, counters, notes, events, ends, attempts,
        operators,
    )  # fmt: skip
    return sorted((found for rule in rules for found in rule(case)), key=lambda found: (found.rule, found.place))


def lost(case: Case) -> Iterator[Violation]:
    committed = {(entry.queue, entry.key) for entry in case.said(What.INSERTED)}
    asked = {(entry.queue, entry.key) for entry in case.said(What.INSERT)}
    undone = {(entry.queue, entry.key) for entry in case.said(What.UNDONE)}
    there = case.rows.keys() | case.pruned
    for place in {(entry.queue, entry.key) for entry in case.remembered(What.INSERTED)} - there:
        yield Violation(1, place, "was committed, and is not there")
    for place in case.rows.keys() & case.pruned:
        yield Violation(1, place, "was deleted, and is there")
    for place in case.rows.keys() - (asked | committed):
        yield Violation(1, place, "is there, and nobody put it there")
    for place in case.rows.keys() & undone:
        yield Violation(1, place, "is there, and its transaction was rolled back")
    for row in case.rows.values():
        words = case.words(row.place)
        if row.state not in words.final | words.claimable | words.running.keys():
            yield Violation(1, row.place, f"ended in a state that nobody knows: {row.state}")


def deaths(case: Case) -> Iterator[Violation]:
    """Check deaths: a row dies when its handler says so, or when its attempts are used up. It dies by a crash only if
    it ran alone, or if an operator rescued it, which does not check that."""
    decided = {held(entry) for entry in case.said(What.END) if entry.move == DIE.name}
    for end in case.run_ends:
        change, words = end.change, case.words(end.change.place)
        if change.new_state != words.dead:
            continue
        if end.rescued and end.held not in case.on_trial and not case.under_way(Verb.RESCUE, change):
            yield Violation(1, change.place, "was buried for a crash, and had not been on trial")
        elif end.held not in decided and change.old_attempts < words.attempts:
            yield Violation(1, change.place, f"died at attempt {change.old_attempts} of {words.attempts}")


def results(case: Case) -> Iterator[Violation]:
    for place in case.rows.keys() | case.changes.keys():
        finished = [end for end in case.run_ends_of(place) if end.finished]
        for (_, stage), times in Counter((case.life(end.change), end.step.name) for end in finished).items():
            if times > 1:
                yield Violation(2, place, f"has {times} results of stage {stage}")
    for place, row in case.rows.items():
        words = case.words(place)
        last = words.steps[-1]
        if row.state != last.done:
            continue
        done = {end.step.name for end in case.run_ends_of(place) if end.finished}
        for step in words.steps:
            if step.name not in done:
                yield Violation(2, place, f"is {row.state} without a result of stage {step.name}")
        lives = {case.life(end.change) for end in case.run_ends_of(place) if end.finished and end.step == last}
        if done and case.lives(place) - 1 not in lives:
            yield Violation(2, place, f"is {row.state} without a result since it was put back")
    written = Counter(item for item, _ in case.history.effects)
    tokens = set(case.history.effects)
    for place in case.history.with_effect & case.rows.keys():
        key = place[1]
        finished = [end for end in case.run_ends_of(place) if end.finished]
        if written[key] != len(finished):
            yield Violation(2, place, f"has {written[key]} effects of its handler and {len(finished)} results")
        for end in finished:
            if (key, end.change.old_lease) not in tokens:
                yield Violation(2, place, f"its effect is not by lease {end.change.old_lease}, which finished it")


def counters(case: Case) -> Iterator[Violation]:
    failed = Counter((end.change.place, end.step.name, end.change.old_attempts) for end in case.run_ends if end.failed)
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
    moved = Counter((end.change.queue, end.move) for end in case.run_ends if end.move in MOVES)
    for queue, move in sorted(moved.keys() | case.history.counted.keys()):
        counted = case.history.counted.get((queue, move), 0)
        if counted != moved[queue, move]:
            yield Violation(5, (queue, 0), f"{moved[queue, move]} rows went {move}, and {counted} were counted")


def notes(case: Case) -> Iterator[Violation]:
    """Check errors: a failed row has one, and a done row has none."""
    for end in case.run_ends:
        error = end.change.error
        if end.rescued and error not in CRASHES:
            yield Violation(5, end.change.place, f"was taken back, and its error is {error}")
        elif end.failed and error is None:
            yield Violation(5, end.change.place, f"went {end.move} without an error")
        elif end.finished and error is not None:
            yield Violation(5, end.change.place, f"has a result and an error: {error}")


def events(case: Case) -> Iterator[Violation]:
    for outbox, source in case.history.pairs.items():
        written = {key for queue, key in case.rows if queue == outbox}
        rows = {key for queue, key in case.rows if queue == source}
        pruned = {key for queue, key in case.pruned if queue in (outbox, source)}
        for key in sorted((written ^ rows) - pruned):
            what = "has an event and no row" if key in written else "has a row and no event"
            yield Violation(6, (outbox, key), what)
        groups: defaultdict[int, list[Row]] = defaultdict(list)
        for row in case.rows.values():
            if row.queue == outbox and row.group is not None:
                groups[row.group].append(row)
        for group in groups.values():
            yield from _in_order(case, sorted(group, key=lambda row: row.key))


def _in_order(case: Case, rows: Iterable[Row]) -> Iterator[Violation]:
    """Check the order per group: no event is claimed while an earlier one is unfinished. A requeued event blocks those
    that have not started by then."""
    before: list[tuple[int, float, float]] = []
    for row in rows:
        running = case.words(row.place).running
        claims = [change.at for change in case.changes.get(row.place, []) if change.new_state in running]
        for key, since, until in before:
            if any(since < at < until - TICK for at in claims):
                yield Violation(6, row.place, f"was begun before {key} of its group had ended")
                break
        before += [(row.key, since, until) for since, until in _unfinished(case, row)]


def _unfinished(case: Case, row: Row) -> Iterator[tuple[float, float]]:
    """Yield the periods in which a row was not in a final state. A claim that had started need not see a requeue."""
    final = case.words(row.place).final
    since: float | None = float("-inf")
    for change in case.changes.get(row.place, []):
        if change.new_state in final and since is not None:
            yield since, change.at
            since = None
        elif change.new_state not in final and since is None:
            since = change.seen + BEGUN
    if since is not None:
        yield since, float("inf")


def ends(case: Case) -> Iterator[Violation]:
    for row in case.rows.values():
        if row.state not in case.words(row.place).final:
            yield Violation(7, row.place, f"is still {row.state}")


def attempts(case: Case) -> Iterator[Violation]:
    """Check attempts: a crash may be the fault of others, and then costs none. Nothing else runs more often than
    allowed."""
    for place, changes in case.changes.items():
        most = case.words(place).attempts
        for change in changes:
            taken = change.new_lease is not None and change.new_lease != change.old_lease
            if change.new_lease is not None and change.new_attempts != change.old_attempts + taken:
                yield Violation(8, place, f"a claim made {change.new_attempts} attempts of {change.old_attempts}")
            if taken and change.new_attempts > most:
                yield Violation(8, place, f"was claimed for attempt {change.new_attempts} of {most}")
    for end in case.run_ends:
        if end.rescued and not _counted(case, end):
            change = end.change
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


def _counted(case: Case, end: RunEnd) -> bool:
    """Check the count after a row stops running. A rescue keeps it; only the last attempt of a row that did not run
    alone is given back."""
    change = end.change
    acquitted = change.old_attempts >= case.words(change.place).attempts and end.held not in case.on_trial
    given_back = acquitted and change.new_state in end.step.claimable
    return change.new_attempts == change.old_attempts - given_back


def operators(case: Case) -> Iterator[Violation]:
    """Check operators: a finished row that nobody else touched is requeued when an operator names its key, and the
    reported number of changed rows is right."""
    for (queue, verb), done in case.operations.items():
        for operation in done:
            if verb in (Verb.REQUEUE, Verb.CANCEL, Verb.PRUNE) and operation.rows is not None:
                yield from _as_reported(case, queue, operation)
            if verb is Verb.REQUEUE and operation.rows is not None:
                yield from _honoured(case, queue, operation)


def _as_reported(case: Case, queue: str, operation: Operation) -> Iterator[Violation]:
    changes = case.between(queue, operation.since - SLACK, operation.until + SLACK)
    changed = sum(operation.covers(change) and case.operated(change) is operation.verb for change in changes)
    if changed != operation.rows:
        text = f"{operation.verb} said that it changed {operation.rows} rows, and {changed} were changed"
        yield Violation(9, (queue, 0), text)


def _honoured(case: Case, queue: str, operation: Operation) -> Iterator[Violation]:
    for key in sorted(operation.keys):
        place = queue, key
        changes = case.changes.get(place, [])
        before = [change for change in changes if change.seen < operation.since - BEGUN]
        after = [change for change in changes if change.seen >= operation.since - BEGUN]
        if not before or before[-1].new_state not in case.words(place).final:
            continue
        if not after or after[0].at > operation.until + SLACK:
            yield Violation(9, place, f"was to be put back when it was {before[-1].new_state}, and stayed as it was")
