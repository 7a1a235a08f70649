"""The rate of the last clock minutes, and for how long nothing was settled."""

from datetime import UTC, datetime, timedelta

import pytest

from rowmill.operator.activity import Minute, SettleRate, settle_rate

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def settled(*ago: int) -> list[Minute]:
    """Sixty rows in each of the clock minutes that began so many minutes before noon."""
    return [Minute(NOON - timedelta(minutes=minutes), {"done": 50, "dead": 10}) for minutes in ago]


def test_nothing_was_settled() -> None:
    assert settle_rate([], NOON) == SettleRate(0.0, 5, None)


def test_the_rate_counts_minutes_in_which_nothing_was_settled() -> None:
    assert settle_rate(settled(5, 1), NOON) == SettleRate(24.0, 5, 1)


def test_older_minutes_do_not_count() -> None:
    assert settle_rate(settled(30, 9, 6), NOON) == SettleRate(0.0, 5, 6)


def test_the_minute_that_runs_counts_as_far_as_it_is_over() -> None:
    found = settle_rate(settled(5, 4, 3, 2, 1, 0), NOON + timedelta(seconds=60))

    assert (found.per_minute, found.idle_minutes) == (60.0, 1)
    found = settle_rate(settled(2, 1, 0), NOON + timedelta(seconds=30))
    assert found.per_minute == pytest.approx(180 / 5.5)
    assert found.idle_minutes == 0


def test_a_clock_that_was_set_back_gives_no_negative_time() -> None:
    assert settle_rate(settled(-3), NOON).idle_minutes == 0
