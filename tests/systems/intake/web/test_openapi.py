"""The description of the API is complete, and pages are safe."""

from pathlib import Path
from typing import Any

import pytest

from tests.systems.intake.house import Scribe
from tests.systems.intake.served import served


async def test_every_operation_says_what_it_does_and_answers(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path, Scribe()) as house:
        found = await house.get("/openapi.json")
        operations: dict[str, Any] = {
            f"{verb} {path}": one for path, verbs in found["paths"].items() for verb, one in verbs.items()
        }
        assert len(operations) == 12
        for name, operation in operations.items():
            assert operation.get("description"), name
            assert operation.get("tags"), name
            good = next(answer for code, answer in operation["responses"].items() if code.startswith("2"))
            assert good["content"], name
        apply = next(one for name, one in operations.items() if name.endswith("/apply"))
        assert {"404", "409", "422"} <= set(apply["responses"])


@pytest.mark.parametrize("path", ["/", "/review/1/1", "/review/1/1?part=1", "/review/1/1/files/1", "/static/intake.js"])
async def test_pages_come_with_a_strict_policy_and_names_are_escaped(
    sqlite_url: str, tmp_path: Path, path: str
) -> None:
    async with served(sqlite_url, tmp_path, Scribe()) as house:
        await house.upload("total: <b>1</b>\n<i>x</i>: <u>y</u>", "<script>alert(1)</script>.txt")
        await house.drain()
        answer = await house.client.get(path)
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        for given in ("<script>alert", "<b>1", "<u>y"):
            assert given not in answer.text
        assert "http://" not in answer.text.replace("http://www.w3.org", "")
        assert "https://" not in answer.text


async def test_a_file_that_failed_says_why_on_its_page(sqlite_url: str, tmp_path: Path) -> None:
    scribe = Scribe()
    scribe.failure = ValueError("x")
    async with served(sqlite_url, tmp_path, scribe) as house:
        await house.upload("total: 1")
        await house.drain()
        assert "ValueError" in (await house.client.get("/review/1/1/files/1")).text
        assert "ValueError" in (await house.client.get("/review/1/1")).text
