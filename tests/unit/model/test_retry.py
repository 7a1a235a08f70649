import pytest

import rowmill as rm


def test_exponential_doubles_up_to_its_cap() -> None:
    backoff = rm.exponential(30, cap=600)
    assert [backoff(n) for n in range(1, 8)] == [30, 60, 120, 240, 480, 600, 600]


def test_exponential_does_not_overflow() -> None:
    assert rm.exponential(1, cap=60)(100_000) == 60


def test_the_last_step_repeats() -> None:
    backoff = rm.steps(60, 300, 900)
    assert [backoff(n) for n in (1, 2, 3, 4, 50)] == [60, 300, 900, 900, 900]


def test_steps_needs_a_step() -> None:
    with pytest.raises(ValueError, match="at least one"):
        rm.steps()


def test_units() -> None:
    assert (rm.seconds(3), rm.minutes(15), rm.hours(2)) == (3.0, 900.0, 7200.0)
