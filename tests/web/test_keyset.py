"""Lists are searched, sorted and paged, with the state of the list in the address."""

import re

import httpx2
import pytest
import sqlalchemy as sa

from rowmill.web.keyset import Keyset
from tests.support.html import read_page
from tests.web.notes import browser_on, create_app, notes

TITLES = ["b", "a", "c", "a", "100%", "under_score", "B"]


async def titles_from(client: httpx2.AsyncClient, path: str) -> list[str]:
    """The titles of all pages, from this one on."""
    found: list[str] = []
    for _ in range(10):
        page = read_page((await client.get(path)).raise_for_status().text)
        found += [tag.text for tag in page.all("a") if re.fullmatch(r"/notes/\d+", tag.attributes.get("href", ""))]
        following = page.all("a", rel="next")
        if not following:
            return found
        path = following[0].attributes["href"]
    raise AssertionError("the list does not end")


@pytest.mark.parametrize("sort", ["title", "-title", "size", "-size", "added", "-added", ""])
async def test_pages_have_every_row_once_in_the_order_asked_for(sort: str) -> None:
    async with browser_on(create_app(TITLES)) as client:
        found = await titles_from(client, f"/notes?sort={sort}")
    assert sorted(found) == sorted(TITLES)
    if sort == "title":
        assert found == sorted(TITLES)
    if sort in ("-added", ""):
        assert found == TITLES[::-1]


@pytest.mark.parametrize(
    ("text", "found"), [("a", ["a", "a"]), ("%", ["100%"]), ("_", ["under_score"]), ("b", ["b", "B"])]
)
async def test_a_search_takes_what_was_typed_as_it_is(text: str, found: list[str]) -> None:
    async with browser_on(create_app(TITLES)) as client:
        assert sorted(await titles_from(client, f"/notes?q={text.replace('%', '%25')}")) == sorted(found)


async def test_links_keep_the_search_and_sorting_begins_at_the_first_page() -> None:
    async with browser_on(create_app()) as client:
        page = read_page((await client.get("/notes?q=o&sort=title")).text)
        [following] = page.all("a", rel="next")
        assert re.fullmatch(r"/notes\?q=o&sort=title&after=[\w-]+", following.attributes["href"])
        second = read_page((await client.get(following.attributes["href"])).text)
        assert second.all("a", href="/notes?q=o&sort=title")[0].text == "First page"
        assert second.all("a", href="/notes?q=o&sort=-title")
        assert second.all("a", href="/notes?q=o&sort=size")
        assert second.all("input", name="q", value="o")


@pytest.mark.parametrize(
    "query", ["sort=secret", "after=x", "after=W10", "after=WyJ4Il0", "after=bnVsbA", "after=" + "W" * 3000]
)
async def test_a_page_that_is_none_of_the_list_is_not_found(query: str) -> None:
    async with browser_on(create_app()) as client:
        assert (await client.get(f"/notes?{query}")).status_code == 404


def test_an_order_needs_a_type_to_read_its_cursors_by() -> None:
    with pytest.raises(TypeError, match="type_="):
        Keyset({"title": sa.func.lower(notes.c.title)}, notes.c.id, default="title")


async def test_a_list_of_nothing_says_so() -> None:
    async with browser_on(create_app([])) as client:
        assert "No notes" in (await client.get("/notes")).text


def test_a_filter_looks_at_so_many_rows_and_the_next_page_goes_on_from_there() -> None:
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        notes.create(connection)
        connection.execute(notes.insert(), [{"title": "rare" if number == 6 else "usual"} for number in range(1, 9)])
        keyset = Keyset({"added": notes.c.id}, notes.c.id, default="added")
        found, after, read = [], "", 0
        while True:
            page = keyset.read(
                connection, sa.select(notes.c.title), filters=[notes.c.title == "rare"], after=after, looked_at=3
            )
            found.append([row["title"] for row in page.rows])
            read += 1
            if page.next is None:
                break
            after = page.next

    assert found == [[], ["rare"], []]
    assert read == 3


@pytest.mark.parametrize("sort", ["title", "-title"])
def test_a_list_within_one_value_of_a_column(sort: str) -> None:
    engine = sa.create_engine("sqlite://")
    table = sa.Table(
        "within", sa.MetaData(), sa.Column("id", sa.Integer, primary_key=True), sa.Column("shelf", sa.Text),
        sa.Column("title", sa.Text),
    )  # fmt: skip
    keyset = Keyset({"title": table.c.title}, table.c.id, default="title")
    rows = [{"id": n, "shelf": "ab"[n % 2], "title": TITLES[n % len(TITLES)]} for n in range(40)]
    with engine.begin() as connection:
        table.create(connection)
        connection.execute(table.insert(), rows)
        found, after = list[int](), ""
        for _ in range(40):
            page = keyset.read(
                connection, sa.select(table.c.id), within=(table.c.shelf, "b"), sort=sort, after=after, limit=3
            )
            found += [row["id"] for row in page.rows]
            if page.next is None:
                break
            after = page.next
    engine.dispose()
    wanted = sorted((row for row in rows if row["shelf"] == "b"), key=lambda row: (row["title"], row["id"]))
    assert found == [row["id"] for row in wanted][:: 1 if sort == "title" else -1]
