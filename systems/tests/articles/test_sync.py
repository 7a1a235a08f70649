"""Feeds are synced as rows of a queue: one at a time per host, each in one transaction, none stops the others."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

import rowmill as rm
from demos.articles.feed_server import FeedServer, MadeFeed, many_feeds, odd_feeds, serving
from rowmill_systems.articles import sync
from rowmill_systems.articles.feeds.entries import FeedEntry
from rowmill_systems.articles.models import Content, FeedSource
from rowmill_systems.articles.saving import SavedEntries, save_entries
from rowmill_systems.articles.sync import make_due, sync_now
from rowmill_systems.parts.database import in_utc
from rowmill_systems.parts.fetching import FetchedPage, FetchFailed, host_of
from systems.tests.articles.syncing import FeedSystem, feed_system


@pytest.fixture
async def system(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FeedSystem]:
    async with feed_system(database_url) as system:
        yield system


async def contents(system: FeedSystem) -> int:
    return await system.mill.run(lambda connection: connection.scalar(sa.select(sa.func.count(Content.id)))) or 0


async def test_feeds_of_all_kinds_are_saved_and_a_304_changes_nothing(system: FeedSystem) -> None:
    """A1: RSS, Atom, RDF and JSON Feed, with conditional requests."""
    async with serving(many_feeds(20, 5, entries=4)) as server:
        await system.add(server.urls)
        first = await sync_now(system)
        assert (first.feeds, first.fetched, first.new, first.waiting, first.failed) == (20, 20, 80, 0, {})
        rows = await system.rows()
        assert {row.status for row in rows} == {"idle"}
        assert all(row.etag.startswith('W/"') for row in rows)
        assert all(row.title.startswith("Feed /feeds/") for row in rows)
        assert server.counts.most_per_host == 1

        again = await sync_now(system)
        assert (again.fetched, again.not_modified, again.new) == (20, 20, 0)
        assert await contents(system) == 80

        server.publish("/feeds/3", 2)
        assert (await sync_now(system)).new == 2


async def test_no_feed_stops_the_others_and_each_failure_has_its_code(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A1."""
    odd = [feed for feed in odd_feeds(5) if feed.behaviour not in ("drip", "hang", "many")]
    async with (
        feed_system(database_url, fetch_seconds=60.0, max_feed_bytes=2_000_000, max_entries=10) as system,
        serving([*many_feeds(5, 5, entries=2), *odd]) as server,
    ):
        await system.add([url for url in server.urls if "/target" not in url])
        report = await sync_now(system)
        found = {row.url.partition("/odd/")[2]: row for row in await system.rows() if "/odd/" in row.url}
        codes = {name: row.last_code for name, row in found.items()}

    assert codes == {
        "moved": "too_many_entries", "elsewhere": "too_many_entries", "gone": "http_410", "limited": "http_429",
        "busy": "http_503", "error": "http_500", "missing": "http_404", "cut": "bad_response", "gzip_bomb": "too_large",
        "entity_bomb": "broken_xml", "html": "not_a_feed", "huge": "too_large", "broken_xml": "broken_xml",
        "wild_dates": "too_many_entries", "loop": "too_many_redirects", "empty": "not_a_feed",
        "garbage": "bad_response", "not_gzip": "bad_encoding", "no_guid": "too_many_entries",
        "changing_guid": "too_many_entries",
    }  # fmt: skip
    assert found["gone"].status == "retired"
    assert {row.status for name, row in found.items() if name != "gone"} == {"idle"}
    assert {name for name, row in found.items() if row.failures} == {
        "gone", "limited", "busy", "error", "missing", "cut", "gzip_bomb", "html", "huge", "loop", "empty",
        "garbage", "not_gzip",
    }  # fmt: skip
    assert report.waiting == 0
    assert sum(report.failed.values()) == 13
    assert server.counts.most_per_host == 1
    assert server.counts.out_of_turn == 0


async def test_a_server_that_drips_is_ended_and_the_others_go_on(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A1."""
    feeds = [MadeFeed("/drip", behaviour="drip"), MadeFeed("/hang", host=1, behaviour="hang")]
    async with (
        feed_system(database_url, fetch_seconds=0.5) as system,
        serving([*feeds, MadeFeed("/gone", host=2, behaviour="gone")]) as server,
    ):
        await system.add(server.urls)
        report = await sync_now(system)

    assert report.failed == {"timed_out": 2, "http_410": 1}
    assert server.counts.dripped


async def test_a_feed_that_is_gone_is_not_asked_again(system: FeedSystem) -> None:
    async with serving([MadeFeed("/a", behaviour="gone")]) as server:
        await system.add(server.urls)
        await sync_now(system)
        await sync_now(system)
        assert await make_due(system) == 0

        assert server.counts.requests["/a"] == 1
    [row] = await system.rows()
    assert (row.status, row.next_sync_at, row.last_status) == ("retired", None, 410)


async def test_a_process_that_dies_before_it_retires_a_feed_leaves_it_to_the_next_tick(system: FeedSystem) -> None:
    await system.add(["http://example.org/"])
    await system.change(status="idle", next_sync_at=None, last_status=410)
    await make_due(system)

    assert [row.status for row in await system.rows()] == ["retired"]


async def test_a_permanent_redirect_changes_the_address_after_it_held_twice(system: FeedSystem) -> None:
    async with serving([MadeFeed("/old", behaviour="moved"), MadeFeed("/new", host=1, entries=2)]) as server:
        server.feeds["/old"].to = server.url("/new")
        await system.add([server.url("/old")])
        await sync_now(system)
        once = await system.source(server.url("/old"))
        assert once.moved_to == server.url("/new")

        await sync_now(system)
        twice = await system.source(server.url("/new"))
        assert (twice.host, twice.moved_to) == (host_of(server.url("/new")), None)

        await sync_now(system)
        assert server.counts.requests["/old"] == 2
        assert await contents(system) == 2


async def test_a_redirect_that_does_not_hold_changes_nothing(system: FeedSystem) -> None:
    async with serving([MadeFeed("/old"), MadeFeed("/new", host=1)]) as server:
        old = server.feeds["/old"]
        old.to = server.url("/new")
        await system.add([server.url("/old")])
        for behaviour in ("moved", "", "moved", "error", "moved", "elsewhere"):
            old.behaviour = behaviour
            await sync_now(system)

        assert [row.url for row in await system.rows()] == [server.url("/old")]


async def test_a_redirect_to_an_address_that_no_index_takes_is_not_remembered(system: FeedSystem) -> None:
    async with serving([MadeFeed("/old", behaviour="moved"), MadeFeed("/new", entries=2)]) as server:
        server.feeds["/old"].to = f"/new?{'0123456789abcdef' * 300}"
        await system.add([server.url("/old")])
        for _ in range(3):
            report = await sync_now(system)

        assert (report.fetched, report.failed, report.waiting) == (1, {}, 0)
        [row] = await system.rows()
        assert (row.url, row.moved_to, row.status) == (server.url("/old"), None, "idle")
        assert await contents(system) == 2


async def test_a_permanent_redirect_keeps_the_credentials_of_a_feed(system: FeedSystem) -> None:
    async with serving([MadeFeed("/old", behaviour="moved", to="/new"), MadeFeed("/new", entries=2)]) as server:
        await system.add([server.url("/old").replace("//", "//user:pass@")])
        for _ in range(3):
            await sync_now(system)

        assert [row.url for row in await system.rows()] == [server.url("/new").replace("//", "//user:pass@")]
        assert "authorization" in server.seen[-1].headers


async def test_validators_of_another_host_are_not_sent_to_this_one(system: FeedSystem) -> None:
    async with serving([MadeFeed("/a", behaviour="elsewhere"), MadeFeed("/b", host=1, entries=2)]) as server:
        server.feeds["/a"].to = server.url("/b")
        await system.add([server.url("/a")])
        await sync_now(system)
        assert (await sync_now(system)).not_modified == 1
        assert server.counts.statuses["/b", 304] == 1
        assert all("if-none-match" not in each.headers for each in server.seen if each.path == "/a")


@pytest.mark.parametrize("fails", [False, True])
async def test_what_a_person_changes_while_a_feed_is_fetched_stays(
    system: FeedSystem, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    fetch = system.fetcher.fetch

    async def fetched(*given: Any, **more: Any) -> FetchedPage:
        page = await fetch(*given, **more)
        await system.change(title="Mine", fixed_interval_seconds=7000)
        if fails:
            raise FetchFailed("timed_out")
        return page

    monkeypatch.setattr(system.fetcher, "fetch", fetched)
    async with serving([MadeFeed("/a", entries=1)]) as server:
        await system.add(server.urls)
        await sync_now(system)

    [row] = await system.rows()
    assert (row.title, row.fixed_interval_seconds) == ("Mine", 7000)
    assert (row.next_sync_at - row.last_sync_at).total_seconds() == pytest.approx(7000, rel=0.5)
    assert row.last_code == ("timed_out" if fails else None)


async def test_a_redirect_to_a_feed_that_is_there_keeps_both(system: FeedSystem) -> None:
    async with serving([MadeFeed("/old", behaviour="moved", to="/new"), MadeFeed("/new")]) as server:
        await system.add(server.urls)
        for _ in range(3):
            report = await sync_now(system)

        assert not report.failed
        assert {row.url for row in await system.rows()} == set(server.urls)


async def test_retry_after_holds_for_the_whole_host(system: FeedSystem) -> None:
    """A1."""
    feeds = [MadeFeed(f"/{number}", entries=1) for number in range(6)]
    feeds[0].behaviour, feeds[0].retry_after = "limited", 3600.0
    async with serving([*feeds, MadeFeed("/other", host=1, entries=1)]) as server:
        # The limited one first, alone; then the others of its host are due.
        await system.add([server.url("/0")])
        await sync_now(system)
        await system.add(server.urls)
        report = await sync_now(system)

        assert server.counts.out_of_turn == 0
        assert (server.counts.requests.total(), server.counts.requests["/other"]) == (2, 1)
        limited, other = await system.source(server.url("/0")), await system.source(server.url("/other"))
        assert (limited.last_code, limited.failures, other.last_code) == ("http_429", 1, None)
        assert in_utc(limited.next_sync_at) - in_utc(limited.last_sync_at) >= timedelta(seconds=3599)
        assert report.waiting >= 5
        waiting = [row for row in await system.rows() if row.status == "due"]
        assert {row.attempts for row in waiting} == {0}

        # A person may end it.
        await system.mill.limits[sync.HOSTS].on(host_of(server.url("/0")))
        feeds[0].behaviour = ""
        await system.change(available_at=None)
        await sync_now(system)
        assert {row.status for row in await system.rows()} == {"idle"}


async def test_two_processes_fetch_one_at_a_time_per_host(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    feeds = many_feeds(24, 3, entries=1)
    for feed in feeds:
        feed.latency = 0.01
    async with (
        feed_system(database_url) as one, feed_system(database_url) as other, serving(feeds) as server,
    ):  # fmt: skip
        await one.add(server.urls)
        reports = await asyncio.gather(sync_now(one), sync_now(other))

        assert sum(report.fetched for report in reports) >= 24
        assert server.counts.most_per_host == 1
        assert {row.status for row in await one.rows()} == {"idle"}


async def test_hosts_that_others_redirect_to_are_asked_one_at_a_time_too(system: FeedSystem) -> None:
    hub = [MadeFeed(f"/hub/{number}", entries=1, latency=0.02) for number in range(5)]
    own = [MadeFeed(f"/own/{number}", host=number + 1, behaviour="elsewhere") for number in range(5)]
    async with serving([*hub, *own]) as server:
        for number, feed in enumerate(own):
            feed.to = server.url(f"/hub/{number}")
        await system.add([server.url(feed.path) for feed in own])
        await sync_now(system)

        assert server.counts.most_open[0] == 1
        assert sum(server.counts.requests[feed.path] for feed in hub) == 5


async def test_all_of_a_feed_is_written_or_nothing(system: FeedSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """A1: in one transaction per feed."""

    def saves_half(connection: sa.Connection, source_id: uuid.UUID, entries: Sequence[FeedEntry]) -> SavedEntries:
        save_entries(connection, source_id, entries[:2])
        raise rm.PermanentError("no room")

    monkeypatch.setattr(sync, "save_entries", saves_half)
    async with serving([MadeFeed("/a", entries=4)]) as server:
        await system.add(server.urls)
        await system.mill.drain(["sources"])

    [row] = await system.rows()
    assert await contents(system) == 0
    assert (row.status, row.etag, row.last_success_at) == ("failed", None, None)


async def test_a_worker_that_lost_its_lease_writes_nothing(system: FeedSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it fetches, somebody else takes the row."""
    fetch = system.fetcher.fetch

    async def slow_fetch(url, **given):  # type: ignore[no-untyped-def]
        page = await fetch(url, **given)
        await system.change(lease=1)
        return page

    monkeypatch.setattr(system.fetcher, "fetch", slow_fetch)
    async with serving([MadeFeed("/a", entries=4)]) as server:
        await system.add(server.urls)
        report = await system.mill.drain(["sources"])

    [row] = await system.rows()
    assert report.lost == 1
    assert (await contents(system), row.etag, row.lease) == (0, None, 1)


async def test_a_page_in_place_of_a_feed_leaves_no_validator_behind(system: FeedSystem) -> None:
    """A 304 would hide at the next sync that it is no feed."""
    async with serving([MadeFeed("/a", behaviour="html")]) as server:
        await system.add(server.urls)
        await sync_now(system)
        await sync_now(system)

    [row] = await system.rows()
    assert (row.last_code, row.etag, row.failures) == ("not_a_feed", None, 2)


async def test_a_changing_guid_does_not_save_articles_again(system: FeedSystem) -> None:
    feeds = [each for each in odd_feeds(0) if each.path in ("/odd/changing_guid", "/odd/no_guid")]
    async with serving(feeds) as server:
        await system.add(server.urls)
        for _ in range(3):
            await sync_now(system)
        assert server.counts.requests["/odd/changing_guid"] == 3
        assert await contents(system) == 40

        server.publish("/odd/changing_guid", 3)
        assert (await sync_now(system)).new == 3


async def test_feeds_become_due_when_their_time_has_come(system: FeedSystem) -> None:
    """A1."""
    async with serving([MadeFeed("/a", entries=1)]) as server:
        await system.add(server.urls)
        await system.mill.drain(["sources"])
        assert await make_due(system) == 0

        await system.change(next_sync_at=sa.func.now(), attempts=2, error="old")
        assert await make_due(system) == 1
        [row] = await system.rows()
        assert (row.status, row.attempts, row.error) == ("due", 0, None)
        await system.mill.drain(["sources"])
        assert server.counts.requests["/a"] == 2


async def test_paused_and_retired_feeds_stay_as_they_are(system: FeedSystem) -> None:
    await system.add(["http://example.org/a"])
    for status in ("paused", "retired", "failed"):
        await system.change(status=status, next_sync_at=sa.func.now())
        assert await make_due(system) == 0
        assert (await sync_now(system)).feeds == 0
        assert [row.status for row in await system.rows()] == [status]


async def test_only_the_feeds_that_were_asked_for_are_synced(system: FeedSystem) -> None:
    async with serving(many_feeds(3, 3, entries=1)) as server:
        await system.add(server.urls)
        await sync_now(system)
        seen: list[tuple[int, int]] = []
        chosen = (await system.source(server.url("/feeds/1"))).id
        report = await sync_now(system, [chosen], progress=lambda done, of: seen.append((done, of)))

        assert (report.feeds, report.fetched, seen[-1]) == (1, 1, (1, 1))
        assert server.counts.requests["/feeds/1"] == 2
        assert server.counts.requests.total() == 4


async def test_a_sync_that_is_cancelled_gives_its_feeds_back(system: FeedSystem) -> None:
    async with serving([MadeFeed("/a", behaviour="hang")]) as server:
        await system.add(server.urls)
        task = asyncio.create_task(sync_now(system))
        while not server.counts.requests["/a"]:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        [row] = await system.rows()
        assert (row.status, row.attempts, row.lease) == ("due", 0, None)


async def test_failures_wait_longer_from_time_to_time_and_a_success_ends_them(system: FeedSystem) -> None:
    """A1."""
    async with serving([MadeFeed("/a", behaviour="error", entries=1)]) as server:
        await system.add(server.urls)
        waits = []
        for _ in range(3):
            await sync_now(system)
            [row] = await system.rows()
            waits.append((row.next_sync_at - row.last_sync_at).total_seconds())
        assert row.failures == 3
        assert waits[0] < waits[1] < waits[2]
        assert row.last_success_at is None

        server.feeds["/a"].behaviour = ""
        await sync_now(system)
        [row] = await system.rows()
        assert (row.failures, row.last_code, row.last_status) == (0, None, 200)
        assert row.last_success_at is not None


async def test_a_fixed_interval_holds(system: FeedSystem) -> None:
    async with serving([MadeFeed("/a", entries=1)]) as server:
        await system.add(server.urls)
        await system.change(fixed_interval_seconds=77)
        await sync_now(system)

    [row] = await system.rows()
    assert (row.next_sync_at - row.last_sync_at).total_seconds() == pytest.approx(77, abs=1)


async def test_a_schedule_is_declared(system: FeedSystem) -> None:
    assert sync.SCHEDULE in system.mill.schedules
    assert FeedSource.__tablename__ in {queue.table.name for queue in system.mill.queues.values()}


async def test_the_server_counts_what_was_out_of_turn() -> None:
    """Otherwise the tests above would prove nothing."""
    from rowmill_systems.parts.fetching import Fetcher, FetchFailed

    async with (
        serving([MadeFeed("/a", behaviour="limited", retry_after=60, latency=0.01)]) as server,
        Fetcher("tests", allow_private=True) as fetcher,
    ):
        for _ in range(2):
            with pytest.raises(FetchFailed):
                await fetcher.get(server.url("/a"))
        await asyncio.gather(*(fetcher.get(server.url("/a")) for _ in range(3)), return_exceptions=True)

        assert server.counts.out_of_turn == 4
        assert server.counts.most_per_host == 3
        assert isinstance(server, FeedServer)
