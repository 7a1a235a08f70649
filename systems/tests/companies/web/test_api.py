"""The API of companies, over a real server."""

from typing import Any

import pytest
import sqlalchemy as sa

from systems.tests.companies.web.served import HOSTILE, served


async def test_an_empty_system_answers(database_url: str) -> None:
    async with served(database_url) as web:
        assert await web.get("/health") == {"status": "ok"}
        stats = await web.get("/stats", days=3)
        assert (stats["pending"], stats["open_reviews"], stats["by_rung"], len(stats["days"])) == (0, 0, [], 3)
        assert await web.get("/enrichment-requests") == {"requests": [], "next": None}
        assert await web.get("/reviews") == {"reviews": [], "next": None}
        assert await web.post("/enrichment-requests/requeue", None) == {"requeued": 0}
        assert await web.post("/resolve", {"rows": []}) == {"rows": []}
        paths = (await web.get("/openapi.json"))["paths"]
        assert set(paths) == {
            "/health", "/stats", "/resolve", "/enrichment-requests", "/enrichment-requests/{request_id}",
            "/enrichment-requests/requeue", "/reviews", "/reviews/{review_id}",
        }  # fmt: skip


async def test_names_are_resolved_and_wait_in_the_queue(database_url: str) -> None:
    async with served(database_url, {"Acme Ltd": "C1"}) as web:
        rows = [{"name": "Acme Ltd"}, {"name": None}, {"name": " acme  ltd "}]
        first = (await web.post("/resolve", {"rows": rows}))["rows"]
        assert [each["company_id"] for each in first] == [web.temp_id("Acme Ltd"), None, web.temp_id("Acme Ltd")]
        assert [each["temporary"] for each in first] == [True, False, True]
        assert web.provider.asked == []
        await web.run()
        again = (await web.post("/resolve", {"rows": rows}))["rows"]
        assert [(each["company_id"], each["rung"], each["temporary"]) for each in again[:2]] == [
            ("C1", "cache", False),
            (None, "none", False),
        ]
        stats = await web.get("/stats")
        assert (stats["done"], stats["pending"]) == (1, 0)
        assert {each["rung"]: each["today"] for each in stats["by_rung"]} == {"queue": 2, "cache": 2, "none": 2}


async def test_requests_are_filtered_and_paged_the_newest_first(database_url: str) -> None:
    async with served(database_url) as web:
        for number in range(5):
            await web.put(f"n{number}", "failed" if number % 2 else "pending", last_error="refused: no")
        seen, after = list[str](), 0
        while True:
            page = await web.get("/enrichment-requests", limit=2, after=after)
            seen += [each["raw_name"] for each in page["requests"]]
            if page["next"] is None:
                break
            after = page["next"]
        assert seen == ["n4", "n3", "n2", "n1", "n0"]
        failed = await web.get("/enrichment-requests", status="failed")
        assert [each["raw_name"] for each in failed["requests"]] == ["n3", "n1"]
        id = failed["requests"][0]["id"]
        one = await web.get(f"/enrichment-requests/{id}")
        assert (one["status"], one["last_error"], one["temp_id"]) == ("failed", "refused: no", web.temp_id("n3"))


async def test_failed_requests_are_put_back_by_their_code(database_url: str) -> None:
    async with served(database_url) as web:
        await web.put("a", "failed", last_error="refused: no", attempts=3)
        await web.put("b", "failed", last_error="server_error: no", attempts=3)
        assert await web.post("/enrichment-requests/requeue?error_code=refused", None) == {"requeued": 1}
        assert {name: (row.status, row.attempts) for name, row in (await web.rows()).items()} == {
            "a": ("pending", 0),
            "b": ("failed", 3),
        }
        assert await web.post("/enrichment-requests/requeue", None) == {"requeued": 1}


async def test_a_decision_writes_the_target_and_a_second_one_is_refused(database_url: str) -> None:
    async with served(database_url) as web:
        target = await web.target()
        ids = [await web.review(name) for name in ("Acme", "Globex", "Initech")]
        rows = [{"id": 1, "company_id": web.temp_id("Acme")}, {"id": 2, "company_id": web.temp_id("Globex")}]
        await web.mill.run(lambda connection: connection.execute(sa.insert(target), rows).close())
        page = await web.get("/reviews", limit=2)
        assert ([each["id"] for each in page["reviews"]], page["next"]) == (ids[:2], ids[1])
        assert page["reviews"][0]["candidates"][0]["company_id"] == "C1"
        rest = await web.get("/reviews", after=page["next"])
        assert [each["raw_name"] for each in rest["reviews"]] == ["Initech"]
        assert await web.post(f"/reviews/{ids[0]}", {"company_id": "C1", "by": "anna"}) == {"rows_written": 1}
        twice = await web.post(f"/reviews/{ids[0]}", {"company_id": "C2"}, 409)
        assert twice["code"] == "review_gone"
        assert "was decided by anna meanwhile: C1" in twice["message"]
        assert await web.post(f"/reviews/{ids[1]}", {"company_id": None}) == {"rows_written": 0}
        assert (await web.post("/reviews/999", {"company_id": "C1"}, 409))["code"] == "review_gone"
        found = await web.read(sa.select(target.c.company_id).order_by(target.c.id))
        assert [each for [each] in found] == ["C1", web.temp_id("Globex")]
        row = (await web.rows())["Acme"]
        assert (row.status, row.resolved_company_id, row.resolved_by) == ("done", "C1", "anna")


@pytest.mark.parametrize("company", ["", "   ", "x" * 101, "a\x00b"])
async def test_an_id_that_is_none_is_refused(database_url: str, company: str) -> None:
    async with served(database_url) as web:
        review = await web.review("Acme")
        await web.post(f"/reviews/{review}", {"company_id": company}, 422)
        assert [each["id"] for each in (await web.get("/reviews"))["reviews"]] == [review]


async def test_who_decides_may_be_anything(database_url: str) -> None:
    async with served(database_url) as web:
        for number, by in enumerate(["x" * 200, "a\x00b", HOSTILE]):
            await web.post(f"/reviews/{await web.review(f'Acme {number}')}", {"company_id": "C1", "by": by})
        assert (await web.rows())["Acme 1"].resolved_by == "ab"


@pytest.mark.parametrize(
    ("method", "path", "given", "code"),
    [
        ("GET", "/enrichment-requests/999", None, 404),
        ("GET", "/enrichment-requests/0", None, 422),
        ("GET", f"/enrichment-requests/{2**63}", None, 422),
        ("GET", "/enrichment-requests/x%00", None, 422),
        ("GET", "/enrichment-requests?status=nope", None, 422),
        ("GET", "/enrichment-requests?status=%00", None, 422),
        ("GET", "/enrichment-requests?limit=0", None, 422),
        ("GET", f"/enrichment-requests?after={2**63}", None, 422),
        ("GET", "/stats?days=0", None, 422),
        ("GET", "/nowhere", None, 404),
        ("POST", "/resolve", {}, 422),
        ("POST", "/resolve", {"rows": [{}]}, 422),
        ("POST", "/resolve", {"rows": [{"name": "x" * 100_001}]}, 422),
        ("POST", "/resolve", {"rows": [{"name": "x"}] * 10_001}, 422),
        ("POST", "/reviews/1", {}, 422),
        ("PUT", "/resolve", {}, 405),
    ],
)
async def test_what_cannot_be_is_a_problem_with_a_code(
    sqlite_url: str, method: str, path: str, given: Any, code: int
) -> None:
    async with served(sqlite_url) as web:
        answer = await web.client.request(method, path, json=given)
        assert answer.status_code == code, answer.text
        assert set(answer.json()) >= {"code", "message"}


async def test_odd_names_are_resolved_as_any_other(database_url: str) -> None:
    async with served(database_url) as web:
        names = ["a\x00b Ltd", HOSTILE, "x" * 100_000, "\u202eevil", "  ", "🏢 Ltd"]
        found = (await web.post("/resolve", {"rows": [{"name": name, "plan_code": "\x00"} for name in names]}))["rows"]
        assert len(found) == len(names)
        assert (await web.post("/enrichment-requests/requeue?error_code=%00", None))["requeued"] == 0
        lone = await web.client.post(
            "/resolve", content=b'{"rows": [{"name": "a\\ud800"}]}', headers={"content-type": "application/json"}
        )
        assert lone.status_code in (200, 422), lone.text
