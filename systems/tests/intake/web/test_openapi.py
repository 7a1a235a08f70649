"""The description of the API is complete, and pages are safe."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest

from systems.tests.intake.harness import FakeAnalyzer
from systems.tests.intake.served import FILES, Served, served


async def test_every_operation_says_what_it_does_and_answers(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path, FakeAnalyzer()) as harness:
        found = await harness.get("/openapi.json")
        operations: dict[str, Any] = {
            f"{verb} {path}": one for path, verbs in found["paths"].items() for verb, one in verbs.items()
        }
        assert len(operations) == 15
        for name, operation in operations.items():
            assert operation.get("description"), name
            assert operation.get("tags"), name
            good = next(answer for code, answer in operation["responses"].items() if code.startswith("2"))
            assert good["content"], name
        apply = next(one for name, one in operations.items() if name.endswith("/apply"))
        assert {"404", "409", "422"} <= set(apply["responses"])


FILE = "/organizations/{organization_id}/projects/{project_id}/files/{file_id}"


async def refusals(harness: Served, analyzer: FakeAnalyzer) -> list[tuple[str, int, httpx2.Response]]:
    """Real answers: the operation that gave each, and the status that it should have."""
    client, upload = harness.client, "post /organizations/{organization_id}/projects/{project_id}/files"
    location = (await harness.upload("total: 1")).headers["location"]
    await harness.drain()
    suggestion = f"{location}/suggestions/1"
    await client.post(f"{suggestion}/apply")
    apply = f"post {FILE}/suggestions/{{suggestion_id}}/apply"
    wrong = {"content-type": "multipart/form-data"}
    found = [
        (upload, 400, await client.post(FILES, content=b"--", headers=wrong)),
        (upload, 400, await client.post(FILES, headers={"host": "evil.example"})),
        (upload, 403, await client.post(FILES, headers={"origin": "https://evil.example"})),
        (upload, 405, await client.put(FILES)),
        (upload, 413, await client.post(FILES, files={"file": ("a", b"x" * 2000)})),
        (upload, 422, await client.post(FILES, data={"doc_type": "invoice"})),
        (upload, 422, await client.post(FILES, files={"file": ("a", b"")})),
        (f"get {FILE}", 404, await client.get(f"{FILES}/99")),
        (f"get {FILE}", 422, await client.get(f"{FILES}/x")),
        (f"get {FILE}/pages/{{number}}.png", 404, await client.get(f"{location}/pages/9.png")),
        (apply, 404, await client.post(f"{location}/suggestions/99/apply")),
        (apply, 409, await client.post(f"{suggestion}/apply")),
        (apply, 422, await client.post(f"{suggestion}/apply", json={"whom": "ann"})),
    ]
    analyzer.go.clear()
    analyzer.reading.clear()
    await client.post(f"{location}/requeue")
    working = asyncio.create_task(harness.drain())
    await analyzer.reading.wait()
    found.append((f"post {FILE}/requeue", 409, await client.post(f"{location}/requeue")))
    analyzer.go.set()
    await working
    return found


async def test_what_is_refused_is_refused_as_the_description_says(database_url: str, tmp_path: Path) -> None:
    """F12."""
    analyzer = FakeAnalyzer()
    async with served(database_url, tmp_path, analyzer, max_file_bytes=1000) as harness:
        described = await harness.get("/openapi.json")
        for name, status, answer in await refusals(harness, analyzer):
            assert answer.status_code == status, (name, answer.text)
            verb, path = name.split()
            said = described["paths"][path][verb]["responses"][str(status)]["content"]["application/json"]["schema"]
            strict = {**said, "components": described["components"], "unevaluatedProperties": False}
            jsonschema.validate(answer.json(), strict)
            assert set(answer.json()) <= set(properties(described, said)), name
        assert "HTTPValidationError" not in described["components"]["schemas"]


def properties(described: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = described["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]["properties"]
    return found


@pytest.mark.parametrize("path", ["/", "/review/1/1", "/review/1/1?q=a", "/review/1/1/files/1", "/static/intake.js"])
async def test_pages_come_with_a_strict_policy_and_names_are_escaped(
    sqlite_url: str, tmp_path: Path, path: str
) -> None:
    async with served(sqlite_url, tmp_path, FakeAnalyzer()) as harness:
        await harness.upload("total: <b>1</b>\n<i>x</i>: <u>y</u>", "<script>alert(1)</script>.txt")
        await harness.drain()
        answer = await harness.client.get(path)
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        for given in ("<script>alert", "<b>1", "<u>y"):
            assert given not in answer.text
        assert "http://" not in answer.text.replace("http://www.w3.org", "")
        assert "https://" not in answer.text


async def test_a_file_that_failed_says_why_on_its_page(sqlite_url: str, tmp_path: Path) -> None:
    analyzer = FakeAnalyzer()
    analyzer.failure = ValueError("x")
    async with served(sqlite_url, tmp_path, analyzer) as harness:
        await harness.upload("total: 1")
        await harness.drain()
        assert "ValueError" in (await harness.client.get("/review/1/1/files/1")).text
        assert "ValueError" in (await harness.client.get("/review/1/1")).text
