"""When a feed is fetched next."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from rowmill_systems.articles.feeds.intervals import (
    FeedWishes,
    IntervalLimits,
    adapted,
    after_failure,
    freshness,
    next_fetch,
    unchanged,
)
from rowmill_systems.articles.settings import ArticlesSettings

NOW = datetime(2030, 5, 5, 12, 30, tzinfo=UTC)  # a Sunday
LIMITS = IntervalLimits(300, 86_400, 1800)


def every(minutes: float, count: int = 20) -> list[datetime]:
    return [NOW - timedelta(minutes=minutes * place) for place in range(count)]


def wait(
    interval: float = 1800, wishes: FeedWishes | None = None, *, fixed: float | None = None, chance: float = 0
) -> float:
    moment = next_fetch(interval, wishes or FeedWishes(), NOW, LIMITS, fixed=fixed, chance=chance)
    return (moment - NOW).total_seconds()


def test_a_feed_is_fetched_twice_as_often_as_it_changes() -> None:
    assert adapted(None, every(60), 5, NOW, LIMITS) == 1800
    assert adapted(None, every(240), 5, NOW, LIMITS) == 7200


def test_an_interval_stays_within_its_limits() -> None:
    assert adapted(None, every(0.01), 5, NOW, LIMITS) == 300
    assert adapted(None, every(60 * 24 * 30), 1, NOW, LIMITS) == 86_400
    assert adapted(None, [NOW] * 20, 1, NOW, LIMITS) == 300


def test_an_interval_moves_half_of_the_way() -> None:
    assert adapted(7200, every(60), 5, NOW, LIMITS) == 4500


def test_a_feed_that_fell_silent_is_fetched_less_often() -> None:
    old = [moment - timedelta(days=30) for moment in every(60)]

    assert adapted(None, old, 0, NOW, LIMITS) == 86_400


def test_without_dates_news_decide() -> None:
    assert adapted(1000, [], 3, NOW, LIMITS) == 600
    assert adapted(1000, [], 0, NOW, LIMITS) == 1500
    assert adapted(None, [], 0, NOW, LIMITS) == 2700


def test_a_304_lets_an_interval_grow_with_the_silence() -> None:
    assert unchanged(1800, NOW - timedelta(hours=1), NOW, LIMITS) == 1800
    assert unchanged(1800, NOW - timedelta(days=3), NOW, LIMITS) == 2700
    assert unchanged(None, None, NOW, LIMITS) == 2700
    assert unchanged(80_000, NOW - timedelta(days=300), NOW, LIMITS) == 86_400


def test_what_a_feed_asks_for_holds_if_it_is_longer() -> None:
    assert wait(1800, FeedWishes(ttl_seconds=3600)) == 3600
    assert wait(1800, FeedWishes(fresh_seconds=7200)) == 7200
    assert wait(1800, FeedWishes(ttl_seconds=60, fresh_seconds=60)) == 1800


def test_what_a_feed_asks_for_is_capped() -> None:
    assert wait(1800, FeedWishes(ttl_seconds=10_000_000)) == 86_400
    assert wait(1800, FeedWishes(fresh_seconds=31_536_000), chance=1.0) == 86_400


def test_a_fixed_interval_holds_against_everything() -> None:
    wishes = FeedWishes(ttl_seconds=3600, fresh_seconds=3600, skip_hours=frozenset({12, 13}))

    assert wait(1800, wishes, fixed=60, chance=0.9) == 60


def test_intervals_vary_a_little() -> None:
    assert wait(1000, chance=0.0) == 1000
    assert wait(1000, chance=1.0) == pytest.approx(1100)


def test_hours_and_days_are_skipped() -> None:
    afternoon = next_fetch(1800, FeedWishes(skip_hours=frozenset(range(12, 18))), NOW, LIMITS, fixed=None, chance=0)
    monday = next_fetch(1800, FeedWishes(skip_days=frozenset({6})), NOW, LIMITS, fixed=None, chance=0)

    assert afternoon == datetime(2030, 5, 5, 18, 0, tzinfo=UTC)
    assert monday == datetime(2030, 5, 6, 0, 0, tzinfo=UTC)


def test_no_feed_is_skipped_for_longer_than_the_longest_interval() -> None:
    wishes = FeedWishes(skip_hours=frozenset(range(23)), skip_days=frozenset({6, 0, 1, 2, 3, 4}))

    assert wait(1800, wishes) == 86_400


def failed(failures: int, retry_after: float | None = None, *, retryable: bool = True, chance: float = 0.5) -> float:
    moment = after_failure(failures, retry_after, NOW, LIMITS, retryable=retryable, fixed=None, chance=chance)
    return (moment - NOW).total_seconds()


def test_failures_back_off_up_to_the_longest_interval() -> None:
    assert [failed(count) for count in (1, 2, 3)] == [300, 600, 1200]
    assert failed(10_000) == 86_400
    assert failed(1, retryable=False) == 2400
    assert failed(1, chance=0.0) < 300 < failed(1, chance=1.0)


def test_retry_after_holds_if_it_is_longer_for_a_day() -> None:
    assert failed(1, 3600) == 3600
    assert failed(1, 10) == 300
    assert failed(1, 10_000_000_000) == 86_400


def test_a_fixed_interval_is_where_the_backoff_begins() -> None:
    moment = after_failure(1, None, NOW, LIMITS, retryable=True, fixed=7200, chance=0.5)

    assert moment == NOW + timedelta(seconds=7200)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"cache-control": "public, max-age=600"}, 600),
        ({"cache-control": "max-age=600, s-maxage=900"}, 900),
        ({"cache-control": "MAX-AGE = \"60\"", "age": "20"}, 40),
        ({"cache-control": "max-age=60", "age": "200"}, 0),
        ({"cache-control": "no-cache", "expires": format_datetime(NOW + timedelta(hours=1), usegmt=True)}, None),
        ({"cache-control": "max-age=oops"}, None),
        ({"expires": format_datetime(NOW + timedelta(hours=1), usegmt=True)}, 3600),
        ({"expires": format_datetime(NOW, usegmt=True),
          "date": format_datetime(NOW - timedelta(hours=2), usegmt=True)}, 7200),
        ({"expires": "0"}, None),
        ({"expires": "-1", "date": "never"}, None),
        ({"expires": format_datetime(NOW - timedelta(days=1), usegmt=True)}, 0),
    ],
)  # fmt: skip
def test_freshness_by_http(headers: dict[str, str], seconds: float | None) -> None:
    assert freshness(headers, NOW) == seconds


def test_limits_come_from_the_settings() -> None:
    settings = ArticlesSettings(min_interval_seconds=7200, max_interval_seconds=60, default_interval_seconds=10)

    assert IntervalLimits.of(settings) == IntervalLimits(7200, 7200, 10)
