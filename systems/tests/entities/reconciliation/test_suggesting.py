"""Suggestions while somebody types, and pages of things."""

import re
from typing import Any

import pytest

from rowmill_systems.entities.reconciliation import pages
from systems.tests.entities.reconciliation.sample_kb import HOSTILE
from systems.tests.entities.reconciliation.served import served
from systems.tests.entities.reconciliation.shapes import check

KINDS = {
    "entity": "suggest-entities-response",
    "type": "suggest-types-response",
    "property": "suggest-properties-response",
}


async def test_the_manifest_leads_everywhere() -> None:
    async with served() as harness:
        said = check("manifest", (await harness.get()).json())
        assert said["name"] == "A shelf"
        assert said["identifierSpace"].startswith(f"{harness.client.base_url}reconcile/"[:20])
        for kind, schema in KINDS.items():
            where = said["suggest"][kind]
            answer = await harness.client.get(where["service_url"] + where["service_path"], params={"prefix": "p"})
            check(schema, answer.json())
        flyout = said["suggest"]["entity"]["flyout_service_path"].replace("${id}", "t1")
        assert "Ada" in (await harness.client.get(said["suggest"]["entity"]["service_url"] + flyout)).json()["html"]
        for page in (said["view"]["url"], said["preview"]["url"]):
            assert "Ada Lovelace" in (await harness.client.get(page.replace("{{id}}", "t1"))).text
        proposing = said["extend"]["propose_properties"]
        answer = await harness.client.get(proposing["service_url"] + proposing["service_path"])
        check("data-extension-property-proposal", answer.json())


async def test_things_types_and_properties_that_begin_so() -> None:
    async with served() as harness:

        async def ids(kind: str, **asked: Any) -> list[str]:
            answer = await harness.get(f"/suggest/{kind}", **asked)
            said = check(KINDS[kind], answer.json())
            assert said["prefix"] == asked.get("prefix", ""), "older OpenRefines mark it in what they show"
            return [each["id"] for each in said["result"]]

        assert await ids("entity", prefix="ada") == ["t1", "t5"]
        assert await ids("entity", prefix="ada", type="place") == ["t5"]
        assert await ids("entity", prefix="aug") == ["t1"]
        assert await ids("entity", prefix="t3") == ["t3"], "an id is found as well"
        assert await ids("entity", prefix=" ") == await ids("entity") == []
        assert await ids("type", prefix="or") == ["organisation"]
        assert len(await ids("type")) == 6
        assert await ids("property", prefix="born") == ["birth_date", "birth_place"]
        assert await ids("property", prefix="birth_d") == ["birth_date"]
        assert "birth_date" in await ids("property", prefix="ON"), "a later word of the name does, too"


async def test_a_cursor_goes_on_where_the_last_page_ended() -> None:
    async with served() as harness:
        seen: list[str] = []
        for _ in range(10):
            answer = await harness.get("/suggest/entity", prefix="mill", cursor=len(seen))
            if not (page := [each["id"] for each in answer.json()["result"]]):
                break
            seen += page
        assert seen == [f"m{number:03}" for number in range(60)]
        for cursor in ("-1", "x", 10**9):
            assert (await harness.get("/suggest/entity", prefix="mill", cursor=cursor)).status_code == 422


@pytest.mark.parametrize("path", ["/view", "/preview"])
async def test_a_page_runs_nothing_and_only_the_preview_goes_into_frames(path: str) -> None:
    async with served() as harness:
        page = await harness.get(path, id="t6")
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        for bad in ("<img", "</script>", 'href="javascript', "<script"):
            assert bad not in page.text, bad
        assert "&lt;img src=x" in page.text
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
        assert policy.endswith("frame-ancestors *" if path == "/preview" else "frame-ancestors 'none'")
        assert page.headers["x-content-type-options"] == "nosniff"
        [style] = re.findall(r"<style>(.*?)</style>", page.text, re.DOTALL)
        assert style == pages.STYLE, "its hash is in the policy"
        missing = await harness.get(path, id="<b>nobody")
        assert (missing.status_code, "<b>" in missing.text) == (404, False)
        assert missing.headers["content-security-policy"] == policy


async def test_the_view_says_all_that_is_known() -> None:
    async with served() as harness:
        text = (await harness.get("/view", id="t1")).text
        for part in ("Augusta Ada King", "Born on", "1815-12-10", "mathematician", "Person"):
            assert part in text
        for address in (
            "https://example.org/ada",
            "https://www.wikidata.org/wiki/Q7259",
            "http://dbpedia.org/resource/Ada_Lovelace",
        ):
            assert f'href="{address}"' in text


async def test_a_flyout_is_harmless_html() -> None:
    async with served() as harness:
        for kind, id in (("entity", "t1"), ("type", "person"), ("property", "birth_date"), ("property", "alias")):
            answer = await harness.get(f"/flyout/{kind}", id=id)
            assert (answer.json()["id"], set(answer.json())) == (id, {"id", "html"})
            missing = await harness.get(f"/flyout/{kind}", id="nobody")
            assert (missing.status_code, missing.json()["code"]) == (404, "not_here")
        html = (await harness.get("/flyout/entity", id="t6")).json()["html"]
        assert "<img" not in html
        assert "&lt;img" in html
        assert HOSTILE not in html
