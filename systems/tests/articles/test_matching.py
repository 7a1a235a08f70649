"""Entries are the articles that they were, whatever their server does with guids."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from rowmill_systems.articles.feeds.entries import FeedEntry
from rowmill_systems.articles.feeds.parsing import parse_feed
from rowmill_systems.articles.matching import with_known_identities
from rowmill_systems.articles.models import Content, FeedSource
from rowmill_systems.articles.saving import save_entries
from rowmill_systems.articles.sync import save_feed
from systems.tests.articles.syncing import FeedSystem, feed_system

HOME = "http://example.org/"


class GuidShelf:
    """A source, and syncs of it without HTTP."""

    def __init__(self, system: FeedSystem) -> None:
        self.system = system

    async def sync(self, *items: tuple[str, str, str, str]) -> list[tuple[str, str | None]]:
        """Sync a feed of these items (guid, link, title, text). Return titles and links of all articles."""
        markup = "".join(
            "<item>"
            + (f"<guid isPermaLink='false'>{guid}</guid>" if guid else "")
            + (f"<link>{link}</link>" if link else "")
            + f"<title>{title}</title><description>{text}</description></item>"
            for guid, link, title, text in items
        )
        body = f"<rss version='2.0'><channel><title>t</title>{markup}</channel></rss>".encode()

        def save(connection: sa.Connection) -> list[tuple[str, str | None]]:
            now = datetime.now(UTC)
            feed = parse_feed(body, url=HOME + "feed", content_type=None, max_entries=1000, now=now)
            source = FeedSource(id=connection.scalar(sa.select(FeedSource.id)), last_success_at=now)
            save_feed(connection, source, feed.entries)
            rows = connection.execute(sa.select(Content.title, Content.url).order_by(Content.title, Content.url))
            return [(row.title, row.url) for row in rows]

        return await self.system.mill.run(save)


@pytest.fixture
async def shelf(database_url: str) -> AsyncIterator[GuidShelf]:
    async with feed_system(database_url) as system:
        await system.add([HOME + "feed"])
        yield GuidShelf(system)


def link(name: str) -> str:
    return f"{HOME}{name}"


async def test_articles_with_one_title_and_one_link_are_all_kept(shelf: GuidShelf) -> None:
    for first in (0, 3, 6):
        found = await shelf.sync(*((f"u{n}", HOME, "Update", f"text {n}") for n in range(first, first + 3)))
    assert found == [("Update", HOME)] * 9

    # Also if the texts are the same, as long as the earlier one is still there.
    await shelf.sync(("u8", HOME, "Update", "text 8"), ("u9", HOME, "Update", "text 8"))
    assert len(await shelf.sync(("u8", HOME, "Update", "text 8"), ("u9", HOME, "Update", "text 8"))) == 10


@pytest.mark.parametrize("stable", [(), (("stable", link("s"), "S", "s"),)])
async def test_changing_guids_make_no_new_articles_of_one_entry_or_beside_a_stable_one(
    shelf: GuidShelf, stable: tuple[tuple[str, str, str, str], ...]
) -> None:
    for number in range(3):
        found = await shelf.sync((f"{number}", link("a"), "A", "a"), *stable)
    assert found == [("A", link("a")), *((each[2], each[1]) for each in stable)]

    without_link = await shelf.sync(("x1", "", "B", "b"), *stable)
    assert await shelf.sync(("x2", "", "B", "b"), *stable) == without_link


async def test_a_guid_that_goes_from_article_to_article_overwrites_none(shelf: GuidShelf) -> None:
    first, second, third = (("same", link(name), name.upper(), name) for name in ("s1", "s2", "s3"))
    both = [("S1", link("s1")), ("S2", link("s2"))]
    assert await shelf.sync(first, second) == both
    assert await shelf.sync(first) == both
    assert await shelf.sync(second) == both
    assert await shelf.sync(third) == [*both, ("S3", link("s3"))]
    fourth = ("same", link("s4"), "S4", "s4")
    every = [*both, ("S3", link("s3")), ("S4", link("s4"))]
    assert await shelf.sync(fourth) == every
    for again in ((third, fourth), (fourth,), (first,), (third,), (first, second, third, fourth)):
        assert await shelf.sync(*again) == every


async def test_an_article_with_a_stable_guid_is_updated_when_it_is_edited_or_moves(shelf: GuidShelf) -> None:
    other = ("b", link("b"), "B", "b")
    await shelf.sync(("a", link("a"), "A", "a"), other)
    assert await shelf.sync(("a", link("a"), "A", "edited"), other) == [("A", link("a")), ("B", link("b"))]
    assert await shelf.sync(("a", link("a"), "Edited", "more"), other) == [("B", link("b")), ("Edited", link("a"))]
    assert await shelf.sync(("a", link("new"), "Edited", "x"), other) == [("B", link("b")), ("Edited", link("new"))]


async def test_an_article_that_is_edited_while_its_guid_changes_is_a_new_one(shelf: GuidShelf) -> None:
    await shelf.sync(("1", link("a"), "A", "a"))
    assert await shelf.sync(("2", link("a"), "A", "edited")) == [("A", link("a"))] * 2


async def test_an_entry_that_falls_back_to_its_link_takes_it_from_no_other_entry(shelf: GuidShelf) -> None:
    await shelf.sync(("g", link("old"), "Old", "old"))
    found = await shelf.sync(("g", link("a"), "New", "new"), (link("a"), link("b"), "B", "b"))
    assert found == [("B", link("b")), ("New", link("a")), ("Old", link("old"))]


async def test_a_feed_of_many_entries_costs_a_fixed_number_of_statements(shelf: GuidShelf) -> None:
    def entries(name: str) -> Sequence[FeedEntry]:
        return [FeedEntry(f"{name}{n}", link(f"{n}"), f"T{n}", "", f"text {n}") for n in range(1000)]

    def match(connection: sa.Connection) -> tuple[int, set[str]]:
        source_id = connection.scalars(sa.select(FeedSource.id)).one()
        save_entries(connection, source_id, entries("a"))
        seen: list[str] = []

        def see(_connection: object, _cursor: object, text: str, *_: object) -> None:
            seen.append(text)

        sa.event.listen(connection, "before_cursor_execute", see)
        found = with_known_identities(connection, source_id, entries("b"))
        sa.event.remove(connection, "before_cursor_execute", see)
        return len(seen), {entry.identity for entry in found}

    statements, identities = await shelf.system.mill.run(match)
    assert statements == 4
    assert identities == {f"a{n}" for n in range(1000)}
