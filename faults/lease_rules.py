"""Rules 3 and 4: what is written under a lease, and who holds one."""

from collections import Counter
from collections.abc import Iterator

from faults.case import CRASHES, TICK, Case, RunEnd, Violation, held, leads
from faults.history import Change, Words
from faults.ledger import What
from rowmill.model.lifecycle import AGAIN

FLUSH = 0.3
"""Seconds between the time of a commit and its visibility: the log is written to disk in between."""


def settlements(case: Case) -> Iterator[Violation]:
    """Check settles: a confirmed settle was written once, under its own lease; and every result has the token of its
    settle."""
    left = {end.held: end for end in case.run_ends}
    for entry in case.remembered(What.KEPT):
        place = entry.queue, entry.key
        end = left.get(held(entry))
        if end is None:
            yield Violation(3, place, f"{entry.move} was accepted from lease {entry.token}, and never written under it")
        elif not leads(entry.move, case.words(place), end.step, end.change):
            yield Violation(
                3, place,
                f"{entry.move} was accepted from lease {entry.token}, which went from {end.change.old_state} to "
                f"{end.change.new_state} before",
            )  # fmt: skip
    for (place, token), times in Counter(held(entry) for entry in case.said(What.KEPT)).items():
        if times > 1:
            yield Violation(3, place, f"{times} settlements were accepted from lease {token}")
    for end in case.run_ends:
        change = end.change
        if end.finished and change.mark != change.old_lease:
            yield Violation(
                3, change.place, f"the result of lease {change.mark} was written on lease {change.old_lease}"
            )


def refusals(case: Case) -> Iterator[Violation]:
    """Check refusals: no worker is refused that held the row, or whose settle was written."""
    left = {end.held: end for end in case.run_ends}
    for entry in case.remembered(What.REFUSED):
        end = left.get(held(entry))
        if end is None:
            continue
        if end.move == entry.move:
            yield Violation(3, end.change.place, f"{entry.move} of lease {entry.token} was refused, and written")
        elif end.change.at > entry.at + TICK:
            yield Violation(3, end.change.place, f"{entry.move} of lease {entry.token} was refused while it held")


def renewals(case: Case) -> Iterator[Violation]:
    """Check renewals: a lease is renewed only while it exists. A locked row is skipped and counts as held: its
    handler's transaction has the lock, or, once the lease has expired, the rescue."""
    left = {end.held: end for end in case.run_ends}
    for entry in case.remembered(What.RENEWED):
        place = entry.queue, entry.key
        end = left.get(held(entry))
        if end is None:
            continue
        gone, lease = end.change.committed or end.change.at, case.words(place).lease
        if entry.at > gone + FLUSH:
            yield Violation(3, place, f"lease {entry.token} was renewed {entry.at - gone:.3f} s after it was gone")
        elif place in case.history.with_effect:
            continue
        elif end.rescued and lease / 2 < (end.change.old_until or 0.0) - entry.at < lease - TICK:
            yield Violation(3, place, f"lease {entry.token} was renewed, and did not last longer for it")


def leases(case: Case) -> Iterator[Violation]:
    """Check leases: at most one holder, from a claim of a free row until the holder lets go or its lease expires. No
    token is used twice on a row."""
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
    for end in case.run_ends:
        change = end.change
        if end.rescued and change.old_until is not None and change.old_until > change.at + TICK:
            yield Violation(
                4, change.place,
                f"lease {change.old_lease} was taken away {change.old_until - change.at:.3f} s before its end, "
                f"and its holder had not asked for it",
            )  # fmt: skip
        yield from _too_soon(case, end)


def _wrong(change: Change, words: Words) -> str:
    """Return what is wrong with a change by itself."""
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


def _too_soon(case: Case, end: RunEnd) -> Iterator[Violation]:
    """Find failed rows that are due before their backoff is over."""
    change, least = end.change, case.words(end.change.place).backoff
    if end.move != AGAIN.name or change.due is None or change.error in CRASHES:
        return
    asked = min(entry.at for entry in case.asked[end.held] if entry.move == end.move)
    if change.due < asked + least - TICK:
        yield Violation(4, change.place, f"is due {change.due - asked:.3f} s after it failed; its backoff is {least}")
