"""Verify the demo: compare the database and the ledgers with what must be true."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rowmill.demo.companies import ATTEMPTS
from rowmill.demo.fate import Fates
from rowmill.demo.ledger import LedgerReader
from rowmill.demo.reads import FINAL, Facts
from rowmill.model.queue import CrashCodes

CRASHED = (CrashCodes().requeued, CrashCodes().buried)


@dataclass(frozen=True, slots=True)
class Check:
    """One check, whether it holds, and the numbers behind it."""

    claim: str
    holds: bool
    numbers: str


@dataclass(frozen=True, slots=True)
class ProofTally:
    """The counts of a run."""

    rows: int
    done: int
    dead: int
    lost: int
    """Rows that are missing, or not in a final state."""
    applied_twice: int
    applied_wrongly: int
    """Rows that are done without an effect, or have an effect without being done."""
    stale_refused: int
    poison: int
    expected_dead: int
    unexpected_dead: int
    unexpected_done: int
    attempts: int
    failed: int
    crashes: int
    """Attempts that ended with their worker: killed, frozen, or dead from a poison row."""
    acquitted: int
    """Last attempts that ended with their worker and were given back, because other rows in the same process may have
    been the cause."""
    starts: int
    unaccounted: int
    """Attempts without an ending, endings without an attempt, and handlers that started twice for one attempt."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What was done to the workers."""

    kills: int
    freezes: int
    worker_crashes: int
    """Processes that a poison row killed."""


@dataclass(frozen=True, slots=True)
class Result:
    tally: ProofTally
    checks: list[Check]
    trouble: Trouble
    store: str
    seconds: float
    kept: Path | None
    """Where ledgers, logs and the SQLite file are, with --keep."""

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)

    def as_dict(self) -> dict[str, Any]:
        """Return all counts by name."""
        about = {"seconds": round(self.seconds, 2), "store": self.store, "holds": self.holds}
        return asdict(self.tally) | asdict(self.trouble) | about | ({"kept": str(self.kept)} if self.kept else {})


def tally(facts: Facts, ledgers: Sequence[LedgerReader], fates: Fates) -> ProofTally:
    states = {company: state for company, (state, _, _) in facts.rows.items()}
    done = {company for company, state in states.items() if state == "done"}
    dead = {company for company, state in states.items() if state == "dead"}
    lost = sum(states.get(company) not in FINAL for company in range(1, fates.rows + 1))
    expected = fates.expected_dead()
    acquitted = [(company, attempt) for company, attempt, code in facts.failures if is_acquittal(attempt, code)]
    crashed = [
        (company, attempt)
        for company, attempt, code in facts.failures
        if code in CRASHED and not is_acquittal(attempt, code)
    ]
    failed = [(company, attempt) for company, attempt, code in facts.failures if code not in CRASHED]
    starts = [start for ledger in ledgers for start in ledger.starts]
    return ProofTally(
        rows=len(states),
        done=len(done),
        dead=len(dead),
        lost=lost,
        applied_twice=sum(number > 1 for number in facts.effects.values()),
        applied_wrongly=len(done ^ facts.effects.keys()),
        stale_refused=sum(len(ledger.refused) for ledger in ledgers),
        poison=len(fates.poison),
        expected_dead=len(expected),
        unexpected_dead=len(dead - expected),
        unexpected_done=len(done & expected),
        attempts=sum(attempts for _, attempts, _ in facts.rows.values()),
        failed=len(failed),
        crashes=len(crashed),
        acquitted=len(acquitted),
        starts=len(starts),
        unaccounted=unaccounted(facts, failed, crashed, acquitted, starts),
    )


def is_acquittal(attempt: int, code: str) -> bool:
    """Return whether a crash on the last attempt did not kill the row: its history then has it as one to retry."""
    return attempt == ATTEMPTS and code == CrashCodes().requeued


def unaccounted(
    facts: Facts,
    failed: Sequence[tuple[int, int]],
    crashed: Sequence[tuple[int, int]],
    acquitted: Sequence[tuple[int, int]],
    starts: Sequence[tuple[int, int]],
) -> int:
    """Count (row, attempt) pairs that break the rule: every attempt has one ending: done, failed or crashed.

    An attempt that a handler ended was started once. One that crashed was started once, or was only claimed. One that
    was given back may be started again.
    """
    made = Counter(
        (company, number) for company, (_, attempts, _) in facts.rows.items() for number in range(1, attempts + 1)
    )
    succeeded = [(company, attempts) for company, (state, attempts, _) in facts.rows.items() if state == "done"]
    ended = Counter(succeeded) + Counter(failed) + Counter(crashed)
    begun = Counter(starts)
    by_handler = Counter(succeeded) + Counter(failed)
    wrong = (made - ended) + (ended - made) + (begun - made - Counter(acquitted)) + (by_handler - begun)
    return len(wrong)


def checks(tally: ProofTally, trouble: Trouble, facts: Facts, fates: Fates) -> list[Check]:
    """Return the checks of the verification."""
    poison = [facts.rows.get(company, ("missing", 0, "")) for company in fates.poison]
    buried = sum(state == "dead" and attempts == ATTEMPTS for state, attempts, _ in poison)
    return [
        Check(
            "there was trouble",
            min(trouble.kills, trouble.freezes, trouble.worker_crashes) > 0,
            f"workers killed: {trouble.kills}, frozen past their lease: {trouble.freezes}, "
            f"dead of a poison row: {trouble.worker_crashes}",
        ),
        Check(
            "every row is in a final state",
            tally.lost == 0 and tally.rows == fates.rows,
            f"{tally.done:,} done + {tally.dead:,} dead = {tally.rows:,} rows; lost: {tally.lost}",
        ),
        Check(
            "effects were applied exactly once",
            tally.applied_twice == 0 and tally.applied_wrongly == 0,
            f"one for each of {tally.done:,} done rows, none for a dead one; applied twice: {tally.applied_twice}",
        ),
        Check(
            "stale settlements were refused",
            tally.stale_refused > 0,
            f"results of leases that had passed to others: {tally.stale_refused}",
        ),
        Check(
            "every attempt is accounted for",
            tally.unaccounted == 0 and tally.attempts == tally.done + tally.failed + tally.crashes,
            f"{tally.attempts:,} attempts = {tally.done:,} done + {tally.failed:,} failed + {tally.crashes:,} cut off "
            f"with their worker, and {tally.acquitted:,} given back; handlers begun: {tally.starts:,}",
        ),
        Check(
            "poison rows are dead after exactly their attempts",
            buried == len(poison),
            f"{buried} of {len(poison)} after {ATTEMPTS} attempts each",
        ),
        Check(
            "nobody else died of them",
            tally.unexpected_dead == 0 and tally.unexpected_done == 0,
            f"{tally.expected_dead:,} rows were to end dead; others dead: {tally.unexpected_dead}",
        ),
    ]
