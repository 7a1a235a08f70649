"""Nobody gets in without a login, whatever an application adds later."""

import httpx2
import pytest
from fastapi import FastAPI, Request, WebSocket

import rowmill as rm
from rowmill.web.guard import Guard
from rowmill.web.login.cookies import SessionCookie
from rowmill.web.login.required import RequireLogin, caller_of
from rowmill.web.problems import answer_with_problems
from rowmill.web.site import Site
from tests.support.web import client_of

BEARER, COOKIE = {"authorization": "Bearer right"}, {"cookie": "notes=right"}


def create_app() -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None)
    app.state.asked = []

    async def find(request: Request, token: str, in_cookie: bool) -> str | None:
        if token == "down":
            raise rm.errors.DatabaseUnreachable("secret of the database")
        return f"ann by {'cookie' if in_cookie else 'token'}" if token == "right" else None

    @app.get("/notes")
    @app.post("/notes")
    async def notes(request: Request) -> str:
        app.state.asked.append(request.method)
        return str(caller_of(request))

    @app.post("/login")
    async def login(request: Request) -> int:
        return len(await request.body())

    @app.websocket("/live")
    async def live(socket: WebSocket) -> None:
        await socket.accept()

    app.add_middleware(
        RequireLogin, find=find, cookie=SessionCookie("notes"), open_paths=["/login", "/health", "/static"]
    )
    app.add_middleware(Guard, most=1_000_000)
    Site("Notes", "tests.web.package", login="/login").install(app)
    answer_with_problems(app, {})
    return app


@pytest.mark.parametrize("path", ["/notes", "/nothing", "/docs", "/openapi.json", "/loginx", "/static/../notes"])
@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"cookie": "notes=wrong"}])
async def test_only_what_is_open_is_for_anybody(path: str, headers: dict[str, str]) -> None:
    async with client_of(create_app()) as client:
        answer = await client.send(
            httpx2.Request("GET", client.base_url.copy_with(raw_path=path.encode()), headers=headers)
        )
        assert (answer.status_code, answer.json()["code"]) == (401, "no_login")
        assert answer.headers["www-authenticate"] == "Bearer"
        assert (await client.get("/static/rowmill/rowmill.css")).status_code == 200


async def test_a_program_comes_with_a_token_and_a_browser_with_a_cookie() -> None:
    async with client_of(create_app()) as client:
        assert (await client.get("/notes", headers=BEARER)).json() == "ann by token"
        assert (await client.get("/notes", headers=COOKIE)).json() == "ann by cookie"
        wrong = {**COOKIE, "authorization": "Bearer wrong"}
        assert (await client.get("/notes", headers=wrong)).status_code == 401, "the cookie does not count then"


async def test_a_change_with_a_cookie_has_to_say_that_a_page_of_ours_asks() -> None:
    app = create_app()
    async with client_of(app) as client:
        ours = f"http://127.0.0.1:{client.base_url.port}"
        for headers, status in (
            ({}, 403), ({"origin": "https://evil.example"}, 403), ({"sec-fetch-site": "same-site"}, 403),
            ({"origin": "null"}, 403), ({"origin": ours}, 200), ({"sec-fetch-site": "same-origin"}, 200),
        ):  # fmt: skip
            answer = await client.post("/notes", headers={**COOKIE, **headers})
            assert answer.status_code == status, headers
            assert status == 200 or answer.json()["code"] == "foreign_origin"
        assert (await client.post("/notes", headers=BEARER)).status_code == 200
        assert len(app.state.asked) == 3


async def test_nothing_is_read_of_a_request_without_a_login() -> None:
    """FastAPI reads a body before any dependency has run."""
    sent = []

    async def receive() -> dict[str, object]:
        pytest.fail("the body was asked for")

    async def send(message: dict[str, object]) -> None:
        sent.append(message.get("status"))

    scope = {"type": "http", "method": "POST", "path": "/notes", "headers": [], "query_string": b"", "root_path": ""}
    await create_app()(scope, receive, send)  # type: ignore[arg-type]
    assert sent == [401, None]


async def test_anybody_may_send_little() -> None:
    async with client_of(create_app()) as client:
        assert (await client.post("/login", content=b"x" * 60_000)).json() == 60_000
        large = await client.post("/login", content=b"x" * 70_000)
        assert (large.status_code, large.json()["code"]) == (413, "too_large")


async def test_without_the_database_nobody_is_let_in_and_it_says_why() -> None:
    async with client_of(create_app()) as client:
        answer = await client.get("/notes", headers={"authorization": "Bearer down"})
        assert (answer.status_code, answer.json()["code"]) == (503, "database")
        assert "secret" not in answer.text


async def test_a_browser_is_led_to_the_login() -> None:
    async with client_of(create_app()) as client:
        answer = await client.get("/notes", headers={"accept": "text/html"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fnotes")


async def test_a_websocket_is_closed() -> None:
    sent = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message["type"])

    async def receive() -> dict[str, object]:
        return {"type": "websocket.connect"}

    scope = {"type": "websocket", "path": "/live", "headers": [], "query_string": b"", "root_path": ""}
    await create_app()(scope, receive, send)  # type: ignore[arg-type]
    assert sent == ["websocket.close"]
