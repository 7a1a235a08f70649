"""The checker finds what is wrong with leases and attempts in a forged history."""

from dataclasses import replace

import pytest

from faults.ledger import What
from tests.lab.forged import Forger, found, good


def claimed(*, attempts: int = 0) -> Forger:
    """A good history, and a row that runs under lease 21."""
    forger = good()
    forger.insert("job", 4)
    forger.rows["job", 4] = replace(forger.rows["job", 4], attempts=attempts)
    forger.claim("job", 4, 21)
    return forger


def test_a_death_that_nobody_decided() -> None:
    forger = claimed()
    forger.die("job", 4)
    assert found(forger) == [(1, 4)]
    forger = claimed()
    forger.say(What.END, "job", 4, 21, "dead")
    forger.die("job", 4)
    assert found(forger) == [], "its handler said so"
    forger = claimed(attempts=2)
    forger.die("job", 4)
    assert found(forger) == [], "its attempts are used up"


def test_a_burial_without_a_trial() -> None:
    forger = claimed(attempts=2)
    forger.bury("job", 4)
    assert found(forger) == [(1, 4)]
    forger = claimed(attempts=2)
    forger.put_on_trial("job", 4)
    forger.bury("job", 4)
    assert found(forger) == []
    forger = claimed()
    forger.put_on_trial("job", 4)
    forger.bury("job", 4)
    assert found(forger) == [(1, 4)], "it had attempts left"


def test_a_row_on_trial_may_be_given_back_by_its_worker() -> None:
    forger = claimed(attempts=2)
    forger.put_on_trial("job", 4)
    forger.release("job", 4)
    forger.claim("job", 4, 22)
    forger.finish("job", 4)
    assert found(forger) == []


def test_a_release_that_comes_too_late_for_the_rescue() -> None:
    forger = claimed(attempts=2)
    forger.now += 3.0
    forger.say(What.ASK, "job", 4, 21, "release")
    forger.rescue("job", 4, after=0.0, attempts=2)
    forger.say(What.REFUSED, "job", 4, 21, "release")
    forger.claim("job", 4, 22)
    forger.finish("job", 4)
    assert found(forger) == [], "both lead there: the last attempt of a row that was not alone is given back"


def test_a_token_that_is_given_to_its_row_again() -> None:
    forger = claimed()
    forger.now += 3.0
    forger.rescue("job", 4, after=0.0)
    forger.claim("job", 4, 21)
    forger.finish("job", 4)
    assert (4, 4) in found(forger)


def test_a_dead_row_that_comes_back() -> None:
    forger = claimed(attempts=2)
    forger.die("job", 4)
    forger.change("job", 4, "ready", attempts=0)
    forger.claim("job", 4, 22)
    forger.finish("job", 4)
    assert found(forger) == [(4, 4)]


def test_a_ready_row_that_is_buried_without_a_claim() -> None:
    forger = good()
    forger.insert("job", 4)
    forger.change("job", 4, "dead", error="busy")
    assert found(forger) == [(4, 4)]


def test_a_claim_before_its_time() -> None:
    forger = good()
    forger.insert("job", 4)
    forger.claim("job", 4, 21, due=forger.now + 5.0)
    forger.finish("job", 4)
    assert found(forger) == [(4, 4)]


def test_a_failure_without_a_backoff() -> None:
    forger = claimed()
    forger.fail("job", 4, wait=0.0)
    forger.claim("job", 4, 22)
    forger.finish("job", 4)
    assert found(forger) == [(4, 4)]


def test_a_lease_that_stays_on_a_row_that_is_done() -> None:
    forger = claimed()
    forger.finish("job", 4)
    forger.changes[-1] = replace(forger.changes[-1], new_lease=21)
    forger.rows["job", 4] = replace(forger.rows["job", 4], lease=21)
    assert found(forger) == [(4, 4)]


def test_a_row_that_is_taken_away_as_if_its_holder_had_asked() -> None:
    """What its holder asks for later does not explain it."""
    forger = claimed()
    forger.change("job", 4, "waiting", lease=None, error="busy")
    forger.say(What.ASK, "job", 4, 21, "again")
    forger.claim("job", 4, 22)
    forger.finish("job", 4)
    assert (4, 4) in found(forger)


def test_a_rescue_that_says_nothing() -> None:
    forger = claimed()
    forger.rescue("job", 4)
    forger.changes[-1] = replace(forger.changes[-1], error=None)
    forger.claim("job", 4, 22)
    forger.finish("job", 4)
    assert found(forger) == [(5, 4)]


def test_errors_and_results() -> None:
    forger = claimed()
    forger.finish("job", 4)
    forger.changes[-1] = replace(forger.changes[-1], error="busy")
    assert found(forger) == [(5, 4)]
    forger = claimed()
    forger.fail("job", 4)
    forger.changes[-1] = replace(forger.changes[-1], error=None)
    forger.claim("job", 4, 22)
    forger.finish("job", 4)
    assert found(forger) == [(5, 4)]


def test_a_settlement_that_was_refused_and_written() -> None:
    forger = claimed()
    forger.finish("job", 4)
    forger.entries[-1] = replace(forger.entries[-1], what=What.REFUSED)
    assert found(forger) == [(3, 4)]


def test_a_settlement_that_was_refused_while_its_lease_held() -> None:
    forger = claimed()
    forger.say(What.ASK, "job", 4, 21, "done")
    forger.say(What.REFUSED, "job", 4, 21, "done")
    forger.rescue("job", 4)
    forger.claim("job", 4, 22)
    forger.finish("job", 4)
    assert found(forger) == [(3, 4)]


def test_two_settlements_of_one_lease() -> None:
    forger = claimed()
    forger.finish("job", 4)
    forger.say(What.KEPT, "job", 4, 21, "done")
    assert found(forger) == [(3, 4)]


def test_a_renewal_that_was_confirmed_and_not_made() -> None:
    forger = claimed()
    forger.now += 0.5
    forger.say(What.RENEWED, "job", 4, 21)
    forger.rescue("job", 4, after=2.0)
    forger.claim("job", 4, 22)
    forger.finish("job", 4)
    assert found(forger) == [(3, 4)]


@pytest.mark.parametrize("counted", [0, 2])
def test_a_claim_that_counts_something_else_than_one(counted: int) -> None:
    forger = claimed()
    forger.changes[-1] = replace(forger.changes[-1], new_attempts=counted)
    forger.rows["job", 4] = replace(forger.rows["job", 4], attempts=counted)
    forger.finish("job", 4)
    assert found(forger) == [(8, 4)]


def test_a_rescue_that_gives_an_attempt_back() -> None:
    forger = claimed()
    forger.rescue("job", 4, attempts=0)
    forger.claim("job", 4, 22)
    forger.finish("job", 4)
    assert found(forger) == [(8, 4)]
    forger = claimed(attempts=2)
    forger.rescue("job", 4, attempts=2)
    forger.claim("job", 4, 22)
    forger.finish("job", 4)
    assert found(forger) == [], "the last one, of a row that was not alone"
    forger = claimed(attempts=2)
    forger.put_on_trial("job", 4)
    forger.rescue("job", 4, attempts=2)
    forger.claim("job", 4, 22)
    forger.finish("job", 4)
    assert found(forger) == [(8, 4)]


def test_a_row_that_is_begun_twice_under_one_lease() -> None:
    forger = claimed()
    forger.say(What.BEGIN, "job", 4, 21)
    forger.finish("job", 4)
    assert found(forger) == [(8, 4)]


def test_a_row_that_is_begun_after_it_was_given_back() -> None:
    forger = claimed()
    forger.entries.pop()
    forger.release("job", 4)
    forger.say(What.BEGIN, "job", 4, 21)
    forger.claim("job", 4, 22)
    forger.finish("job", 4)
    assert found(forger) == [(8, 4)]
