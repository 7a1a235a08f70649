"""Sync feeds: each is a row of a queue, so that a fleet shares the work.

due → fetching → idle, until `next_sync_at`; then a schedule makes it due again. A failed fetch is no dead row: it is
idle with a code, and waits longer from failure to failure.

One fetch at a time per host: the queue is in order per `host`, so that a feed is not even claimed while another of its
host runs. A limit with the host as its key covers what the queue can't see: redirects to a host of other feeds, and
`Retry-After`, which keeps the whole fleet away from the host. It costs 0.5 ms a feed.
"""

import asyncio
import logging
import random
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.articles.adding import is_storable_url
from rowmill_systems.articles.feeds.entries import FeedEntry, ParsedFeed
from rowmill_systems.articles.feeds.intervals import (
    FeedWishes,
    IntervalLimits,
    adapted,
    after_failure,
    freshness,
    next_fetch,
    unchanged,
)
from rowmill_systems.articles.feeds.parser import PARSE_SECONDS, PROCESSES, ParsingFailed
from rowmill_systems.articles.feeds.parsing import NotAFeed
from rowmill_systems.articles.matching import with_known_identities
from rowmill_systems.articles.models import FeedSource
from rowmill_systems.articles.queue import GONE, retire_gone
from rowmill_systems.articles.saving import save_entries
from rowmill_systems.articles.settings import ArticlesSettings
from rowmill_systems.parts.database import in_utc
from rowmill_systems.parts.fetching import FetchedPage, FetchFailed, host_of

if TYPE_CHECKING:
    from rowmill_systems.articles.articles import Articles

log = logging.getLogger("rowmill.articles")

HOSTS = "feed_hosts"
"""The name of the limit, as `rowmill limits` shows it."""
SCHEDULE = "sync feeds"
DUE_EVERY = 30.0
DUE_AT_ONCE = 500
"""Feeds that one tick makes due."""
PERMIT_SECONDS = 5.0
"""How long a fetch waits for a host to which another one was redirected. Then its row goes back, at no attempt."""
SETTLE_SECONDS = 60.0
LOOK_SECONDS = 0.2
ASKS_TO_WAIT = (429, 503)
USUAL_WAIT = 60.0
"""Seconds for which a host is left alone that says "too many requests", and not for how long."""
LONGEST_HOLD = 86_400.0
TOO_MANY_ENTRIES = "too_many_entries"
STATES_AT_WORK = ("due", "fetching")

Progress = Callable[[int, int], None]
"""Called with the number of feeds that are done, and of all."""


@dataclass
class SyncReport:
    """What one `sync_now` did."""

    feeds: int = 0
    """Feeds that were made due."""
    fetched: int = 0
    """Feeds that this process fetched; others of the fleet may have fetched the rest."""
    not_modified: int = 0
    new: int = 0
    updated: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    """How many feeds failed, by code."""
    waiting: int = 0
    """Feeds that are still due: their host asked to be left alone."""
    seconds: float = 0.0


CURRENT_SYNC: ContextVar[SyncReport | None] = ContextVar("CURRENT_SYNC", default=None)


def handle_sources(articles: "Articles") -> None:
    """Register the handler of feeds, the limit per host, and the schedule that makes feeds due."""
    settings = articles.settings
    hosts = articles.mill.limit(HOSTS, concurrent=1, breaker=None)
    # All that are fetched at once may have to wait for a parser, and each feed may take all of its time.
    parsing = PARSE_SECONDS * (settings.concurrent_fetches / PROCESSES + 1)
    timeout = settings.fetch_seconds + parsing + SETTLE_SECONDS

    @articles.sources.handler(concurrency=settings.concurrent_fetches, timeout=timeout)
    async def sync_feed(lease: rm.Lease[FeedSource]) -> None:
        await FeedSync(articles, hosts, lease).run()

    @articles.mill.every(SCHEDULE, DUE_EVERY)
    async def make_feeds_due(tick: rm.schedules.Tick) -> None:
        await make_due(articles)


async def make_due(articles: "Articles") -> int:
    """Make idle feeds due whose time has come, the longest overdue first, and wake workers. Return how many."""

    def overdue(connection: sa.Connection) -> Sequence[uuid.UUID]:
        retire_gone(connection)
        return connection.scalars(overdue_feeds()).all()

    keys = await articles.mill.run(overdue)
    return await articles.sources.requeue(*keys, state="idle") if keys else 0


# served by: ix_sources_next_sync
def overdue_feeds() -> "sa.Select[uuid.UUID]":
    """Return the SELECT of the keys of idle feeds whose time has come."""
    idle = FeedSource.status == sa.literal_column("'idle'")
    wanted = sa.select(FeedSource.id).where(idle, FeedSource.next_sync_at <= sa.func.now())
    return wanted.order_by(FeedSource.next_sync_at).limit(DUE_AT_ONCE)


def _to_due(which: sa.ColumnElement[bool]) -> sa.Update:
    """Return an UPDATE to `due`, of idle rows alone: another process may have been faster."""
    return (
        sa.update(FeedSource)
        .where(which, FeedSource.status == "idle")
        .values(status="due", attempts=0, available_at=None, error=None, finished_at=None)
    )


class HostHeld(rm.RateLimited):
    """A host asks to be left alone. Raised in a limit's block, it keeps the whole fleet away from the host."""

    def __init__(self, code: str, status: int, retry_after: float) -> None:
        super().__init__(code=code, retry_after=retry_after)
        self.status = status


class FeedSync:
    """The sync of one feed: fetch, parse, then all that follows from it in one transaction."""

    def __init__(self, articles: "Articles", hosts: rm.limits.Limit, lease: rm.Lease[FeedSource]) -> None:
        self._articles, self._hosts, self._lease = articles, hosts, lease
        self._settings: ArticlesSettings = articles.settings
        self._limits = IntervalLimits.of(self._settings)
        self._source = lease.row
        self._began = monotonic()
        self._report = CURRENT_SYNC.get() or SyncReport()

    @property
    def now(self) -> datetime:
        """The time by the database's clock: that of the claim, and what has passed since."""
        return in_utc(self._lease.claimed_at) + timedelta(seconds=monotonic() - self._began)

    async def run(self) -> None:
        """Sync the feed, and settle its row. Raises Limited if its host is to be left alone."""
        source = self._source
        try:
            page = await self._articles.fetcher.fetch(
                source.url,
                etag=source.etag,
                last_modified=source.last_modified,
                validators_from=source.validators_url,
                permit=self._permit,
            )
            feed = None if page.not_modified else await self._articles.fetcher.parse(page, self.now)
        except HostHeld as error:
            await self._failed(error.code, True, error.status, error.retry_after)
        except FetchFailed as error:
            await self._failed(error.code, error.retryable, error.status, None)
        except (NotAFeed, ParsingFailed) as error:
            await self._failed(error.code, False, page.status, None)
        else:
            await self._succeeded(page, feed)
        self._report.fetched += 1

    @asynccontextmanager
    async def _permit(self, host: str) -> AsyncIterator[None]:
        async with self._hosts.call(key=host[:400], wait=PERMIT_SECONDS):
            try:
                yield
            except FetchFailed as error:
                if error.status not in ASKS_TO_WAIT or (error.status != 429 and error.retry_after is None):
                    raise
                wait = USUAL_WAIT if error.retry_after is None else min(error.retry_after, LONGEST_HOLD)
                raise HostHeld(error.code, error.status, wait) from None

    async def _succeeded(self, page: FetchedPage, feed: ParsedFeed | None) -> None:
        values: dict[str, Any] = {}  # read when the block ends
        async with self._lease.settling(rm.Done(values)) as tx:
            connection = await tx.connection()
            if feed is None:
                new = 0
                self._report.not_modified += 1
            else:
                saved = await connection.run_sync(save_feed, self._source, feed.entries)
                new = saved.new
            address = await connection.run_sync(moved_address, self._source, page)
            chosen = await connection.run_sync(chosen_by_people, self._source)
            values |= address | self._after_success(page, feed, new, chosen)
        if feed is not None:
            self._report.new += saved.new
            self._report.updated += saved.updated

    def _after_success(
        self, page: FetchedPage, feed: ParsedFeed | None, new: int, chosen: "ChosenByPeople"
    ) -> dict[str, Any]:
        """Return the columns of a feed that was fetched."""
        source, now, limits = self._source, self.now, self._limits
        last_new_at = now if new else source.last_new_at and in_utc(source.last_new_at)
        fresh = freshness(page.headers, now)
        if feed is None:
            wishes = FeedWishes(fresh_seconds=fresh)
            interval = unchanged(source.interval_seconds, last_new_at, now, limits)
            values: dict[str, Any] = {
                "etag": page.etag or source.etag,
                "last_modified": page.last_modified or source.last_modified,
                "last_code": source.last_code if not source.failures else None,
            }
        else:
            wishes = FeedWishes(feed.ttl_seconds, fresh, feed.skip_hours, feed.skip_days)
            published = [entry.published_at for entry in feed.entries if entry.published_at]
            interval = adapted(source.interval_seconds, published, new, now, limits)
            values = {
                "etag": storable_header(page.etag),
                "last_modified": storable_header(page.last_modified),
                "title": chosen.title or feed.title,
                "site_url": feed.site_url or source.site_url,
                "language": feed.language or source.language,
                # Not a failure, but somebody may want to know.
                "last_code": feed.warning or (TOO_MANY_ENTRIES if feed.dropped else None),
            }
        interval = limits.within(max(interval, wishes.ttl_seconds or 0.0, wishes.fresh_seconds or 0.0))
        return values | {
            "validators_url": page.url,
            "interval_seconds": round(interval),
            "next_sync_at": next_fetch(
                interval, wishes, now, limits, fixed=chosen.fixed_interval_seconds, chance=random.random()
            ),
            "last_sync_at": now,
            "last_success_at": now,
            "last_new_at": last_new_at,
            "last_status": page.status,
            "failures": 0,
        }

    async def _failed(self, code: str, retryable: bool, status: int | None, retry_after: float | None) -> None:
        """Settle a feed that could not be fetched or parsed: it is idle for longer, and its code is shown."""
        source, now = self._source, self.now
        failures = (source.failures or 0) + 1
        values: dict[str, Any] = {
            "last_code": code[:60],
            "last_status": status,
            "failures": failures,
            "last_sync_at": now,
            "moved_to": None,
        }
        async with self._lease.settling(rm.Done(values)) as tx:
            chosen = await (await tx.connection()).run_sync(chosen_by_people, source)
            next_sync_at = after_failure(
                failures,
                retry_after,
                now,
                self._limits,
                retryable=retryable,
                fixed=chosen.fixed_interval_seconds,
                chance=random.random(),
            )
            values["next_sync_at"] = None if status == GONE else next_sync_at
        self._report.failed[code] += 1
        log.info("feed %s failed: %s, %d in a row", source.id, code, failures)
        if status == GONE:
            await self._articles.mill.run(retire_gone)


def save_feed(connection: sa.Connection, source: FeedSource, entries: Sequence[FeedEntry]) -> Any:
    """Save entries, under the identities that they got first."""
    if source.last_success_at is not None:
        entries = with_known_identities(connection, source.id, entries)
    return save_entries(connection, source.id, entries)


@dataclass(frozen=True, slots=True)
class ChosenByPeople:
    """What people may change of a feed while it is fetched."""

    title: str
    fixed_interval_seconds: int | None


# served by: the primary key
def chosen_by_people(connection: sa.Connection, source: FeedSource) -> ChosenByPeople:
    """Return what people chose, and lock it: what was claimed may be half a minute old, and would undo their change."""
    wanted = sa.select(FeedSource.title, FeedSource.fixed_interval_seconds).where(FeedSource.id == source.id)
    # Without the lock of the key: rows of articles that are saved elsewhere refer to it.
    row = connection.execute(wanted.with_for_update(key_share=True)).first()
    if row is None:  # deleted: the end of the transaction says so
        return ChosenByPeople(source.title, source.fixed_interval_seconds)
    return ChosenByPeople(row.title, row.fixed_interval_seconds)


def moved_address(connection: sa.Connection, source: FeedSource, page: FetchedPage) -> dict[str, Any]:
    """Return the columns that a permanent redirect changes. The address changes when the same redirect came twice."""
    target = page.permanent_url
    if target is None or target == source.url or not is_storable_url(target):
        return {"moved_to": None}
    if source.moved_to != target:
        return {"moved_to": target}
    if connection.scalar(sa.select(FeedSource.id).where(FeedSource.url == target)) is not None:
        return {}  # another row has this address: it is fetched twice, and the second time it is a 304
    return {"url": target, "host": host_of(target), "moved_to": None}


def storable_header(value: str | None) -> str | None:
    """Return a validator as it came, or None if no database could give it back as it came."""
    return value if value and "\0" not in value and len(value) <= 2000 else None


async def sync_now(
    articles: "Articles", ids: Sequence[uuid.UUID] | None = None, *, progress: Progress | None = None
) -> SyncReport:
    """Make idle feeds due, all or these, and work until none is left. Cancelled, it gives back what it has begun.

    Paused and retired feeds stay as they are. A host that asked to be left alone is left alone, and its feeds are
    counted as `waiting`.
    """
    report, began = SyncReport(), monotonic()

    def begin(connection: sa.Connection) -> int:
        for some in [None] if ids is None else [ids[at : at + 500] for at in range(0, len(ids), 500)]:
            connection.execute(_to_due(sa.true() if some is None else FeedSource.id.in_(some)).where(_syncable()))
        return connection.scalar(sa.select(sa.func.count()).where(_at_work(ids))) or 0

    report.feeds = await articles.mill.run(begin)
    token = CURRENT_SYNC.set(report)
    try:
        draining = asyncio.create_task(_drain(articles, ids), name="sync feeds")
        try:
            while not draining.done():
                if progress is not None:
                    progress(report.feeds - await _left(articles, ids), report.feeds)
                await asyncio.wait([draining], timeout=LOOK_SECONDS)
            await draining
        finally:
            draining.cancel()
            await asyncio.wait([draining])  # a worker that is cancelled gives its rows back
    finally:
        CURRENT_SYNC.reset(token)
    report.waiting = await _left(articles, ids)
    report.seconds = monotonic() - began
    if progress is not None:
        progress(report.feeds - report.waiting, report.feeds)
    return report


async def _drain(articles: "Articles", ids: Sequence[uuid.UUID] | None) -> None:
    """Work until nothing can be claimed, and until others of the fleet have ended what they began.

    What is due then waits for its host, and stays.
    """
    while True:
        claimed = (await articles.mill.drain([articles.sources.name])).claimed
        if await _left(articles, ids, states=("fetching",)):
            await asyncio.sleep(LOOK_SECONDS)
        elif not claimed:
            return


async def _left(articles: "Articles", ids: Sequence[uuid.UUID] | None, states: Sequence[str] = STATES_AT_WORK) -> int:
    """Count the feeds that are due or being fetched."""
    count = sa.select(sa.func.count()).where(_at_work(ids, states))
    return await articles.mill.run(lambda connection: connection.scalar(count), write=False) or 0


def _at_work(ids: Sequence[uuid.UUID] | None, states: Sequence[str] = STATES_AT_WORK) -> sa.ColumnElement[bool]:
    working = FeedSource.status.in_(states)
    # A long list is not sent with every look: then the feeds of others count too.
    return working if ids is None or len(ids) > 500 else sa.and_(working, FeedSource.id.in_(ids))


def _syncable() -> sa.ColumnElement[bool]:
    """A feed that is gone stays so until somebody wakes it."""
    return sa.or_(
        FeedSource.next_sync_at.is_not(None), FeedSource.last_status.is_(None), FeedSource.last_status != GONE
    )
