"""The pieces of a login over a real server: cookie, origin, the page, and the way back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import httpx2
import pytest
from fastapi import FastAPI, Form, HTTPException, Request, Response
from starlette.datastructures import Headers

from rowmill.web.guard import LOOPBACK, Guard, KnownHosts
from rowmill.web.login.cookies import SessionCookie, names_own_origin
from rowmill.web.login.roles import RankedRole
from rowmill.web.login.tokens import bearer_token, hash_token, new_token
from rowmill.web.problems import answer_with_problems
from rowmill.web.site import NavLink, SignedIn, Site, local_path, see_other
from tests.support.html import read_page
from tests.support.web import client_of
from tests.web.notes import BROWSER


class NoteRole(RankedRole):
    READER = "reader"
    WRITER = "writer"


def create_app(*, secure: bool = False) -> FastAPI:
    """An application that lets in whoever knows the password `sesame`."""
    links = [NavLink("Notes", "/notes", needs=NoteRole.READER), NavLink("Users", "/users", needs=NoteRole.WRITER)]
    site = Site("Notes", "tests.web.package", pages=links, login="/login")
    cookie, sessions = SessionCookie("notes", secure=secure), dict[str, str]()
    app = FastAPI(docs_url=None, redoc_url=None)

    @app.get("/login")
    async def ask(request: Request, next: str = "/") -> Response:
        return site.page("rowmill/login.html", request, next=next, user="")

    @app.post("/login")
    async def log_in(request: Request, user: Annotated[str, Form()], password: Annotated[str, Form()]) -> Response:
        form = await request.form()
        following = str(form.get("next", "/"))
        if password != "sesame":
            values = {"problem": "That is wrong.", "next": following, "user": user}
            return site.page("rowmill/login.html", request, code=401, **values)
        token = new_token()
        sessions[hash_token(token)] = user
        answer = see_other(request, local_path(following))
        cookie.write(request, answer, token, 3600)
        return answer

    @app.post("/logout")
    async def log_out(request: Request) -> Response:
        answer = see_other(request, "/login")
        cookie.clear(request, answer)
        return answer

    @app.get("/")
    @app.get("/notes")
    async def show(request: Request) -> Response:
        user = sessions.get(hash_token(cookie.read(request) or bearer_token(request.headers) or ""))
        if user is None:
            raise HTTPException(401, {"code": "no_login", "message": "log in first"}, {"www-authenticate": "Bearer"})
        SignedIn(user, NoteRole.READER, page="/me").shown_on(request)
        return site.page("rowmill/problem.html", request, title="Notes", message="Yours")

    app.add_middleware(Guard, most=1000)
    app.add_middleware(KnownHosts, names=LOOPBACK)
    site.install(app)
    answer_with_problems(app, {})
    return app


@asynccontextmanager
async def browser(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_of(app) as client:
        client.headers.update(BROWSER)
        yield client


def form(**more: str) -> dict[str, str]:
    return {"user": "ann", "password": "sesame"} | more


@pytest.mark.parametrize("prefix", ["", "/tools"])
async def test_a_browser_is_sent_to_the_login_and_back_to_the_page_that_it_wanted(prefix: str) -> None:
    async with browser(create_app()) as client:
        client.headers["x-forwarded-prefix"] = prefix
        asked = await client.get("/notes?q=a&sort=-b")
        assert (asked.status_code, asked.headers["location"]) == (
            303,
            f"{prefix}/login?next=%2Fnotes%3Fq%3Da%26sort%3D-b",
        )
        page = read_page((await client.get(asked.headers["location"].removeprefix(prefix))).text)
        [hidden] = page.all("input", name="next")
        assert hidden.attributes["value"] == "/notes?q=a&sort=-b"
        assert not page.all("nav", class_="tabs"), "there is nothing to see without a login"
        answer = await client.post("/login", data=form(next=hidden.attributes["value"]))
        assert (answer.status_code, answer.headers["location"]) == (303, f"{prefix}/notes?q=a&sort=-b")
        assert f"Path={prefix or '/'};" in answer.headers["set-cookie"]


async def test_a_program_is_told_and_not_sent_anywhere() -> None:
    async with client_of(create_app()) as client:
        answer = await client.get("/notes")
        assert (answer.status_code, answer.json()["code"]) == (401, "no_login")
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_live_part_has_the_whole_page_go_to_the_login() -> None:
    async with browser(create_app()) as client:
        answer = await client.get("/notes", headers={"hx-request": "true"})
        assert (answer.status_code, answer.headers["hx-redirect"]) == (401, "/login")


async def test_pages_show_who_is_logged_in_and_only_what_they_may_see() -> None:
    async with browser(create_app()) as client:
        client.cookies.update((await client.post("/login", data=form(user="ann<b>"))).cookies)
        page = read_page((await client.get("/notes")).text)
        assert page.all("a", href="/me")[0].text == "ann<b>"
        assert [tag.attributes["action"] for tag in page.all("form", class_="signed-in")] == ["/logout"]
        assert page.all("nav", class_="tabs")[0].text.split() == ["Notes"]
        gone = (await client.post("/logout")).headers["set-cookie"]
        assert "Max-Age=0" in gone
        assert gone.startswith('notes="";')


async def test_a_wrong_password_keeps_what_was_written_but_the_password() -> None:
    async with browser(create_app()) as client:
        answer = await client.post("/login", data=form(password="guess", next='/a"><b>'))
        page = read_page(answer.text)
        assert answer.status_code == 401
        assert page.all("div", role="alert")[0].text == "That is wrong."
        assert page.all("input", name="user")[0].attributes["value"] == "ann"
        assert page.all("input", name="next")[0].attributes["value"] == '/a"><b>'
        assert "guess" not in answer.text
        fields = {tag.attributes["name"]: tag.attributes["autocomplete"] for tag in page.all("input", required="")}
        assert fields == {"user": "username", "password": "current-password"}


@pytest.mark.parametrize(
    ("secure", "prefix", "start"),
    [(False, "", "notes="), (True, "", "__Host-notes="), (True, "/tools", "__Secure-notes=")],
)
async def test_scripts_and_other_sites_get_nothing_of_the_cookie(secure: bool, prefix: str, start: str) -> None:
    async with browser(create_app(secure=secure)) as client:
        client.headers["x-forwarded-prefix"] = prefix
        found = (await client.post("/login", data=form())).headers["set-cookie"]
        assert found.startswith(start)
        assert {"HttpOnly", "SameSite=lax", "Max-Age=3600"} <= set(found.split("; "))
        assert ("Secure" in found.split("; ")) is secure
        assert "Domain" not in found
        again = await client.get("/notes", headers={"cookie": found.split(";")[0]})
        assert again.status_code == 200


@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"sec-fetch-site": "same-site"}])
async def test_no_other_site_logs_a_browser_in(headers: dict[str, str]) -> None:
    async with browser(create_app()) as client:
        assert (await client.post("/login", data=form(), headers=headers)).status_code == 403


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://a.example:8001"}, False),
        ({"origin": "http://a.example"}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-origin", "origin": "http://b.example"}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "http://a.example"}, False),
    ],
)
def test_a_change_with_a_cookie_says_who_asks(headers: dict[str, str], own: bool) -> None:
    assert names_own_origin(Headers({"host": "a.example", **headers})) is own


@pytest.mark.parametrize("path", ["/", "/notes?q=ä", "/a//b", "/a:b@c"])
def test_the_way_back_is_a_page_of_ours(path: str) -> None:
    assert local_path(path, "/else") == path


@pytest.mark.parametrize(
    "path",
    ["", "notes", "//evil.example", "https://evil.example", "/\\evil.example", "/\t/evil.example", "/\r\nset-cookie: a",
     "javascript:alert(1)", "\\/evil.example", " //evil.example", "/\N{RIGHT-TO-LEFT OVERRIDE}a"],
)  # fmt: skip
def test_the_way_back_leads_nowhere_else(path: str) -> None:
    assert local_path(path, "/else") == "/else"


def test_tokens_are_random_and_only_their_hash_is_kept() -> None:
    tokens = {new_token("nts_") for _ in range(100)}
    assert len(tokens) == 100
    assert all(token.startswith("nts_") and len(token) == 47 for token in tokens)
    token = tokens.pop()
    assert hash_token(token) != token
    assert (len(hash_token(token)), hash_token(token)) == (64, hash_token(token))
    assert hash_token("\ud800")


@pytest.mark.parametrize(
    ("value", "token"),
    [("Bearer abc", "abc"), ("bearer  abc ", "abc"), ("Basic abc", None), ("Bearer", None), ("", None)],
)
def test_a_program_sends_its_token_in_a_header(value: str, token: str | None) -> None:
    assert bearer_token(Headers({"authorization": value})) == token


def test_a_role_has_the_rights_of_those_before_it() -> None:
    assert NoteRole.WRITER.may(NoteRole.READER)
    assert NoteRole.WRITER.may(NoteRole.WRITER)
    assert not NoteRole.READER.may(NoteRole.WRITER)
