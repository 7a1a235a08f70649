"""When a feed is fetched next. Pure: time and chance come in as arguments."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from rowmill_systems.articles.settings import ArticlesSettings

SHARE = 0.5
"""A feed is fetched twice as often as it brings something new."""
MEMORY = 20
"""The newest articles whose distances count."""
GROWTH, SHRINK = 1.5, 0.6
"""How much an interval grows when nothing is new, and shrinks to at the most when something is."""
FIRST_BACKOFF = 300.0
DOUBLINGS = 10
JITTER = 0.1
"""Part of an interval by which it varies, so that feeds that were added together part."""
LONGEST_RETRY_AFTER = 86_400.0
MAX_AGE = re.compile(r"(?:^|[\s,])(?:s-maxage|max-age)\s*=\s*\"?(\d{1,10})", re.IGNORECASE)
DIRECTIVE = re.compile(r"(?:^|[\s,])(no-cache|no-store|must-revalidate)(?:$|[\s,=])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class IntervalLimits:
    """In seconds."""

    least: float = 300.0
    most: float = 86_400.0
    usual: float = 1800.0

    @classmethod
    def of(cls, settings: ArticlesSettings) -> "IntervalLimits":
        least, most = settings.min_interval_seconds, settings.max_interval_seconds
        return cls(least, max(most, least), settings.default_interval_seconds)

    def within(self, seconds: float) -> float:
        return min(max(seconds, self.least), self.most)


@dataclass(frozen=True, slots=True)
class FeedWishes:
    """What a feed and its server ask for."""

    ttl_seconds: float | None = None
    fresh_seconds: float | None = None
    """For how long HTTP says that the response is fresh."""
    skip_hours: frozenset[int] = field(default_factory=frozenset)
    skip_days: frozenset[int] = field(default_factory=frozenset)


def adapted(last: float | None, published: list[datetime], new: int, now: datetime, limits: IntervalLimits) -> float:
    """Return the interval of a feed by how often it changes, in seconds.

    `published` are the dates of its articles, as far as they have some: half of the usual distance between the newest
    of them is the goal, and a feed that has been silent for long is fetched as seldom as it speaks. Without dates, the
    interval shrinks when something was new and grows when nothing was.
    """
    newest = sorted(published, reverse=True)[:MEMORY]
    before = limits.usual if last is None else last
    if len(newest) < 3:
        return limits.within(before * (SHRINK if new else GROWTH))
    usual = (newest[0] - newest[-1]).total_seconds() / (len(newest) - 1)
    silent = max((now - newest[0]).total_seconds(), 0.0)
    goal = limits.within(max(usual, silent / 4) * SHARE)
    # Half of the way at a time: one busy hour is not yet a busy feed.
    return goal if last is None else limits.within((before + goal) / 2)


def unchanged(last: float | None, last_new_at: datetime | None, now: datetime, limits: IntervalLimits) -> float:
    """Return the interval of a feed that answered 304: it grows with the time since its last article."""
    before = limits.usual if last is None else last
    if last_new_at is None:
        return limits.within(before * GROWTH)
    silent = max((now - last_new_at).total_seconds(), 0.0)
    return limits.within(max(before, min(silent / 4 * SHARE, before * GROWTH)))


def next_fetch(
    interval: float, wishes: FeedWishes, now: datetime, limits: IntervalLimits, *, fixed: float | None, chance: float
) -> datetime:
    """Return when a feed is fetched next after a success. `chance` is between 0 and 1.

    A person's fixed interval holds against everything. Otherwise the feed's wishes hold if they are longer, up to the
    longest interval; hours and days that the feed skips are passed over, for the longest interval at the most.
    """
    if fixed is not None:
        return now + timedelta(seconds=fixed)
    asked = max(interval, wishes.ttl_seconds or 0.0, wishes.fresh_seconds or 0.0)
    seconds = limits.within(asked) * (1 + JITTER * chance)
    moment = now + timedelta(seconds=min(seconds, limits.most))
    return _past_skipped(moment, wishes, latest=now + timedelta(seconds=max(limits.most, seconds)))


def _past_skipped(moment: datetime, wishes: FeedWishes, latest: datetime) -> datetime:
    found = moment.astimezone(UTC)
    while found < latest and (found.hour in wishes.skip_hours or found.weekday() in wishes.skip_days):
        found = found.replace(minute=moment.minute, second=moment.second) + timedelta(hours=1)
    return min(found, latest) if found != moment else moment


def after_failure(
    failures: int,
    retry_after: float | None,
    now: datetime,
    limits: IntervalLimits,
    *,
    retryable: bool,
    fixed: float | None,
    chance: float,
) -> datetime:
    """Return when a feed is fetched next after its `failures`th failure in a row.

    The wait doubles from five minutes up to the longest interval. A failure that no retry mends, such as a 404, begins
    higher up; it is still tried, since addresses come back. Retry-After holds if it is longer, for a day at the most.
    """
    doublings = min(max(failures - 1, 0) + (0 if retryable else 3), DOUBLINGS)
    seconds = min(max(FIRST_BACKOFF, fixed or 0.0) * 2**doublings, max(limits.most, fixed or 0.0))
    seconds *= 1 - JITTER + 2 * JITTER * chance
    return now + timedelta(seconds=max(seconds, min(retry_after or 0.0, LONGEST_RETRY_AFTER)))


def freshness(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return for how many seconds HTTP says that a response is fresh: max-age, otherwise Expires. None if it does not
    say, or if it asks to be revalidated each time."""
    control = headers.get("cache-control", "")
    found = MAX_AGE.findall(control)
    if found:
        age = headers.get("age", "").strip()
        return max(float(found[-1]) - (float(age[:9]) if age.isascii() and age.isdigit() else 0.0), 0.0)
    if DIRECTIVE.search(control):
        return None
    expires = _http_date(headers.get("expires"))
    if expires is None:
        return None
    # By the server's clock, if it says what time it has.
    return max((expires - (_http_date(headers.get("date")) or now)).total_seconds(), 0.0)


def _http_date(text: str | None) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text or "")
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
