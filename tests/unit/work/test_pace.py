"""Prefetch: enough to keep fast handlers fed, never enough to starve other workers."""

import random

from rowmill.worker.prefetch import MOST, Prefetch


def test_the_first_claim_takes_only_what_can_start() -> None:
    assert Prefetch(8, None).wanted(waiting=0, running=0) == 8


def test_slow_handlers_get_nothing_ahead() -> None:
    prefetch = Prefetch(8, None)
    prefetch.ran(2.0)
    assert prefetch.wanted(waiting=0, running=8) == 0
    assert prefetch.wanted(waiting=0, running=5) == 3


def test_fast_handlers_get_what_they_work_off_in_a_moment() -> None:
    prefetch = Prefetch(10, None)
    prefetch.ran(0.01)
    assert prefetch.prefetch == 100


def test_there_is_a_limit_however_fast() -> None:
    prefetch = Prefetch(10, None)
    prefetch.ran(0.0)
    assert prefetch.prefetch == MOST


def test_a_few_quick_rows_in_a_row_do_not_make_a_process_hoard() -> None:
    """Most rows are known already and take no time; one in five asks somebody and takes half a second."""
    prefetch = Prefetch(8, None)
    chance = random.Random(7)
    most = 0
    for row in range(5000):
        prefetch.ran(0.5 if chance.random() < 0.2 else 0.0)
        most = max(most, prefetch.prefetch) if row >= 20 else 0
    assert most <= 40  # a tenth of a second of work are eight rows


def test_a_handler_that_grows_slow_is_given_less_at_once() -> None:
    prefetch = Prefetch(8, None)
    for _ in range(1000):
        prefetch.ran(0.0001)
    assert prefetch.prefetch == MOST
    for _ in range(8):
        prefetch.ran(1.0)
    assert prefetch.prefetch <= 10


def test_claims_stay_large() -> None:
    prefetch = Prefetch(10, None)
    prefetch.ran(0.01)
    assert prefetch.wanted(waiting=80, running=10) == 0
    assert prefetch.wanted(waiting=40, running=10) == 60


def test_a_batch_handler_wants_whole_batches() -> None:
    assert Prefetch(2, 50).wanted(waiting=0, running=0) == 100
