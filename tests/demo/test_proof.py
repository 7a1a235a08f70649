"""The proof: it holds for a run that adds up, and each thing that may be wrong turns its own check red."""

from dataclasses import replace
from pathlib import Path

import pytest

from rowmill.demo.companies import ATTEMPTS
from rowmill.demo.fate import FateKind, Fates
from rowmill.demo.ledger import LedgerReader
from rowmill.demo.proof import ProofTally, Trouble, checks, tally
from rowmill.demo.reads import Facts

ROWS = 200
FATES = Fates(ROWS, 1)
FAILED = {FateKind.GONE: "no_such_company", FateKind.FLAKY: "provider_timeout"}
TROUBLE = Trouble(kills=1, freezes=1, worker_crashes=1)


class Run:
    """A run as it should be, to be bent."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[str, int, str]] = {}
        self.effects: dict[int, int] = {}
        self.failures: list[tuple[int, int, str]] = []
        self.ledger = LedgerReader(Path("nowhere"))
        self.ledger.refused = [1]
        for company in range(1, ROWS + 1):
            fate = FATES.of(company)
            state, attempts = ("dead", 1) if fate.ends_dead else ("done", 1 + fate.failures)
            if fate.kind is FateKind.POISON:
                attempts = ATTEMPTS
                codes = ["lease_expired"] * (ATTEMPTS - 1) + ["lease_expired_max_attempts"]
            else:
                codes = [FAILED[fate.kind]] * (attempts - (state == "done")) if fate.kind in FAILED else []
            self.rows[company] = (state, attempts, "")
            self.failures += [(company, number, code) for number, code in enumerate(codes, start=1)]
            self.ledger.starts += [(company, number) for number in range(1, attempts + 1)]
            if state == "done":
                self.effects[company] = 1

    @property
    def facts(self) -> Facts:
        return Facts(self.rows, self.effects, self.failures)

    @property
    def tally(self) -> ProofTally:
        return tally(self.facts, [self.ledger], FATES)

    def broken(self) -> set[str]:
        return {check.claim for check in checks(self.tally, TROUBLE, self.facts, FATES) if not check.holds}

    def one(self, kind: FateKind) -> int:
        return next(n for n in range(1, ROWS + 1) if FATES.of(n).kind is kind)


FINAL = "every row is in a final state"
ONCE = "effects were applied exactly once"
REFUSED = "stale settlements were refused"
ACCOUNTED = "every attempt is accounted for"
POISON = "poison rows are dead after exactly their attempts"
NOBODY_ELSE = "nobody else died of them"


def test_a_run_that_adds_up_is_proven() -> None:
    run = Run()

    assert run.broken() == set()
    assert run.tally.rows == ROWS == run.tally.done + run.tally.dead
    assert run.tally.attempts == run.tally.done + run.tally.failed + run.tally.crashes
    assert (run.tally.lost, run.tally.applied_twice, run.tally.unexpected_dead) == (0, 0, 0)


def test_a_missing_row_is_lost() -> None:
    run = Run()
    del run.rows[run.one(FateKind.QUICK)]

    assert run.tally.lost == 1
    assert FINAL in run.broken()


def test_a_row_that_still_runs_is_lost() -> None:
    run = Run()
    run.rows[run.one(FateKind.QUICK)] = ("running", 1, "")

    assert run.tally.lost == 1
    assert FINAL in run.broken()


def test_a_second_effect_is_seen() -> None:
    run = Run()
    run.effects[run.one(FateKind.SLOW)] = 2

    assert run.tally.applied_twice == 1
    assert run.broken() == {ONCE}


@pytest.mark.parametrize(("kind", "effects"), [(FateKind.QUICK, None), (FateKind.GONE, 1)])
def test_an_effect_that_is_missing_or_should_not_be_is_seen(kind: FateKind, effects: int | None) -> None:
    run = Run()
    run.effects.pop(run.one(kind), None)
    if effects:
        run.effects[run.one(kind)] = effects

    assert run.broken() == {ONCE}


def test_without_a_refused_settlement_nothing_is_proven() -> None:
    run = Run()
    run.ledger.refused = []

    assert run.broken() == {REFUSED}


def test_an_attempt_without_an_ending_is_not_accounted_for() -> None:
    run = Run()
    run.failures.remove((run.one(FateKind.FLAKY), 1, "provider_timeout"))

    assert run.broken() == {ACCOUNTED}


def test_an_ending_in_the_place_of_another_is_not_accounted_for_though_the_sum_is_right() -> None:
    run = Run()
    run.failures.remove((run.one(FateKind.FLAKY), 1, "provider_timeout"))
    run.failures.append((run.one(FateKind.QUICK), 7, "provider_timeout"))

    assert run.tally.attempts == run.tally.done + run.tally.failed + run.tally.crashes
    assert run.broken() == {ACCOUNTED}


def test_a_handler_begun_twice_for_one_attempt_is_not_accounted_for() -> None:
    run = Run()
    run.ledger.starts.append((run.one(FateKind.QUICK), 1))

    assert run.broken() == {ACCOUNTED}


def test_a_result_without_a_handler_that_began_is_not_accounted_for() -> None:
    run = Run()
    run.ledger.starts.remove((run.one(FateKind.QUICK), 1))

    assert run.broken() == {ACCOUNTED}


def test_an_attempt_cut_off_before_its_handler_began_is_accounted_for() -> None:
    run = Run()
    run.ledger.starts.remove((run.one(FateKind.POISON), 1))

    assert run.broken() == set()


def test_a_last_attempt_that_was_given_back_is_accounted_for_and_may_be_begun_again() -> None:
    run = Run()
    company = run.one(FateKind.POISON)
    run.failures.append((company, ATTEMPTS, "lease_expired"))
    run.ledger.starts.append((company, ATTEMPTS))

    assert run.tally.acquitted == 1
    assert run.broken() == set()


def test_a_poison_row_that_died_too_early_is_seen() -> None:
    run = Run()
    company = run.one(FateKind.POISON)
    run.rows[company] = ("dead", ATTEMPTS - 1, "")
    run.failures.remove((company, ATTEMPTS, "lease_expired_max_attempts"))
    run.ledger.starts.remove((company, ATTEMPTS))

    assert run.broken() == {POISON}


def test_an_innocent_row_that_died_is_seen() -> None:
    run = Run()
    company = run.one(FateKind.QUICK)
    run.rows[company] = ("dead", 1, "")
    run.failures.append((company, 1, "lease_expired_max_attempts"))
    del run.effects[company]

    assert run.tally.unexpected_dead == 1
    assert run.broken() == {NOBODY_ELSE}


@pytest.mark.parametrize("missing", ["kills", "freezes", "worker_crashes"])
def test_a_run_without_trouble_proves_nothing(missing: str) -> None:
    run = Run()
    found = checks(run.tally, replace(TROUBLE, **{missing: 0}), run.facts, FATES)

    assert [check.claim for check in found if not check.holds] == ["there was trouble"]
