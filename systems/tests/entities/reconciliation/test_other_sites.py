"""Who may ask, and what a page of another site can do: ask here, and nothing anywhere else."""

import asyncio
import json

import pytest

from rowmill_systems.entities.reconciliation.router import PREFIX, router
from systems.tests.entities.reconciliation.sample_kb import HOSTILE
from systems.tests.entities.reconciliation.served import served

FOREIGN = {"origin": "https://testbench.example", "sec-fetch-site": "cross-site"}
QUERIES = json.dumps({"q0": {"query": "Ada Lovelace"}})


async def test_pages_of_any_site_may_ask() -> None:
    async with served() as harness:
        client = harness.client
        for answer in (
            await client.get(PREFIX, headers=FOREIGN),
            await client.post(PREFIX, data={"queries": QUERIES}, headers=FOREIGN),
            await client.post(PREFIX, data={"extend": '{"ids": [], "properties": []}'}, headers=FOREIGN),
            await client.get(f"{PREFIX}/suggest/entity?prefix=a", headers=FOREIGN),
            await client.get(f"{PREFIX}/preview?id=t1", headers=FOREIGN),
        ):
            assert answer.status_code == 200
            assert answer.headers["access-control-allow-origin"] == "*"
            assert "access-control-allow-credentials" not in answer.headers
        for wrong in (
            await client.post(PREFIX, data={"queries": "{"}, headers=FOREIGN),
            await client.get(f"{PREFIX}/flyout/entity?id=nobody", headers=FOREIGN),
            await client.get(f"{PREFIX}/nowhere", headers=FOREIGN),
        ):
            assert wrong.status_code in (400, 404)
            assert wrong.headers["access-control-allow-origin"] == "*", "a page has to be able to read why"


async def test_a_browser_that_asks_first_is_told_what_it_may() -> None:
    asks = FOREIGN | {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    async with served() as harness:
        answer = await harness.client.options(PREFIX, headers=asks)
        assert (answer.status_code, answer.content) == (204, b"")
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["access-control-allow-methods"] == "GET, POST"
        assert answer.headers["access-control-allow-headers"] == "content-type"
        elsewhere = await harness.client.options("/entities", headers=asks)
        assert not any(name.startswith("access-control") for name in elsewhere.headers)


@pytest.mark.parametrize("path", ["/entities", "/reconciled", "/entities?x=/reconcile"])
async def test_all_else_is_still_refused(path: str) -> None:
    async with served() as harness:
        answer = await harness.client.post(path, data={"queries": QUERIES}, headers=FOREIGN)
        assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin")
        assert "access-control-allow-origin" not in answer.headers
        assert harness.changes == []


@pytest.mark.parametrize(
    "path", ["/reconcile/../entities", "/reconcile/..%2Fentities", "/reconcile//entities", "/reconciled/../reconcile"]
)
async def test_no_path_leads_around(path: str) -> None:
    """Over a socket: clients tidy paths up before they send them."""
    async with served() as harness:
        reader, writer = await asyncio.open_connection("127.0.0.1", harness.client.base_url.port)
        lines = [f"POST {path} HTTP/1.1", "host: localhost", "content-length: 0", "connection: close"]
        lines += [f"{name}: {value}" for name, value in FOREIGN.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        status = (await reader.readline()).split()[1]
        writer.close()
        assert status in (b"403", b"404")
        assert harness.changes == []


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_nothing_but_get_and_post_is_open(method: str) -> None:
    async with served() as harness:
        assert (await harness.client.request(method, PREFIX, headers=FOREIGN)).status_code == 403
        assert (await harness.client.request(method, PREFIX)).status_code == 405


def test_one_endpoint_alone_takes_posts() -> None:
    """The Guard lets them through since nothing here changes anything; whoever adds one that does has to say so."""
    posts = [route.path for route in router.routes if "POST" in getattr(route, "methods", ())]  # type: ignore[attr-defined]
    assert posts == [PREFIX]


async def test_other_host_names_are_still_refused() -> None:
    async with served() as harness:
        assert (await harness.client.get(PREFIX, headers={"host": "evil.example"})).status_code == 400


async def test_jsonp_calls_the_function_and_nothing_else() -> None:
    async with served() as harness:
        for path, asked in (
            ("", {}),
            ("", {"queries": QUERIES}),
            ("", {"extend": '{"ids": ["t6"], "properties": [{"id": "alias"}]}'}),
            ("/suggest/entity", {"prefix": HOSTILE[:5]}),
            ("/suggest/type", {}),
            ("/suggest/property", {}),
            ("/properties", {"type": HOSTILE}),
            ("/flyout/entity", {"id": "t6"}),
        ):
            plain = await harness.get(path, **asked)
            called = await harness.get(path, **asked, callback="jQuery3310_$1")
            assert called.headers["content-type"].startswith("text/javascript")
            assert called.headers["x-content-type-options"] == "nosniff"
            assert called.text.startswith("/**/jQuery3310_$1(")
            assert called.text.endswith(");")
            assert called.text.isascii(), "some characters of text end a line of a script"
            assert json.loads(called.text.removeprefix("/**/jQuery3310_$1(").removesuffix(");")) == plain.json()


@pytest.mark.parametrize(
    "callback",
    ["alert(1)//", "a.b", "a b", "1a", "", "a\n", "a;b", "<script>", "ä", "a" * 101, "a\u2028", "a[0]", "\x00a"],
)
async def test_what_is_no_name_is_not_called(callback: str) -> None:
    async with served() as harness:
        for path in ("", "/suggest/type", "/properties", "/flyout/type"):
            answer = await harness.get(path, id="person", callback=callback)
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
            assert answer.headers["content-type"] == "application/json"
            assert "alert" not in answer.text
