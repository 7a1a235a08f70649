"""Pages over a real server, without a script: projects, files, review, applied fields."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill_systems.intake import reads
from rowmill_systems.intake.models import FieldSuggestion
from systems.tests.intake.harness import FakeAnalyzer
from systems.tests.intake.served import Served, served
from tests.support.html import ReadPage, read_page

HOSTILE = """<script>alert(1)</script>"'><img src=x onerror=alert(1)>{{ 7 * 7 }}"""
REVIEW = "/review/1/1"
FILE = f"{REVIEW}/files/1"
PAPER = "total: 12\ninvoice_number: 7\ncolour: red"


async def page_at(harness: Served, path: str, code: int = 200) -> ReadPage:
    answer = await harness.client.get(path, headers={"accept": "text/html"})
    assert answer.status_code == code, answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    return read_page(answer.text)


async def read_file(harness: Served, text: str = PAPER, name: str = "a.txt") -> list[int]:
    """Put a file in and read it. Returns the ids of its suggestions."""
    number = await harness.put(text, name=name)
    await harness.drain()
    return await harness.suggestion_ids(number)


async def decide(harness: Served, suggestion: int, code: int = 303, **form: str) -> str:
    answer = await harness.client.post(f"{FILE}/suggestions/{suggestion}", data=form)
    assert answer.status_code == code, answer.text
    return answer.headers.get("location") or answer.text


async def states(harness: Served) -> list[tuple[str, Any]]:
    wanted = sa.select(FieldSuggestion.state, FieldSuggestion.applied_value).order_by(FieldSuggestion.id)
    return [tuple(row) for row in await harness.read(wanted)]


async def test_every_page_is_well_formed_and_linked_from_another(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        [total, _] = await read_file(harness)
        await decide(harness, total, choice="apply")
        await harness.put(HOSTILE, name=HOSTILE)
        seen, waiting = set[str](), ["/"]
        while waiting:
            path = waiting.pop()
            page = await page_at(harness, path)
            assert len(page.all("h1")) == 1, path
            seen.add(path)
            for link in page.links():
                plain = link.partition("#")[0]
                is_page = plain.startswith("/") and not plain.startswith(("/organizations", "/openapi"))
                if is_page and plain not in seen and plain not in waiting:
                    waiting.append(plain)
        assert {"/", REVIEW, FILE, f"{REVIEW}/fields", "/looked-for", "/docs", f"{REVIEW}?state=queued"} <= seen


async def test_files_are_uploaded_by_a_form_alone(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        two = [("file", (f"{name}.txt", b"total: 1")) for name in "ab"]
        answer = await harness.client.post(REVIEW, files=two, data={"doc_type": "invoice"})
        assert (answer.status_code, answer.headers["location"]) == (303, REVIEW)
        assert (await harness.file(2)).doc_type == "invoice"
        refused = await harness.client.post(REVIEW, files=[*two, ("file", ("c.txt", b""))])
        assert refused.status_code == 422
        [alert] = [tag for tag in read_page(refused.text).tags if tag.attributes.get("role") == "alert"]
        assert "c.txt" in alert.text
        foreign = {"origin": "https://evil.example"}
        assert (await harness.client.post(REVIEW, files=two, headers=foreign)).status_code == 403


async def test_files_are_searched_sorted_and_paged(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "FILES_ON_A_PAGE", 2)
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        for name in ("beta.txt", "Alpha.txt", "gamma.txt", "100%.txt", "alpha 2.txt"):
            await harness.put("x" * len(name), name=name)

        async def names(path: str) -> list[str]:
            found: list[str] = []
            while path:
                page = await page_at(harness, path)
                found += [tag.text for tag in page.all("a") if tag.attributes["href"].startswith(f"{REVIEW}/files/")]
                path = next((tag.attributes["href"] for tag in page.all("a", rel="next")), "")
            return found

        assert await names(REVIEW) == ["alpha 2.txt", "100%.txt", "gamma.txt", "Alpha.txt", "beta.txt"]
        by_name = await names(f"{REVIEW}?sort=name")
        assert by_name == ["100%.txt", "alpha 2.txt", "Alpha.txt", "beta.txt", "gamma.txt"]
        assert await names(f"{REVIEW}?sort=-name") == by_name[::-1]
        assert await names(f"{REVIEW}?q=ALPHA&sort=size") == ["Alpha.txt", "alpha 2.txt"]
        assert await names(f"{REVIEW}?q=%25") == ["100%.txt"]
        assert await names(f"{REVIEW}?state=completed") == []
        for wrong in ("sort=secret", "after=x"):
            await page_at(harness, f"{REVIEW}?{wrong}", 404)


async def test_projects_are_listed_with_what_waits_and_the_latest_first(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        assert "No files yet" in (await harness.client.get("/")).text
        await read_file(harness)
        await harness.put("total: 1", organization=2, project=3)
        rows = (await page_at(harness, "/")).all("tr", data_item="")
        assert [row.text.split()[:4] for row in rows] == [
            ["Project", "3", "Organization", "2"],
            ["Project", "1", "Organization", "1"],
        ]
        numbers = [[word for word in row.text.split() if word.isdecimal()][2:6] for row in rows]
        assert numbers == [["1", "1", "0", "0"], ["1", "0", "0", "2"]]
        opened = await harness.client.get("/review", params={"organization_id": 5, "project_id": 6})
        assert (opened.status_code, opened.headers["location"]) == (303, "/review/5/6")


async def test_suggestions_come_by_certainty_in_the_order_of_the_catalogue(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        await harness.put("Total: EUR 12.00\nInvoice date: 2026-03-31\nInvoice number: 4711\n")
        await harness.drain()
        unsure = sa.update(FieldSuggestion).where(FieldSuggestion.field_key == "invoice_number").values(confidence=0.6)
        await harness.mill.run(lambda connection: connection.execute(unsure).close())
        page = await page_at(harness, FILE)
        order = [field.key for field in harness.intake.catalogue.fields]
        keys = {
            id: key for id, (key, _, _) in enumerate(await harness.suggestions(1), (await harness.suggestion_ids(1))[0])
        }
        shown = [
            keys[int(tag.attributes["data-suggestion"])] for tag in page.all("li") if "data-item" in tag.attributes
        ]
        assert shown == [*sorted((key for key in shown if key != "invoice_number"), key=order.index), "invoice_number"]
        [low] = [tag for tag in page.all("span") if tag.attributes.get("class") == "confidence unsure"]
        assert low.text == "60 %"


async def test_a_decision_is_made_edited_and_undone_by_forms(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        [total, number] = await read_file(harness)
        assert await decide(harness, total, choice="apply") == FILE
        assert await decide(harness, number, choice="apply-edited", text=" 8 ") == FILE
        assert await states(harness) == [("applied", None), ("applied", "8")]
        assert await decide(harness, total, choice="edit", text="13", back="fields") == f"{REVIEW}/fields"
        known = await harness.get("/organizations/1/projects/1/fields")
        assert {field["field_key"]: field["value"] for field in known} == {"total": "13", "invoice_number": "8"}
        assert await decide(harness, number, choice="undo") == FILE
        assert await states(harness) == [("applied", "13"), ("pending", None)]
        assert await decide(harness, number, choice="reject") == FILE
        assert await decide(harness, number, choice="undo") == FILE
        assert await states(harness) == [("applied", "13"), ("pending", None)]


async def test_what_can_t_be_done_is_said_on_the_page(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        [total, number] = await read_file(harness)
        await decide(harness, total, choice="reject")
        for form, code, words in (
            ({"choice": "apply"}, 409, "rejected by now"),
            ({"choice": "edit", "text": "1"}, 409, "rejected by now"),
            ({"choice": "edit"}, 422, "write a value"),
            ({"choice": "edit", "text": "x" * 20_001}, 422, "at most"),
            ({"choice": "edit", "text": "a\x00b"}, 422, "NUL"),
            ({"choice": "what"}, 422, "choose what to do"),
        ):
            page = read_page(await decide(harness, total, code, **form))
            [alert] = [tag for tag in page.tags if tag.attributes.get("role") == "alert"]
            assert "Not done" in alert.text
            assert words in alert.text
        assert "Not done" in await decide(harness, number, 409, choice="undo", back="fields")
        assert (
            await harness.client.post(f"{REVIEW}/files/9/suggestions/1", data={"choice": "undo"})
        ).status_code == 404
        assert await states(harness) == [("rejected", None), ("pending", None)]


async def test_all_that_is_sure_is_applied_together(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        [total, _] = await read_file(harness)
        low = sa.update(FieldSuggestion).where(FieldSuggestion.id == total).values(confidence=0.89)
        await harness.mill.run(lambda connection: connection.execute(low).close())
        answer = await harness.client.post(f"{FILE}/apply-sure")
        assert (answer.status_code, answer.headers["location"]) == (303, FILE)
        assert await states(harness) == [("pending", None), ("applied", None)]


async def test_a_file_is_read_again_by_a_form(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        await read_file(harness)
        assert (await harness.client.post(f"{FILE}/requeue")).status_code == 303
        assert (await harness.file(1)).processing_status == "queued"


async def test_an_undone_suggestion_is_replaced_when_the_file_is_read_again(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        [total, _] = await read_file(harness)
        await decide(harness, total, choice="apply")
        await decide(harness, total, choice="undo")
        await harness.client.post(f"{FILE}/requeue")
        await harness.drain()
        assert [state for _, _, state in await harness.suggestions(1)] == ["pending", "pending"]
        assert total not in await harness.suggestion_ids(1)


async def test_applied_fields_are_searched_sorted_and_exported(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        for suggestion in await read_file(harness, "total: =1+1\ninvoice_number: ä;7", name="=evil().txt"):
            await decide(harness, suggestion, choice="apply")

        async def fields(query: str) -> list[str]:
            page = await page_at(harness, f"{REVIEW}/fields?{query}")
            return [tag.text for tag in page.all("td") if tag.attributes.get("class") == "main"]

        assert len(await fields("")) == 2
        assert await fields("sort=-field") == (await fields("sort=field"))[::-1]
        assert len(await fields("q=%C3%A4")) == 1
        assert await fields("q=nothing") == []
        await page_at(harness, f"{REVIEW}/fields?sort=secret", 404)
        answer = await harness.client.get("/organizations/1/projects/1/fields.csv")
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert "attachment" in answer.headers["content-disposition"]
        rows = list(csv.DictReader(io.StringIO(answer.text.removeprefix("\ufeff"))))
        assert {row["field"]: row["value"] for row in rows} == {"total": "'=1+1", "invoice_number": "ä;7"}
        assert {row["file"] for row in rows} == {"'=evil().txt"}


async def test_the_api_edits_and_undoes_too(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        [total, _] = await read_file(harness)
        path = f"/organizations/1/projects/1/files/1/suggestions/{total}"
        assert (await harness.client.put(f"{path}/value", json={"value": 1})).status_code == 409
        await harness.client.post(f"{path}/apply", json={"by": "ann"})
        edited = await harness.client.put(f"{path}/value", json={"value": {"amount": "3", "currency": None}})
        assert (edited.json()["applied_value"], edited.json()["decided_by"]) == (
            {"amount": "3", "currency": None},
            "ann",
        )
        undone = await harness.client.post(f"{path}/undo")
        assert (undone.json()["state"], undone.json()["decided_at"], undone.json()["applied_value"]) == (
            "pending", None, None,
        )  # fmt: skip
        assert (await harness.client.post(f"{path}/undo")).status_code == 409


@pytest.mark.parametrize("prefix", ["", "/tools"])
async def test_pages_and_redirects_lead_through_a_proxy(sqlite_url: str, tmp_path: Path, prefix: str) -> None:
    async with served(sqlite_url, tmp_path, FakeAnalyzer()) as harness:
        harness.client.headers["x-forwarded-prefix"] = prefix
        [total, _] = await read_file(harness)
        assert await decide(harness, total, choice="apply") == f"{prefix}{FILE}"
        uploaded = await harness.upload("total: 3")
        assert uploaded.headers["location"] == f"{prefix}/organizations/1/projects/1/files/2"
        for path in ("/", REVIEW, FILE, f"{REVIEW}/fields", "/looked-for"):
            page = await page_at(harness, path)
            forms = [tag.attributes["action"] for tag in page.all("form")]
            assert all(link.startswith((f"{prefix}/", "#")) for link in (*page.links(), *forms)), path


async def test_a_wrong_address_is_a_page_for_a_browser(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path, FakeAnalyzer()) as harness:
        for path in ("/nothing", "/review/1/1/files/99", "/organizations/1/projects/1/files/99"):
            page = await page_at(harness, path, 404)
            assert page.all("p", role="alert")
            assert set((await harness.client.get(path)).json()) == {"code", "message"}
