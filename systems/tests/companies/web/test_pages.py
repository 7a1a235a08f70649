"""The pages of companies over a real server: what people see, and what their forms do, without a script."""

import re
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill_systems.companies.mapping_files import import_mappings
from rowmill_systems.companies.mappings import CompanyMappingRepository
from rowmill_systems.companies.providers.port import CompanyCandidate
from rowmill_systems.companies.web import pages
from systems.tests.companies.web.served import HOSTILE, ServedCompanies, served
from tests.support.html import read_page


def alert_of(text: str) -> str:
    """What the page says about what was not done."""
    [alert] = [tag for tag in read_page(text).tags if tag.attributes.get("role") == "alert"]
    return alert.text.strip()


def figures_of(text: str) -> dict[str, str]:
    """The figures at the top of the overview."""
    found = read_page(text)
    terms = [tag.text.strip() for tag in found.tags if tag.name == "dt"]
    return dict(zip(terms, [tag.text.strip() for tag in found.tags if tag.name == "dd"], strict=True))


def next_of(text: str) -> str:
    found = re.search(r'href="([^"]+)" rel="next"', text)
    return found[1].replace("&amp;", "&") if found else ""


async def conflict(web: ServedCompanies, name: str, *ids: str) -> int:
    """Map a name to two ids. Return the id of the conflict."""
    import csv
    import io

    text = io.StringIO()
    csv.writer(text).writerows([("match_type", "alias", "company_id"), *(("company_name", name, each) for each in ids)])

    def work(connection: sa.Connection) -> int:
        repository = CompanyMappingRepository(connection, web.companies.settings)
        assert import_mappings(repository, io.BytesIO(text.getvalue().encode())).conflicts == len(ids) - 1
        return repository.conflicts(limit=1000)[-1].id

    found: int = await web.mill.run(work)
    return found


async def test_empty_pages_say_what_to_do(database_url: str) -> None:
    async with served(database_url) as web:
        shown = await web.page("/")
        assert "No names yet" in shown
        assert "targets add TABLE COLUMN" in shown
        assert "No such request" in await web.page("/requests")
        assert "Show all" in await web.page("/requests", status="failed", q="x")
        assert "Nothing to decide" in await web.page("/review")
        assert "No conflict" in await web.page("/conflicts")
        await web.page("/docs")


async def test_the_overview_shows_the_queue_rungs_and_targets(database_url: str) -> None:
    async with served(database_url, enrichment_queue_warning_threshold=2) as web:
        await web.target()
        await web.post("/resolve", {"rows": [{"name": "a"}, {"name": "b"}, {"name": "b"}, {"name": None}]})
        await web.put("c", "failed")
        await web.put("d", "done")
        await web.review("e")
        assert "requests are pending" not in await web.page("/")
        await web.put("f")
        shown = await web.page("/")
        figures = figures_of(shown)
        assert list(figures.values()) == ["3", "0", "2", "1", "1"]
        assert "More than 2 requests are pending" in shown
        assert [each.partition(": ")[2] for each in re.findall("<title>(.+?)</title>", shown)[1:]] == [
            "2 by queue",
            "1 by no name",
        ]
        assert "policies" in shown


async def test_requests_are_filtered_and_paged(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "ON_A_PAGE", 2)
    async with served(database_url) as web:
        for number in range(5):
            await web.put(f"name-{number}")
        await web.put("failing", "failed", last_error="refused: no")
        path, seen = "/requests?status=pending", list[str]()
        while path:
            shown = await web.page(path)
            seen += re.findall(r">(name-\d)<", shown)
            path = next_of(shown)
        assert seen == [f"name-{number}" for number in (4, 3, 2, 1, 0)]
        failed = await web.page("/requests", status="failed")
        assert "refused: no" in failed
        assert "Requeue all failed" in failed
        assert "name-0" not in failed
        for q in ("NAME-3", " name-3 ", web.temp_id("name-3")):
            shown = await web.page("/requests", q=q)
            assert re.findall(r">(name-\d)<", shown) == ["name-3"], q
        assert "No such request" in await web.page("/requests", q="name-3", status="failed")


async def test_failed_requests_are_put_back_one_by_one_or_all(database_url: str) -> None:
    async with served(database_url) as web:
        ids = [await web.put(name, "failed", attempts=3) for name in ("a", "b", "c")]
        assert (await web.send(f"/requests/{ids[0]}/requeue")).endswith("/requests")
        assert [row.status for row in (await web.rows()).values()] == ["pending", "failed", "failed"]
        busy = await web.put("d", "processing")
        assert "in progress" in alert_of(await web.send(f"/requests/{busy}/requeue", 409))
        assert "gone" in alert_of(await web.send("/requests/999/requeue", 409))
        await web.send("/requests/requeue-failed")
        assert {row.status for name, row in (await web.rows()).items() if name != "d"} == {"pending"}


async def test_a_review_is_decided_once_and_writes_the_target(database_url: str) -> None:
    async with served(database_url) as web:
        target = await web.target()
        first, second, third = [await web.review(name) for name in ("Acme", "Globex", "Initech")]
        rows = [{"id": n, "company_id": web.temp_id(name)} for n, name in enumerate(("Acme", "Globex", "Initech"))]
        await web.mill.run(lambda connection: connection.execute(sa.insert(target), rows).close())
        shown = await web.page("/review")
        for text in ("Acme Ltd", "same words", "other region", "also Old Acme", "Köln", 'value="C1"'):
            assert text in shown
        assert (await web.send(f"/review/{first}", company_id=" C1 ")).endswith("/review")
        again = await web.send(f"/review/{first}", 409, company_id="C2")
        assert "was decided by page meanwhile: C1" in alert_of(again)
        assert "Globex" in again
        await web.send(f"/review/{second}", choice="none")
        assert "choose a company" in alert_of(await web.send(f"/review/{third}", 422))
        assert "company id" in alert_of(await web.send(f"/review/{third}", 422, company_id="a\x00b"))
        assert "there is no review 999" in alert_of(await web.send("/review/999", 409, choice="none"))
        found = await web.read(sa.select(target.c.company_id).order_by(target.c.id))
        assert [each for [each] in found] == ["C1", web.temp_id("Globex"), web.temp_id("Initech")]
        assert "Initech" in await web.page("/review")


async def test_reviews_and_conflicts_are_paged(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "REVIEWS_ON_A_PAGE", 2)
    monkeypatch.setattr(pages, "ON_A_PAGE", 2)
    async with served(database_url) as web:
        for number in range(5):
            await web.review(f"name-{number}")
            await conflict(web, f"alias-{number}", "A", "B")
        for path, pattern in (("/review", r"<h3>(\S+)</h3>"), ("/conflicts", r">(alias.\d)<")):
            seen = list[str]()
            while path:
                shown = await web.page(path)
                seen += re.findall(pattern, shown)
                path = next_of(shown)
            assert [each[-1] for each in seen] == list("01234")


async def test_a_conflict_is_decided_once(database_url: str) -> None:
    async with served(database_url) as web:
        target = await web.target()
        await web.enqueue("Acme Ltd")
        row = {"id": 1, "company_id": web.temp_id("Acme Ltd")}
        await web.mill.run(lambda connection: connection.execute(sa.insert(target), [row]).close())
        id = await conflict(web, "Acme Ltd", "A1", "B1")
        shown = await web.page("/conflicts")
        assert "Keep A1" in shown
        assert "Use B1" in shown
        for wrong in ("", "C1", "a\x00"):
            assert "company id" in alert_of(await web.send(f"/conflicts/{id}", 422, company_id=wrong))
        assert (await web.send(f"/conflicts/{id}", company_id="B1")).endswith("/conflicts")
        assert "resolved meanwhile" in alert_of(await web.send(f"/conflicts/{id}", 409, company_id="A1"))
        assert await web.read(sa.select(target.c.company_id)) == [("B1",)]


async def test_names_are_shown_as_text(database_url: str) -> None:
    async with served(database_url) as web:
        await web.put(HOSTILE, "failed", last_error=f"refused: {HOSTILE}")
        await web.put("known", "done", resolved_company_id=HOSTILE, resolved_by=HOSTILE)
        await web.review(f"R {HOSTILE}", CompanyCandidate(HOSTILE, HOSTILE, (HOSTILE,), details={HOSTILE: HOSTILE}))
        await conflict(web, f"C {HOSTILE}", HOSTILE, "B")
        for path in ("/", "/requests", "/requests?status=failed", "/review", "/conflicts"):
            shown = await web.page(path)
            assert "<script>alert" not in shown
            assert "<img src=x" not in shown
            assert shown.count("{{ 7 * 7 }}") == shown.count("onerror=")
        assert "&lt;script&gt;" in await web.page("/requests", q=HOSTILE)
        assert "&lt;script&gt;" in await web.page("/review")
        assert "&lt;script&gt;" in await web.page("/conflicts")


async def test_a_long_name_is_cut(sqlite_url: str) -> None:
    async with served(sqlite_url) as web:
        await web.put("long")
        assert await web.sql(f"UPDATE REQUESTS SET raw_name = '{'x' * 1_000_000}'") == 1
        assert len(await web.page("/requests")) < 40_000
        assert len((await web.get("/enrichment-requests"))["requests"][0]["raw_name"]) == 2000


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/requests?status=nope", 404),
        ("GET", "/requests?status=%00", 404),
        ("GET", "/requests?q=%00", 200),
        ("GET", "/requests?q=a%00b", 200),
        ("GET", "/requests?after=x", 422),
        ("GET", f"/review?after={2**63}", 422),
        ("POST", f"/requests/{2**63}/requeue", 422),
        ("POST", "/review/0", 422),
    ],
)
async def test_what_is_not_there_is_a_page_too(database_url: str, method: str, path: str, code: int) -> None:
    async with served(database_url) as web:
        answer = await web.client.request(method, path, headers={"accept": "text/html"})
        assert answer.status_code == code, answer.text
        assert answer.headers["content-type"].startswith("text/html")
        assert "<h1>" in answer.text
        read_page(answer.text)


async def test_other_sites_and_names_are_refused(sqlite_url: str) -> None:
    async with served(sqlite_url) as web:
        headers = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
        refused: Any = await web.client.post("/requests/requeue-failed", headers=headers)
        assert refused.status_code == 403
        assert (await web.client.get("/", headers={"host": "evil.example"})).status_code == 400
