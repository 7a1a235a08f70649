"""The checker tells what an operator may do to a row from what nobody may."""

import pytest

from faults.operations import UNANSWERED
from tests.lab.forged import Forger, found, good


def again(forger: Forger, key: int, token: int) -> None:
    """A row goes through its stage once more."""
    forger.claim("job", key, token)
    forger.finish("job", key)


def test_a_row_that_is_put_back_has_one_more_result() -> None:
    forger = good()
    with forger.operate("requeue", "job", 3, told=1):
        forger.put_back("job", 3)
    again(forger, 3, 16)
    assert found(forger) == []


def test_two_results_after_it_was_put_back_once() -> None:
    forger = good()
    with forger.operate("requeue", "job", 3, told=1):
        forger.put_back("job", 3)
    again(forger, 3, 16)
    forger.change("job", 3, "ready", lease=None)
    again(forger, 3, 17)
    assert (2, 3) in found(forger)


def test_a_row_that_nobody_asked_to_have_put_back() -> None:
    forger = good()
    forger.put_back("job", 3)
    again(forger, 3, 16)
    assert {(2, 3), (4, 3)} <= set(found(forger))


def test_another_row_than_the_one_that_was_to_be_put_back() -> None:
    forger = good()
    with forger.operate("requeue", "job", 2, told=1):
        forger.put_back("job", 3)
    again(forger, 3, 16)
    assert {(4, 3), (9, 2)} <= set(found(forger))


def test_a_running_row_that_was_put_back() -> None:
    forger = good()
    forger.insert("job", 4)
    forger.claim("job", 4, 21)
    with forger.operate("requeue", "job", 4, told=1):
        forger.until["job", 4] = forger.now + 9.0
        forger.change("job", 4, "ready", lease=None, attempts=0)
    again(forger, 4, 22)
    assert (4, 4) in found(forger)


def test_a_finished_row_that_was_not_put_back() -> None:
    forger = good()
    with forger.operate("requeue", "job", 2, 3, told=1):
        forger.put_back("job", 2)
    again(forger, 2, 16)
    assert found(forger) == [(9, 3)]


def test_a_row_that_ran_while_it_was_to_be_put_back_stays() -> None:
    forger = good()
    forger.insert("job", 4)
    forger.claim("job", 4, 21)
    with forger.operate("requeue", "job", 4, told=0):
        pass
    forger.until["job", 4] = forger.now + 9.0
    forger.finish("job", 4)
    assert found(forger) == []


@pytest.mark.parametrize("told", [0, 2])
def test_an_operator_who_is_told_another_number_of_rows(told: int) -> None:
    forger = good()
    with forger.operate("requeue", "job", 3, told=told):
        forger.put_back("job", 3)
    again(forger, 3, 16)
    assert found(forger) == [(9, 0)]


def test_an_operator_who_was_killed_is_told_nothing() -> None:
    forger = good()
    with forger.operate("requeue", "job", 2, 3):
        forger.put_back("job", 3)
    again(forger, 3, 16)
    assert found(forger) == []
    forger.now += UNANSWERED
    forger.put_back("job", 3)
    again(forger, 3, 17)
    assert (4, 3) in found(forger)


def test_a_row_that_is_put_back_and_never_finished() -> None:
    forger = good()
    with forger.operate("requeue", "job", 3, told=1):
        forger.put_back("job", 3)
    assert found(forger) == [(7, 3)]


def test_done_again_without_a_result_of_its_new_life() -> None:
    forger = good()
    with forger.operate("requeue", "job", 3, told=1):
        forger.put_back("job", 3)
    forger.change("job", 3, "done")
    assert (2, 3) in found(forger)


def test_a_row_that_waits_is_cancelled() -> None:
    forger = good()
    forger.insert("job", 4)
    with forger.operate("cancel", "job", told=1):
        forger.change("job", 4, "cancelled")
    assert found(forger) == []


@pytest.mark.parametrize("claimed", [True, False], ids=["running", "done"])
def test_a_row_that_runs_or_is_done_is_cancelled(claimed: bool) -> None:
    forger = good()
    if claimed:
        forger.insert("job", 4)
        forger.claim("job", 4, 21)
    key = 4 if claimed else 3
    with forger.operate("cancel", "job", told=1):
        if claimed:
            forger.until["job", 4] = forger.now + 9.0
        forger.change("job", key, "cancelled", lease=None)
    assert (4, key) in found(forger)


def test_a_finished_row_is_pruned() -> None:
    forger = good()
    with forger.operate("prune", "job", told=1):
        forger.delete("job", 3)
    assert found(forger) == []


def test_a_row_that_is_not_finished_is_pruned() -> None:
    forger = good()
    forger.insert("job", 4)
    with forger.operate("prune", "job", told=1):
        forger.delete("job", 4)
    assert {(1, 4), (4, 4)} <= set(found(forger))


def test_a_row_is_deleted_by_nobody_who_may() -> None:
    forger = good()
    forger.delete("job", 3)
    assert {(1, 3), (4, 3)} <= set(found(forger))


def test_a_row_whose_operator_rescues_it_may_die_at_its_last_attempt() -> None:
    forger = good()
    forger.insert("job", 4)
    for token in (21, 22):
        forger.claim("job", 4, token)
        forger.rescue("job", 4)
    forger.claim("job", 4, 23)
    forger.now += 3.0
    with forger.operate("rescue", "job", told=1):
        forger.change("job", 4, "dead", lease=None, error="lease_expired_max_attempts")
        forger._fail("job", 4, 3)
    assert found(forger) == []


def test_attempts_that_nobody_may_have_set_back() -> None:
    forger = good()
    forger.insert("job", 4)
    forger.claim("job", 4, 21)
    forger.fail("job", 4)
    forger.change("job", 4, "waiting", attempts=0, error="busy")
    again(forger, 4, 22)
    assert (4, 4) in found(forger)


def test_an_event_that_is_put_back_holds_back_those_behind_it() -> None:
    forger = Forger()
    for key in (1, 2):
        forger.insert("job", key)
        forger.insert("event", key, group=1)
        forger.claim("job", key, 10 + key)
        forger.finish("job", key)
    forger.claim("event", 1, 21)
    forger.finish("event", 1)
    with forger.operate("requeue", "event", 1, told=1):
        forger.put_back("event", 1)
    forger.claim("event", 2, 22)
    forger.finish("event", 2)
    forger.claim("event", 1, 23)
    forger.finish("event", 1)
    assert found(forger, pairs={"event": "job"}) == [(6, 2)]
