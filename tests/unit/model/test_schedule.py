"""Which ticks are made, and which are passed over."""

from datetime import UTC, datetime, timedelta

import pytest

from rowmill.model.schedule import MOST_AT_ONCE, Cron, Every, Missed, Schedule

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def hourly(missed: Missed) -> Schedule:
    return Schedule("hourly", Cron("0 * * * *"), lambda tick: None, missed)


def hours(*values: int) -> list[datetime]:
    return [NOON + timedelta(hours=value) for value in values]


@pytest.mark.parametrize(("missed", "made"), [("all", hours(-2, -1, 0, 1)), ("last", hours(0, 1)), ("skip", hours(1))])
def test_after_a_time_without_workers_the_policy_says_what_is_made_up_for(missed: Missed, made: list[datetime]) -> None:
    assert hourly(missed).coming(NOON - timedelta(hours=2, minutes=30), NOON + timedelta(minutes=5), 60) == made


def test_the_next_one_is_made_however_far_it_is() -> None:
    yearly = Schedule("yearly", Cron("0 0 1 1 *"), lambda tick: None)
    assert yearly.coming(NOON, NOON, 60) == [datetime(2027, 1, 1, tzinfo=UTC)]
    assert yearly.coming(datetime(2027, 1, 1, tzinfo=UTC), NOON, 60) == []


def test_what_is_made_already_is_not_made_again() -> None:
    second = Schedule("second", Every(1.0), lambda tick: None)
    found = second.coming(NOON + timedelta(seconds=20), NOON, 30)
    assert found == [NOON + timedelta(seconds=n) for n in range(21, 31)]


def test_a_long_time_without_workers_is_made_up_for_in_bites() -> None:
    second = Schedule("second", Every(1.0), lambda tick: None, "all")
    found = second.coming(NOON - timedelta(days=30), NOON, 60)
    assert len(found) == MOST_AT_ONCE
    assert found[-1] < NOON


def test_a_long_time_without_workers_costs_nothing_where_only_the_last_counts() -> None:
    second = Schedule("second", Cron("* * * * * *"), lambda tick: None, "last")
    assert second.coming(NOON - timedelta(days=3000), NOON, 0) == [NOON, NOON + timedelta(seconds=1)]


@pytest.mark.parametrize(
    ("missed", "minutes", "passed"),
    [("all", 600, False), ("last", 59, False), ("last", 60, True), ("skip", 0.5, False), ("skip", 2, True)],
)
def test_a_tick_that_was_not_begun_in_time(missed: Missed, minutes: float, passed: bool) -> None:
    assert (hourly(missed).passed_over(NOON, NOON + timedelta(minutes=minutes)) is not None) == passed
