"""Pages over a real server: what people see, and what their forms do, without a script."""

import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.entities.models import EntityId
from rowmill_systems.entities.web import pages
from rowmill_systems.entities.words import STATUSES
from systems.tests.entities.harness import FakeSource
from systems.tests.entities.served import Served, served
from tests.support.html import read_page

NOBODY = uuid.UUID(int=1)
HOSTILE = """<script>alert(1)</script>"'><img src=x onerror=alert(1)>{{ 7 * 7 }}"""


async def page(harness: Served, path: str, code: int = 200, **parameters: Any) -> str:
    answer = await harness.client.get(path, params=parameters or None, headers={"accept": "text/html"})
    assert answer.status_code == code, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    read_page(answer.text)
    return answer.text


def alert_of(text: str) -> str:
    """What the page says about what was not done."""
    [alert] = [tag for tag in read_page(text).tags if tag.attributes.get("role") == "alert"]
    return alert.text.strip()


def rows_of(text: str) -> list[list[str]]:
    """The cells of all tables."""
    rows: list[list[str]] = []
    for tag in read_page(text).tags:
        if tag.name == "tr":
            rows.append([])
        elif tag.name == "td":
            rows[-1].append(tag.text)
    return rows


async def set_status(harness: Served, id: EntityId, status: str, **values: Any) -> None:
    entity = harness.tables.entity
    change = sa.update(entity).where(entity.id == id).values(enrichment_status=status, **values)
    await harness.mill.run(lambda connection: connection.execute(change).close())


async def in_conflict(harness: Served, fake_source: FakeSource, name: str = "Ada Lovelace") -> tuple[EntityId, int]:
    """An entity that is complete, and contradicted."""
    fake_source.learn(name, "Q7259", birth_date="1815-12-10", employer=({"id": "Q1", "label": "Nobody"},))
    id = await harness.put(name, entity_type="person", properties={"birth_date": "1816"})
    await harness.drain()
    [conflict] = await harness.conflicts(id)
    return id, conflict.id


async def test_the_pipeline_shows_every_status_with_its_count(database_url: str) -> None:
    async with served(database_url, FakeSource()) as harness:
        assert "No entities yet" in await page(harness, "/")
        for number, status in enumerate(STATUSES, 1):
            for each in range(number):
                await set_status(harness, await harness.put(f"{status} {each}"), status)
        shown = await page(harness, "/")
        found = re.findall(r'href="/browse\?status=(\w+)">[a-z ]+</a><span class="number">(\d+)<', shown)
        assert dict(found) == {status: str(number) for number, status in enumerate(STATUSES, 1)}
        assert "19 of 55 are final" in shown
        assert 'hx-get="/"' in shown


async def test_the_pipeline_says_how_services_are_and_why_entities_wait(sqlite_url: str) -> None:
    async with served(sqlite_url, sources="embedded,wikidata,dbpedia") as harness:
        id = await harness.put("Berlin")
        await set_status(harness, id, "LINK_FAILED", enrichment_error="provider_down: it does not answer")
        limits = harness.entities.limits
        until = datetime.now(UTC) + timedelta(hours=1)
        await limits["wikidata"].park(3600)
        with pytest.raises(rm.errors.ProviderRefused):
            async with limits["dbpedia-lookup"].call():
                raise rm.errors.ProviderRefused("no")
        shown = await page(harness, "/")
        rows = {row[0]: row[1] for row in rows_of(shown) if len(row) == 2}
        assert "It asked us to wait" in rows["wikidata"]
        assert until.strftime("%Y-%m-%d %H") in rows["wikidata"]
        assert "limits on entities-dbpedia-lookup" in rows["dbpedia-lookup"]
        assert "available" in rows["dbpedia-data"]
        assert rows["provider_down"] == "1"


async def test_entities_are_listed_by_status_and_dataset_page_by_page(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "ON_A_PAGE", 2)
    async with served(database_url, FakeSource()) as harness:
        names = [f"name-{number}" for number in range(5)]
        await harness.put_all(*({"name": name, "dataset": "a & b", "external_id": name} for name in names))
        await harness.put("stranger", dataset="c")
        await set_status(
            harness, await harness.put("failing", dataset="a & b"), "FAILED", enrichment_error="boom: it broke"
        )
        path, seen = "/browse?status=PENDING&dataset=a+%26+b", list[str]()
        for _ in range(3):
            shown = await page(harness, path)
            seen += re.findall(r'<a href="/browse/[\w-]+">([\w-]+)</a>', shown)
            assert f'hx-get="{path.replace("&", "&amp;")}"' in shown
            found = re.search(r'<a class="button" href="([^"]+)" rel="next">', shown)
            path = found[1].replace("&amp;", "&") if found else ""
        assert (sorted(seen), path) == (names, "")
        failed = await page(harness, "/browse", status="FAILED")
        assert "boom: it broke" in failed
        assert "name-0" not in failed
        assert "No entity matches" in await page(harness, "/browse", status="no such", dataset=HOSTILE)


async def test_one_entity_is_shown_with_its_link_its_facts_and_who_says_so(database_url: str) -> None:
    fake_source = FakeSource()
    async with served(database_url, fake_source) as harness:
        id, _ = await in_conflict(harness, fake_source)
        shown = await page(harness, f"/browse/{id}")
        assert '<a href="https://www.wikidata.org/wiki/Q7259"' in shown
        rows = [[" ".join(cell.split()) for cell in row] for row in rows_of(shown)]
        assert ["Employer", "Nobody", "wikidata (Q7259)"] in rows
        assert ["Born on", "1816", "local"] in rows
        assert re.findall(r"<td>(linked|facts|merged)</td>", shown) == ["merged", "facts", "linked"]
        assert "hx-get" not in shown


@pytest.mark.parametrize("choice", ["current", "other", "value"])
@pytest.mark.parametrize("place", ["entity", "list"])
async def test_a_conflict_is_decided_with_a_form(sqlite_url: str, choice: str, place: str) -> None:
    fake_source = FakeSource()
    async with served(sqlite_url, fake_source) as harness:
        id, conflict = await in_conflict(harness, fake_source)
        where = f"/browse/{id}" if place == "entity" else "/review-conflicts"
        [action] = set(re.findall(r' action="([^"]+/\d+)"', await page(harness, where)))
        sent = await harness.client.post(action, data={"choice": choice, "value": "1815-12"})
        assert (sent.status_code, sent.headers["location"]) == (303, where)
        assert (await harness.merged(id))["birth_date"] == [
            {"current": "1816", "other": "1815-12-10", "value": "1815-12"}[choice]
        ]
        assert "<form" not in await page(harness, "/review-conflicts")
        assert f"/conflicts/{conflict}" not in await page(harness, f"/browse/{id}")


async def test_who_decides_second_is_told_on_the_page(database_url: str) -> None:
    fake_source = FakeSource()
    async with served(database_url, fake_source) as harness:
        id, conflict = await in_conflict(harness, fake_source)
        await harness.client.post(f"/conflicts/{conflict}/decide", json={"choice": "other"})
        for path in (f"/browse/{id}/conflicts/{conflict}", f"/review-conflicts/{conflict}"):
            answer = await harness.client.post(path, data={"choice": "current"})
            assert answer.status_code == 409
            assert alert_of(answer.text) == "Not done: it is decided by now."
        assert (await harness.merged(id))["birth_date"] == ["1815-12-10"]


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"choice": "value", "value": "soon"}, "Born on has to look like this: 1815-12-10"),
        ({"choice": "value", "value": "  "}, "write a value"),
        ({"choice": "value", "value": "9" * 1001}, "write a value of at most"),
        ({"choice": "value"}, "write a value"),
        ({"choice": "both"}, "choose one of the values"),
        ({}, "choose one of the values"),
    ],
)
async def test_what_is_no_decision_changes_nothing(sqlite_url: str, form: dict[str, str], said: str) -> None:
    fake_source = FakeSource()
    async with served(sqlite_url, fake_source) as harness:
        id, conflict = await in_conflict(harness, fake_source)
        answer = await harness.client.post(f"/browse/{id}/conflicts/{conflict}", data=form)
        assert answer.status_code == 422
        assert said in answer.text
        assert [each.state for each in await harness.conflicts(id)] == ["open"]
        gone = await harness.client.post("/review-conflicts/999", data={"choice": "value", "value": "1815"})
        assert gone.status_code == 404


async def test_an_entity_is_queued_again_unless_somebody_is_at_work_on_it(database_url: str) -> None:
    fake_source = FakeSource()
    async with served(database_url, fake_source) as harness:
        id, _ = await in_conflict(harness, fake_source)
        sent = await harness.client.post(f"/browse/{id}/queue")
        assert (sent.status_code, sent.headers["location"]) == (303, f"/browse/{id}")
        assert await harness.status(id) == "PENDING"
        later = datetime.now(UTC) + timedelta(hours=1)
        await set_status(harness, id, "LINKING", lease=1, leased_until=later)
        again = await harness.client.post(f"/browse/{id}/queue")
        assert again.status_code == 409
        assert alert_of(again.text) == "Not done: the entity is LINKING."


async def test_whatever_somebody_wrote_is_shown_as_text(database_url: str) -> None:
    fake_source = FakeSource()
    fake_source.learn(
        HOSTILE, "Q1", birth_date="1815", occupation=({"id": HOSTILE, "label": HOSTILE},), website=HOSTILE
    )
    more = {"entity_type": HOSTILE, "context": HOSTILE, "dataset": HOSTILE, "external_id": HOSTILE}
    async with served(database_url, fake_source) as harness:
        id = await harness.put(HOSTILE, properties={"birth_date": HOSTILE, HOSTILE: [HOSTILE, {"a": HOSTILE}]}, **more)
        await harness.drain()
        assert await harness.status(id) == "COMPLETE"
        await set_status(
            harness, id, "FAILED", enrichment_error=HOSTILE, enrichment_note=HOSTILE, linking_label=HOSTILE,
            wikidata_id="Q1' onload='", dbpedia_uri="javascript:alert(1)", other_ids={HOSTILE: HOSTILE},
        )  # fmt: skip
        for path in ("/", "/browse", f"/browse/{id}", "/review-conflicts", "/browse?dataset=%3Cscript%3Ealert"):
            shown = await page(harness, path)
            assert "<script>" not in shown
            assert "<img src=x" not in shown
            assert "49" not in re.sub(r"[\w-]{36}|\?v=\w+| d=\"[^\"]+\"|<time[^>]+>|after=\w+", "", shown)
            assert re.findall(r"<[^>]*\son\w+=", shown) == []
            assert 'href="javascript:' not in shown
        assert "wikidata.org" not in await page(harness, f"/browse/{id}")


@pytest.mark.parametrize(
    ("uri", "linked"),
    [
        ("http://dbpedia.org/resource/Berlin", True),
        ("https://de.dbpedia.org/resource/Zürich", True),
        ("http://dbpedia.org.evil.example/resource/Berlin", False),
        ("http://evil.example/?http://dbpedia.org/resource/Berlin", False),
        ("javascript://dbpedia.org/resource/%0aalert(1)", False),
        ('http://dbpedia.org/resource/"onclick="alert(1)', False),
    ],
)
async def test_only_addresses_of_dbpedia_are_links_to_it(sqlite_url: str, uri: str, linked: bool) -> None:
    async with served(sqlite_url, FakeSource()) as harness:
        id = await harness.put("Berlin")
        await set_status(harness, id, "COMPLETE", dbpedia_uri=uri, linking_label="Berlin", linking_confidence=0.9)
        shown = await page(harness, f"/browse/{id}")
        assert (f'<a href="{uri}"' in shown) is linked
        assert ">DBpedia<" in shown


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"/browse/{NOBODY}"),
        ("GET", "/browse/not-an-id"),
        ("GET", "/browse?after=a%00b"),
        ("POST", f"/browse/{NOBODY}/queue"),
        ("POST", "/browse/not-an-id/queue"),
    ],
)
async def test_what_is_not_there_is_a_page_that_says_so(sqlite_url: str, method: str, path: str) -> None:
    async with served(sqlite_url, FakeSource()) as harness:
        answer = await harness.client.request(method, path, headers={"accept": "text/html"})
        assert answer.status_code == 404
        assert "here is no such" in alert_of(answer.text)
        assert set((await harness.client.request(method, path)).json()) == {"code", "message"}


async def test_pages_load_nothing_from_elsewhere_and_run_nothing_inline(sqlite_url: str) -> None:
    fake_source = FakeSource()
    async with served(sqlite_url, fake_source) as harness:
        id, _ = await in_conflict(harness, fake_source)
        for path in ("/", "/browse", f"/browse/{id}", "/review-conflicts"):
            answer = await harness.client.get(path)
            assert "script-src 'self'" in answer.headers["content-security-policy"]
            read_page(answer.text)
            for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', answer.text):
                assert (await harness.client.get(address)).status_code == 200


async def test_another_site_can_t_decide(sqlite_url: str) -> None:
    fake_source = FakeSource()
    async with served(sqlite_url, fake_source) as harness:
        id, conflict = await in_conflict(harness, fake_source)
        foreign = httpx2.Headers({"origin": "https://evil.example"})
        answer = await harness.client.post(f"/review-conflicts/{conflict}", data={"choice": "other"}, headers=foreign)
        assert answer.status_code == 403
        assert [each.state for each in await harness.conflicts(id)] == ["open"]


async def test_entities_are_searched_and_sorted_the_latest_first(database_url: str) -> None:
    async with served(database_url, FakeSource()) as harness:
        for name, confidence in (("beta", 0.6), ("Alpha", 0.98), ("alphabet", None)):
            await set_status(harness, await harness.put(name), "COMPLETE", linking_confidence=confidence)

        async def names(query: str) -> list[str]:
            return re.findall(r'<a href="/browse/[\w-]+">([\w-]+)</a>', await page(harness, f"/browse?{query}"))

        assert sorted(await names("")) == ["Alpha", "alphabet", "beta"]
        assert await names("sort=name") == ["Alpha", "alphabet", "beta"]
        assert await names("sort=-confidence") == ["Alpha", "beta", "alphabet"]
        assert sorted(await names("q=ALPHA")) == ["Alpha", "alphabet"]
        shown = await page(harness, "/browse")
        assert 'class="confidence sure"' in shown
        assert 'class="confidence unsure"' in shown
        for wrong in ("sort=secret", "after=x", "after=WyJ4Iiwx"):
            await page(harness, f"/browse?{wrong}", 404)


async def test_an_entity_is_added_by_a_form(database_url: str) -> None:
    async with served(database_url, FakeSource()) as harness:
        sent = await harness.client.post("/browse", data={"name": " Ada ", "entity_type": "person"})
        assert sent.status_code == 303
        shown = await page(harness, sent.headers["location"])
        assert "<h1>Ada</h1>" in shown
        refused = await harness.client.post("/browse", data={"name": " "}, headers={"accept": "text/html"})
        assert refused.status_code == 422
        assert alert_of(refused.text).startswith("Name: ")


@pytest.mark.parametrize("prefix", ["", "/tools"])
async def test_every_page_of_the_navigation_answers_behind_a_proxy_too(sqlite_url: str, prefix: str) -> None:
    fake_source = FakeSource()
    async with served(sqlite_url, fake_source) as harness:
        harness.client.headers["x-forwarded-prefix"] = prefix
        id, conflict = await in_conflict(harness, fake_source)
        for path in ("/", "/browse", "/review-conflicts", "/docs", f"/browse/{id}"):
            read = read_page(await page(harness, path))
            assert read.all("a", href=f"{prefix}/browse")
            links = [link for link in read.links() if not link.startswith(("#", "https://www.wikidata.org/"))]
            assert all(link.startswith(f"{prefix}/") for link in links), path
        sent = await harness.client.post(f"/browse/{id}/conflicts/{conflict}", data={"choice": "other"})
        assert sent.headers["location"] == f"{prefix}/browse/{id}"


async def test_a_wrong_address_is_a_page_for_a_browser(sqlite_url: str) -> None:
    async with served(sqlite_url, FakeSource()) as harness:
        assert "Page not found" in await page(harness, "/nothing", 404)
        assert (await harness.client.get("/nothing")).json()["code"] == "refused"
