"""F9, F12: suggestions over HTTP; of two who decide, one hears 409."""

import asyncio
from pathlib import Path

import pytest

from systems.tests.intake.harness import FakeAnalyzer
from systems.tests.intake.served import Served, served


async def one_file(harness: Served, text: str = "total: 12") -> tuple[str, list[int]]:
    location = (await harness.upload(text)).headers["location"]
    await harness.drain()
    return location, [one["id"] for one in (await harness.get(location))["suggestions"]]


async def test_a_suggestion_is_applied_and_the_project_knows(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        location, [total, number] = await one_file(harness, "total: 12\ninvoice_number: 7")
        answer = await harness.client.post(f"{location}/suggestions/{total}/apply", json={"by": "ann"})
        assert answer.status_code == 200
        assert (answer.json()["state"], answer.json()["decided_by"]) == ("applied", "ann")
        mine = await harness.client.post(f"{location}/suggestions/{number}/apply", json={"value": "8"})
        assert (mine.json()["value"], mine.json()["applied_value"]) == ("7", "8")
        known = await harness.get("/organizations/1/projects/1/fields")
        assert {field["field_key"]: field["value"] for field in known} == {"total": "12", "invoice_number": "8"}
        assert known[0]["decided_at"] is not None
        assert await harness.get("/organizations/1/projects/2/fields") == []


async def test_what_was_decided_answers_409_with_the_state(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        location, [total] = await one_file(harness)
        await harness.client.post(f"{location}/suggestions/{total}/reject")
        for verb in ("apply", "reject"):
            answer = await harness.client.post(f"{location}/suggestions/{total}/{verb}")
            assert (answer.status_code, answer.json()["state"]) == (409, "rejected")


async def test_of_many_at_once_one_is_applied_and_the_rest_hear_409(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        location, [total] = await one_file(harness)
        verbs = ["apply", "reject"] * 4
        answers = await asyncio.gather(
            *(harness.client.post(f"{location}/suggestions/{total}/{verb}") for verb in verbs)
        )
        codes = sorted(answer.status_code for answer in answers)
        assert codes == [200, *[409] * 7]
        [winner] = [verb for verb, answer in zip(verbs, answers, strict=True) if answer.status_code == 200]
        [shown] = (await harness.get(location))["suggestions"]
        assert shown["state"] == {"apply": "applied", "reject": "rejected"}[winner]


async def test_what_was_replaced_answers_409_and_another_file_404(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        location, [total] = await one_file(harness)
        await harness.client.post(f"{location}/requeue")
        await harness.drain()
        answer = await harness.client.post(f"{location}/suggestions/{total}/apply")
        assert (answer.status_code, answer.json()["state"]) == (409, None)
        gone = await harness.client.post(f"/organizations/1/projects/1/files/99/suggestions/{total}/apply")
        assert gone.status_code == 404


async def test_a_suggestion_that_never_was_is_404(database_url: str, tmp_path: Path) -> None:
    """F9: a number that nobody was given yet, and one of another file."""
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        first, [one] = await one_file(harness)
        second, [other] = await one_file(harness, "total: 13")
        for location, number in ((first, other), (second, one), (first, other + 1), (first, 2**62)):
            answer = await harness.client.post(f"{location}/suggestions/{number}/apply")
            assert (answer.status_code, answer.json()["code"]) == (404, "no_such_suggestion")


async def test_nothing_is_applied_while_the_file_is_processed(database_url: str, tmp_path: Path) -> None:
    """F9: the page says so, too."""
    analyzer = FakeAnalyzer()
    async with served(database_url, tmp_path, analyzer) as harness:
        location, [total] = await one_file(harness)
        analyzer.go.clear()
        analyzer.reading.clear()
        await harness.client.post(f"{location}/requeue")
        working = asyncio.create_task(harness.drain())
        await analyzer.reading.wait()
        answer = await harness.client.post(f"{location}/suggestions/{total}/apply")
        assert (answer.status_code, answer.json()["code"], answer.json()["state"]) == (409, "processing", "pending")
        page = (await harness.client.get("/review/1/1/files/1")).text
        assert 'value="apply" disabled' in page
        assert "can't be applied until that is done" in page.replace("&#39;", "'")
        rejected = await harness.client.post(f"{location}/suggestions/{total}/reject")
        assert rejected.status_code == 200
        analyzer.go.set()
        await working
        assert "disabled" not in (await harness.client.get("/review/1/1/files/1")).text


@pytest.mark.parametrize(
    "body",
    [
        rb'{"by": "a\u0000b"}',
        rb'{"value": "a\u0000b"}',
        rb'{"value": {"a\u0000b": 1}}',
        rb'{"value": ["\ud800"]}',
        b'{"value": NaN}',
        b'{"value": 1e999}',
        b'{"value": ' + b"[" * 200 + b"]" * 200 + b"}",
    ],
)
async def test_values_that_are_no_json_are_refused_and_spoil_nothing(
    database_url: str, tmp_path: Path, body: bytes
) -> None:
    """Some databases refuse them, others keep them, and then no file that has one can be shown."""
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        location, [total] = await one_file(harness)
        answer = await harness.client.post(
            f"{location}/suggestions/{total}/apply", content=body, headers={"content-type": "application/json"}
        )
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
        assert [one["state"] for one in (await harness.get(location))["suggestions"]] == ["pending"]
