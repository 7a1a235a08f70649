"""Rules 3 and 4: what is written under a lease, and who has one."""

from collections import Counter
from collections.abc import Iterator

from faults.case import CRASHES, TICK, Case, Leave, Violation, held, leads
from faults.history import Change, Words
from faults.ledger import What
from rowmill.model.lifecycle import AGAIN

FLUSH = 0.3
"""Seconds from the time that a commit bears until others see it: the log is written to the disk in between."""


def settlements(case: Case) -> Iterator[Violation]:
    """What was confirmed was written, once, on the lease that it was for; and what was written bears its mark."""
    left = {leave.held: leave for leave in case.leaves}
    for entry in case.remembered(What.KEPT):
        place = entry.queue, entry.key
        leave = left.get(held(entry))
        if leave is None:
            yield Violation(3, place, f"{entry.move} was accepted from lease {entry.token}, and never written under it")
        elif not leads(entry.move, case.words(place), leave.step, leave.change):
            yield Violation(
                3, place,
                f"{entry.move} was accepted from lease {entry.token}, which went from {leave.change.old_state} to "
                f"{leave.change.new_state} before",
            )  # fmt: skip
    for (place, token), times in Counter(held(entry) for entry in case.said(What.KEPT)).items():
        if times > 1:
            yield Violation(3, place, f"{times} settlements were accepted from lease {token}")
    for leave in case.leaves:
        change = leave.change
        if leave.finished and change.mark != change.old_lease:
            yield Violation(
                3, change.place, f"the result of lease {change.mark} was written on lease {change.old_lease}"
            )


def refusals(case: Case) -> Iterator[Violation]:
    """Nobody is sent away who held the row, or whose settlement was written."""
    left = {leave.held: leave for leave in case.leaves}
    for entry in case.remembered(What.REFUSED):
        leave = left.get(held(entry))
        if leave is None:
            continue
        if leave.move == entry.move:
            yield Violation(3, leave.change.place, f"{entry.move} of lease {entry.token} was refused, and written")
        elif leave.change.at > entry.at + TICK:
            yield Violation(3, leave.change.place, f"{entry.move} of lease {entry.token} was refused while it held")


def renewals(case: Case) -> Iterator[Violation]:
    """A lease is renewed only while it is there, and lasts then. A row that is locked is passed over, and counts as
    held: by a transaction of its handler's, or, once its lease has run out, by the rescue. Hence the exceptions."""
    left = {leave.held: leave for leave in case.leaves}
    for entry in case.remembered(What.RENEWED):
        place = entry.queue, entry.key
        leave = left.get(held(entry))
        if leave is None:
            continue
        gone, lease = leave.change.committed or leave.change.at, case.words(place).lease
        if entry.at > gone + FLUSH:
            yield Violation(3, place, f"lease {entry.token} was renewed {entry.at - gone:.3f} s after it was gone")
        elif place in case.history.with_effect:
            continue
        elif leave.rescued and lease / 2 < (leave.change.old_until or 0.0) - entry.at < lease - TICK:
            yield Violation(3, place, f"lease {entry.token} was renewed, and did not last longer for it")


def leases(case: Case) -> Iterator[Violation]:
    """There is one holder at most: from a claim of a free row, until it lets go or its lease runs out. No token is
    given to a row twice: who held it first would hold it again."""
    claims = (change for change in case.history.changes if change.new_lease not in (None, change.old_lease))
    given = Counter((claim.place, claim.new_lease) for claim in claims)
    for (place, token), times in given.items():
        if times > 1:
            yield Violation(4, place, f"lease {token} was given {times} times")
    for entry in case.remembered(What.CLAIMED):
        if held(entry) not in given:
            place = entry.queue, entry.key
            yield Violation(4, place, f"was handed to a worker under lease {entry.token}, which it never had")
    for place, changes in case.changes.items():
        words = case.words(place)
        for change in changes:
            wrong = _wrong(change, words)
            if wrong and case.operated(change) is None:
                yield Violation(4, place, wrong)
    for leave in case.leaves:
        change = leave.change
        if leave.rescued and change.old_until is not None and change.old_until > change.at + TICK:
            yield Violation(
                4, change.place,
                f"lease {change.old_lease} was taken away {change.old_until - change.at:.3f} s before its end, "
                f"and its holder had not asked for it",
            )  # fmt: skip
        yield from _too_soon(case, leave)


def _wrong(change: Change, words: Words) -> str:
    """What is wrong with a change, whoever made it."""
    if change.new_lease is not None and change.new_lease != change.old_lease:
        under = f"lease {change.new_lease} was given while the row was {change.old_state} under {change.old_lease}"
        if change.old_lease is not None:
            return under
        step = words.running.get(change.new_state)
        if step is None or change.old_state not in step.claimable:
            return f"{under}, to be {change.new_state}"
        if change.due is not None and change.due > change.at + TICK:
            return f"lease {change.new_lease} was given {change.due - change.at:.3f} s before the row was due"
        return ""
    if (change.new_state in words.running) != (change.new_lease is not None):
        return f"is {change.new_state} under {change.new_lease}"
    if change.new_state != change.old_state and change.old_state not in words.running:
        to = f"to {change.new_state}" if change.new_state else "to be deleted"
        return f"went from {change.old_state} {to}, and nobody had claimed it, nor was an operator at it who may do so"
    if change.old_lease is None and change.new_lease is None and change.new_attempts != change.old_attempts:
        return f"its attempts went from {change.old_attempts} to {change.new_attempts}, and nobody had claimed it"
    return ""


def _too_soon(case: Case, leave: Leave) -> Iterator[Violation]:
    """A row that failed is not due before its backoff is over."""
    change, least = leave.change, case.words(leave.change.place).backoff
    if leave.move != AGAIN.name or change.due is None or change.error in CRASHES:
        return
    asked = min(entry.at for entry in case.asked[leave.held] if entry.move == leave.move)
    if change.due < asked + least - TICK:
        yield Violation(4, change.place, f"is due {change.due - asked:.3f} s after it failed; its backoff is {least}")
