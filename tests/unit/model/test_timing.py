"""When schedules are due: zones, hours that are missing or come twice, periods, and what is refused."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rowmill.model.schedule import EPOCH, BadTiming, Cron, Every, Timing, between

BERLIN = ZoneInfo("Europe/Berlin")


def local(timing: Cron, start: datetime, count: int) -> list[str]:
    zone = ZoneInfo(timing.zone)
    found = between(timing, start.replace(tzinfo=zone).astimezone(UTC), datetime.max.replace(tzinfo=UTC), count)
    return [f"{due.astimezone(zone):%d %H:%M %Z}" for due in found]


def test_a_zone_decides_what_the_clock_says() -> None:
    due = Cron("0 3 * * *", "Asia/Shanghai").following(datetime(2026, 1, 1, tzinfo=UTC))
    assert due == datetime(2026, 1, 1, 19, tzinfo=UTC)


def test_a_time_that_the_clock_jumps_over_comes_at_the_end_of_the_jump() -> None:
    daily = Cron("30 2 * * *", "Europe/Berlin")
    assert local(daily, datetime(2026, 3, 28), 3) == ["28 02:30 CET", "29 03:00 CEST", "30 02:30 CEST"]


def test_a_fixed_time_in_an_hour_that_comes_twice_comes_once() -> None:
    daily = Cron("30 2 * * *", "Europe/Berlin")
    assert local(daily, datetime(2026, 10, 24, 12), 2) == ["25 02:30 CEST", "26 02:30 CET"]


def test_every_half_hour_goes_on_through_an_hour_that_comes_twice() -> None:
    found = local(Cron("*/30 * * * *", "Europe/Berlin"), datetime(2026, 10, 25, 1, 45), 5)
    assert found == ["25 02:00 CEST", "25 02:30 CEST", "25 02:00 CET", "25 02:30 CET", "25 03:00 CET"]


def test_between_two_that_are_the_same_on_the_clock_nothing_comes_twice() -> None:
    """Asked in the second of two equal hours, a fixed time in that hour was already there in the first."""
    daily = Cron("45 2 * * *", "Europe/Berlin")
    second = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN).astimezone(UTC)
    assert daily.following(second) == datetime(2026, 10, 26, 1, 45, tzinfo=UTC)


def test_six_fields_begin_with_the_second() -> None:
    due = Cron("*/10 * * * * *").following(datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC))
    assert due == datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)


def test_a_period_is_counted_from_one_time_for_all() -> None:
    every = Every(10.0)
    assert every.following(datetime(2026, 1, 1, 0, 0, 3, tzinfo=UTC)) == datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)
    assert every.last(datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)) == datetime(2026, 1, 1, 0, 0, 10, tzinfo=UTC)
    assert Every(86400.0).following(datetime(2026, 1, 1, 5, tzinfo=UTC)) == datetime(2026, 1, 2, tzinfo=UTC)


TIMINGS = st.sampled_from(
    [
        Cron("30 2 * * *", "Europe/Berlin"),
        Cron("0,30 1-3 * * *", "America/New_York"),
        Cron("*/20 * * * *", "America/Havana"),
        Cron("15 0 * * SUN", "America/Havana"),
        Cron("5 */2 * * *", "Europe/Berlin"),
        Cron("0 0 L * *"),
        Cron("*/7 * * * * *", "Asia/Shanghai"),
        Every(1.0),
        Every(90.5),
        Every(86400.0),
    ]
)
NEAR_A_CHANGE = st.one_of(
    st.sampled_from([datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC),
                     datetime(2026, 3, 8, 5, tzinfo=UTC), datetime(2026, 11, 1, 4, tzinfo=UTC)]),
    st.datetimes(datetime(2025, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
)  # fmt: skip


@settings(deadline=None)
@given(TIMINGS, NEAR_A_CHANGE, st.integers(-7200, 7200))
def test_times_go_on_and_the_last_is_one_of_them(timing: Timing, start: datetime, shift: int) -> None:
    start += timedelta(seconds=shift)
    found = between(timing, start, start + timedelta(days=400), 12)
    assert all(one < other for one, other in pairwise([start, *found]))
    for one, other in pairwise(found):
        assert timing.last(one) == one
        assert timing.last(other - timedelta(microseconds=1)) == one
        assert timing.following(one + (other - one) / 2) == other


@pytest.mark.parametrize(
    ("timing", "fix"),
    [
        (Cron("0 25 * * *"), r"not a cron expression \(Bad hour\)\. It has five fields"),
        (Cron("@daily"), "five fields"),
        (Cron(""), "five fields"),
        (Cron("0 3 * * *", "Europe/Berlln"), "Write one like UTC or Europe/Berlin"),
        (Cron("0 3 * * *", "../etc/passwd"), "is not a time zone"),
        (Cron("0 3 * * *", ""), "is not a time zone"),
        (Cron("0 0 30 2 *"), "day-of-month"),
        (Every(0.2), "a period of 0.2 s is out of range"),
        (Every(float("nan")), "out of range"),
        (Every(-1), "out of range"),
    ],
)
def test_what_can_not_be_used_is_refused_with_the_fix(timing: Timing, fix: str) -> None:
    with pytest.raises(BadTiming, match=fix):
        timing.check()


def test_a_rare_day_is_not_taken_for_one_that_never_comes() -> None:
    Cron("0 0 29 2 *").check()
    assert Cron("0 0 29 2 *").following(EPOCH) == datetime(1972, 2, 29, tzinfo=UTC)
