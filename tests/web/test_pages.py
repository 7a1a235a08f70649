"""Pages over a real server: what every page has, wherever the application is mounted."""

import re

import httpx2
import pytest

from rowmill.web.mounting import mounted
from rowmill.web.site import NavLink
from tests.support.html import ReadPage, read_page
from tests.support.web import client_of
from tests.web.notes import browser_on, create_app

PAGES = ("/", "/notes", "/notes?q=o&state=open&sort=-size", "/notes/1", "/docs")
HOSTILE = """<script>alert(1)</script>"'><img src=x onerror=alert(1)>{{ 7 * 7 }}"""


async def page_at(client: httpx2.AsyncClient, path: str, code: int = 200, prefix: str = "") -> ReadPage:
    answer = await client.get(path, headers={"x-forwarded-prefix": prefix})
    assert answer.status_code == code, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    return read_page(answer.text)


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_is_well_formed_and_runs_and_loads_nothing_of_others(path: str) -> None:
    async with browser_on(create_app()) as client:
        page = await page_at(client, path)
        assert page.all("html", lang="en")
        assert len(page.all("h1")) == 1
        assert page.all("a", class_="skip", href="#main")
        for tag in (*page.all("script"), *page.all("link"), *page.all("img")):
            loaded = await client.get(tag.attributes.get("src") or tag.attributes["href"])
            assert loaded.status_code == 200
            assert "immutable" in loaded.headers["cache-control"]


async def test_every_page_of_the_navigation_answers_and_says_where_you_are() -> None:
    async with browser_on(create_app()) as client:
        page = await page_at(client, "/notes")
        [tabs] = page.all("nav", class_="tabs")
        assert tabs.text.split() == ["All", "API"]
        for path in ("/notes", "/docs"):
            [current] = (await page_at(client, path)).all("a", aria_current="page")
            assert current.attributes["href"] == path


@pytest.mark.parametrize(("path", "code"), [("/nothing", 404), ("/notes/99", 404), ("/notes/x", 422), ("/broken", 500)])
async def test_an_error_is_a_page_for_a_browser_and_json_for_a_program(path: str, code: int) -> None:
    async with browser_on(create_app()) as client:
        page = await page_at(client, path, code)
        assert len(page.all("p", role="alert")) == 1
        assert page.all("a", href="/notes")
        assert "Not Found" not in page.all("main")[0].text
        for accept in ("application/json", "*/*", "application/json, text/html"):
            answer = await client.get(path, headers={"accept": accept})
            assert (answer.status_code, set(answer.json())) == (code, {"code", "message"})
            assert "secret" not in answer.text


async def test_refusals_before_the_application_are_pages_too() -> None:
    async with browser_on(create_app()) as client:
        foreign = await client.post("/notes", json={"title": "x"}, headers={"origin": "https://evil.example"})
        assert foreign.status_code == 403
        assert read_page(foreign.text).all("p", role="alert")[0].text == "This was asked by another site"
        unknown = await client.get("/notes", headers={"host": "evil.example"})
        assert (unknown.status_code, unknown.headers["content-type"][:9]) == (400, "text/html")
        large = await client.post("/notes", content=b"x" * 100_000)
        assert large.status_code == 413


async def test_a_method_that_is_not_there_names_those_that_are() -> None:
    async with browser_on(create_app()) as client:
        answer = await client.delete("/notes")
        assert (answer.status_code, "allow" in answer.headers) == (405, True)
        read_page(answer.text)


@pytest.mark.parametrize("prefix", ["/tools", "/a/b.c/d_e/"])
async def test_links_lead_through_a_proxy_that_serves_it_under_a_prefix(prefix: str) -> None:
    async with browser_on(create_app()) as client:
        root = prefix.rstrip("/")
        for path, code in (*((path, 200) for path in PAGES), ("/nothing", 404), ("/broken", 500)):
            page = await page_at(client, path, code, prefix=prefix)
            links = [link for link in page.links() if link.startswith("/")]
            forms = [tag.attributes["action"] for tag in page.all("form")]
            loaded = [tag.attributes["src"] for tag in page.all("script")]
            assert links
            assert all(address.startswith(f"{root}/") for address in (*links, *forms, *loaded))


@pytest.mark.parametrize("prefix", ["//evil.example", "https://evil.example", "/a//b", 'x"', "/<b>", "/a b", "/a\\b"])
async def test_a_prefix_that_is_none_is_left_out(prefix: str) -> None:
    async with browser_on(create_app()) as client:
        page = await page_at(client, "/notes", prefix=prefix)
        assert "evil" not in "".join(page.links())
        assert page.all("a", href="/notes/5")


async def test_applications_are_mounted_side_by_side_with_links_between_them() -> None:
    first, second = create_app(), create_app(["of the second"])
    first.title = "First"
    first.state.site.title, second.state.site.title = "First", "Notes"
    async with browser_on(mounted({"/one": first, "/two": second}, title="Together")) as client:
        front = await page_at(client, "/")
        assert {"/one/", "/two/"} <= set(front.links())
        for prefix in ("", "/behind"):
            page = await page_at(client, "/two/notes", prefix=prefix)
            assert page.all("nav", class_="systems")[0].text.strip() == "First"
            assert {f"{prefix}/one/", f"{prefix}/two/notes", f"{prefix}/two/notes/1"} <= set(page.links())
        for path in ("/nothing", "/one/nothing"):
            await page_at(client, path, 404)
        docs = await page_at(client, "/two/docs")
        assert docs.all("a", href="/two/openapi.json")


async def test_mounted_applications_are_opened_and_closed() -> None:
    from contextlib import asynccontextmanager

    from fastapi import FastAPI

    seen = []

    @asynccontextmanager
    async def lifespan(app: FastAPI):  # type: ignore[no-untyped-def]
        seen.append("opened")
        yield
        seen.append("closed")

    async with client_of(mounted({"/a": FastAPI(title="A", lifespan=lifespan)})):
        assert seen == ["opened"]
    assert seen == ["opened", "closed"]


async def test_whatever_somebody_wrote_is_shown_as_text() -> None:
    async with browser_on(create_app([HOSTILE])) as client:
        for path in ("/notes", "/notes/1", f"/notes?q={HOSTILE}&after={HOSTILE}&sort={HOSTILE}&state={HOSTILE}"):
            answer = await client.get(path)
            read_page(answer.text)
            assert "<script>" not in answer.text
            assert "49" not in re.sub(r"v=\w+", "", answer.text)


async def test_the_api_is_described_without_a_script() -> None:
    async with browser_on(create_app()) as client:
        page = await page_at(client, "/docs")
        [operation, *_] = [tag for tag in page.all("details", class_="operation") if "POST" in tag.text]
        assert "Add a note." in operation.text
        assert "title" in operation.text
        assert (await client.get("/openapi.json")).json()["info"]["title"] == "Notes"


@pytest.mark.parametrize(
    ("link", "path", "current"),
    [
        (NavLink("A", "/"), "/", True),
        (NavLink("A", "/"), "/other", False),
        (NavLink("A", "/files"), "/files/7", True),
        (NavLink("A", "/files"), "/files-of-others", False),
        (NavLink("A", "/", within=["/files"]), "/files/7", True),
    ],
)
def test_a_page_belongs_to_the_link_that_it_is_under(link: NavLink, path: str, current: bool) -> None:
    assert link.is_current(path) is current
