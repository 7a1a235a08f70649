"""Logging in by the API and by the page."""

from pathlib import Path
from uuid import UUID

from rowmill_systems.knowledge.accounts.users import set_password
from systems.tests.knowledge.harness import scalars, sql
from systems.tests.knowledge.web.served import ADMINISTRATOR, API, PASSWORD, VIEWER, ServedKnowledge, served
from tests.support.html import read_page

PAGE = {"accept": "text/html", "origin": "http://testserver"}
WRONG = "wrong horse battery"


def form(**more: str) -> dict[str, str]:
    return {"user": "viewer@example.org", "password": PASSWORD} | more


async def test_a_program_logs_in_and_out(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path) as harness:
        await harness.login(VIEWER)
        given = {"email": "Viewer@example.org", "password": PASSWORD}
        made = await harness.json("POST", "/login", role=None, json=given)
        assert (made["token_type"], made["user"]["role"], made["user"]["is_superuser"]) == ("bearer", "viewer", False)
        headers = {"authorization": f"Bearer {made['token']}"}
        me = await harness.json("GET", "/me", role=None, headers=headers)
        assert (me["email"], me["logged_in_by"]) == ("viewer@example.org", "session")
        await harness.json("POST", "/logout", 204, role=None, headers=headers)
        await harness.json("GET", "/me", 401, role=None, headers=headers)


async def test_guessing_is_slowed_down_and_says_for_how_long(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        await harness.login(VIEWER)
        given = {"email": "viewer@example.org", "password": WRONG}
        codes = [(await harness.ask("POST", "/login", role=None, json=given)).status_code for _ in range(7)]
        assert codes == [401] * 6 + [429]
        await sql(harness.knowledge, "UPDATE login_failures SET blocked_until = '2999-01-01 00:00:00.000000'")
        blocked = await harness.ask("POST", "/login", role=None, json={**given, "password": PASSWORD})
        assert (blocked.status_code, blocked.json()["code"]) == (429, "too_many_logins")
        page = await harness.client.post("/login", data=form(), headers=PAGE)
        assert (page.status_code, page.headers["retry-after"].isdecimal()) == (429, True)
        assert blocked.headers["retry-after"].isdecimal()
        assert "Too many logins failed" in read_page(page.text).all("div", role="alert")[0].text
        await harness.json("GET", "/me", role=VIEWER)


async def test_a_browser_logs_in_by_the_page_and_comes_back_to_where_it_was(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path, secure_cookies=True, session_hours=2.0) as harness:
        await harness.login(VIEWER)
        asked = await harness.client.get("/search?q=a", headers=PAGE)
        assert (asked.status_code, asked.headers["location"]) == (303, "/login?next=%2Fsearch%3Fq%3Da")
        wrong = await harness.client.post("/login", data=form(password=WRONG, next="/search?q=a"), headers=PAGE)
        page = read_page(wrong.text)
        assert wrong.status_code == 401
        assert "set-cookie" not in wrong.headers
        assert page.all("input", name="next")[0].attributes["value"] == "/search?q=a"
        assert WRONG not in wrong.text
        answer = await harness.client.post("/login", data=form(next="/search?q=a"), headers=PAGE)
        assert (answer.status_code, answer.headers["location"]) == (303, "/search?q=a")
        cookie = answer.headers["set-cookie"].split("; ")
        assert cookie[0].startswith("__Host-knowledge_session=")
        assert {"HttpOnly", "Secure", "SameSite=lax", "Path=/", "Max-Age=7200"} <= set(cookie)
        evil = await harness.client.post("/login", data=form(next="//evil.example"), headers=PAGE)
        assert evil.headers["location"] == "/"


async def cookie_of(harness: ServedKnowledge, cookie: str = "") -> str:
    await harness.login(VIEWER)
    answer = await harness.client.post("/login", data=form(), headers={**PAGE, "cookie": cookie})
    assert answer.status_code == 303
    harness.client.cookies.clear()
    return str(answer.headers["set-cookie"].split(";")[0])


async def test_a_login_never_takes_over_a_session_that_was_there(sqlite_url: str, tmp_path: Path) -> None:
    """Session fixation: somebody may have planted the cookie."""
    async with served(sqlite_url, tmp_path) as harness:
        first = await cookie_of(harness)
        second = await cookie_of(harness, first)
        assert second != first
        gone = await harness.client.get(f"{API}/me", headers={"cookie": first})
        there = await harness.client.get(f"{API}/me", headers={"cookie": second})
        assert (gone.status_code, there.status_code) == (401, 200)
        planted = await cookie_of(harness, "knowledge_session=planted")
        assert "planted" not in planted
        assert await scalars(harness.knowledge, "SELECT count(*) FROM login_tokens WHERE token_hash = 'planted'") == [0]


async def test_the_cookie_changes_nothing_for_another_site(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        cookie = {"cookie": await cookie_of(harness)}
        for headers in ({}, {"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "same-site"}):
            for path in ("/logout", f"{API}/logout", f"{API}/me/tokens"):
                answer = await harness.client.post(path, headers={**cookie, **headers}, json={})
                assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin"), (path, headers)
        login = await harness.client.post("/login", data=form(), headers={"accept": "text/html"})
        assert login.status_code == 403, "nobody else logs a browser in"
        out = await harness.client.post("/logout", headers={**cookie, **PAGE})
        assert (out.status_code, out.headers["location"]) == (303, "/login")
        assert "Max-Age=0" in out.headers["set-cookie"]
        assert (await harness.client.get(f"{API}/me", headers=cookie)).status_code == 401


async def test_a_token_of_a_program_does_not_beget_others(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path) as harness:
        made = await harness.json("POST", "/me/tokens", 201, role=ADMINISTRATOR, json={"name": "ci", "days": 30})
        bearer = {"authorization": f"Bearer {made['token']}"}
        me = await harness.json("GET", "/me", role=None, headers=bearer)
        assert me["logged_in_by"] == "bearer"
        for verb, path, given in (
            ("POST", "/me/tokens", {"name": "more"}),
            ("PUT", "/me/password", {"current": PASSWORD, "new": "another horse battery"}),
            ("POST", "/admin/users", {"email": "me@example.org", "password": PASSWORD, "role": "administrator"}),
            ("PATCH", f"/admin/users/{me['id']}", {"is_active": False}),
            ("PUT", f"/admin/users/{me['id']}/password", {"password": PASSWORD}),
            ("DELETE", f"/admin/users/{me['id']}", None),
            ("POST", "/logout?everywhere=true", None),
        ):
            answer = await harness.ask(verb, path, role=None, headers=bearer, json=given)
            assert (answer.status_code, answer.json()["code"]) == (403, "login_needed")
        in_cookie = await harness.client.get(f"{API}/me", headers={"cookie": f"knowledge_session={made['token']}"})
        on_page = await harness.client.get("/", headers=bearer)
        assert (in_cookie.status_code, on_page.status_code) == (401, 401)
        assert (await harness.ask("GET", "/admin/outbox/stats", role=None, headers=bearer)).status_code == 200
        [listed] = (await harness.json("GET", "/me/tokens", role=ADMINISTRATOR))["tokens"]
        assert ("token" in listed, listed["name"], listed["last_used_at"] is None) == (False, "ci", False)
        await harness.json("DELETE", f"/me/tokens/{made['id']}", 204, role=ADMINISTRATOR)
        await harness.json("GET", "/me", 401, role=None, headers=bearer)


async def test_a_new_password_ends_the_other_logins(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        other = {"cookie": await cookie_of(harness)}
        wrong = await harness.ask("PUT", "/me/password", role=VIEWER, json={"current": WRONG, "new": WRONG})
        assert (wrong.status_code, wrong.json()["code"]) == (401, "wrong_login")
        given = {"current": PASSWORD, "new": "another horse battery"}
        await harness.json("PUT", "/me/password", 204, role=VIEWER, json=given)
        await harness.json("GET", "/me", role=VIEWER)
        assert (await harness.client.get(f"{API}/me", headers=other)).status_code == 401


async def test_a_session_that_ended_leads_to_the_login(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        cookie = {"cookie": await cookie_of(harness)}
        await sql(harness.knowledge, "UPDATE login_tokens SET expires_at = '2020-01-01 00:00:00.000000'")
        page = await harness.client.get("/consistency", headers={**cookie, **PAGE})
        assert (page.status_code, page.headers["location"]) == (303, "/login?next=%2Fconsistency")
        poll = await harness.client.get("/consistency", headers={**cookie, **PAGE, "hx-request": "true"})
        assert (poll.status_code, poll.headers["hx-redirect"]) == (401, "/login")


async def test_pages_show_who_is_logged_in(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        cookie = {"cookie": await cookie_of(harness)}
        page = await harness.client.get("/docs", headers={**cookie, **PAGE})
        assert page.status_code == 200
        assert "viewer@example.org" in page.text
        assert "Outbox" not in read_page(page.text).all("nav", class_="tabs")[0].text
        login = await harness.client.get("/login", headers=PAGE)
        assert not read_page(login.text).all("nav", class_="tabs")


async def test_an_administrator_closes_an_account_and_it_is_out_at_once(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        me = await harness.json("GET", "/me", role=VIEWER)
        await set_password(harness.knowledge, UUID(me["id"]), "another horse battery")
        await harness.json("GET", "/me", 401, role=VIEWER)
