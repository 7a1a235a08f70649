"""Entities put in, listed, looked at and changed, over HTTP."""

import json
import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill_systems.entities.web import bulk
from systems.tests.entities.harness import FakeSource
from systems.tests.entities.served import Served, served


def fake_source() -> FakeSource:
    found = FakeSource()
    found.learn(
        "Ada Lovelace", "Q7259", birth_date="1815-12-10", occupation=({"id": "Q170790", "label": "mathematician"},)
    )
    return found


async def sent(harness: Served, *lines: object, cut: int = 7) -> Any:
    """As a stream, in small pieces."""
    body = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)

    async def pieces() -> Any:
        for start in range(0, len(body), cut):
            yield body[start : start + cut]

    return await harness.client.post(
        "/entities/bulk", content=pieces(), headers={"content-type": "application/x-ndjson"}
    )


async def test_one_is_put_in_enriched_and_shown_with_who_says_what(database_url: str) -> None:
    async with served(database_url, fake_source()) as harness:
        given = {"name": " Ada Lovelace ", "entity_type": "person", "properties": {"birth_date": "1816"}}
        answer = await harness.client.post("/entities", json=given)
        assert answer.status_code == 201
        assert (answer.json()["name"], answer.json()["enrichment_status"]) == ("Ada Lovelace", "PENDING")
        await harness.drain()
        found = await harness.get(answer.headers["location"])
        assert (found["enrichment_status"], found["wikidata_id"], found["linking_source"]) == (
            "COMPLETE",
            "Q7259",
            "wikidata",
        )
        assert found["properties"] == {"birth_date": "1816"}
        assert found["enriched_properties"]["birth_date"] == [
            {"value": "1816", "sources": [{"source": "local", "ref": None}]}
        ]
        assert found["enriched_properties"]["occupation"][0]["sources"] == [{"source": "wikidata", "ref": "Q7259"}]
        assert {fact["property"] for fact in found["facts"]} == {"birth_date", "occupation"}
        [conflict] = found["conflicts"]
        assert (conflict["current_value"], conflict["other_value"]) == ("1816", "1815-12-10")
        assert [change["kind"] for change in found["history"]] == ["merged", "facts", "linked"]


async def test_very_many_are_put_in_as_they_come(database_url: str) -> None:
    async with served(database_url, fake_source()) as harness:
        lines = [{"name": f"Name {n}", "dataset": "d", "external_id": str(n)} for n in range(1203)]
        answer = await sent(harness, *lines, cut=1000)
        assert answer.json() == {"accepted": 1203, "there_already": 0, "refused": [], "refused_count": 0}
        again = await sent(harness, *lines[:700], {"name": "New"}, cut=100_000)
        assert again.json() == {"accepted": 1, "there_already": 700, "refused": [], "refused_count": 0}
        assert (await harness.get("/enrichment/stats"))["by_status"]["PENDING"] == 1204


async def test_lines_that_cant_be_taken_are_told_and_the_rest_is_taken(database_url: str) -> None:
    async with served(database_url, fake_source()) as harness:
        answer = await sent(
            harness, {"name": "Good"}, b"{broken", b"", {"name": ""}, {"nom": "x"}, {"name": "a\x00b"}, b'"text"',
            {"name": "x", "properties": [1]}, b'{"name": "\xff"}', {"name": "Good too", "context": None},
        )  # fmt: skip
        found = answer.json()
        assert (found["accepted"], found["refused_count"]) == (2, 7)
        assert [one["line"] for one in found["refused"]] == [2, 4, 5, 6, 7, 8, 9]
        assert "broken" not in answer.text, "a line is named, not quoted"


async def test_a_line_without_an_end_is_refused_and_no_more_is_kept_of_it(sqlite_url: str) -> None:
    async with served(sqlite_url, fake_source()) as harness:
        long = json.dumps({"name": "x", "context": "y" * (2 * bulk.LONGEST_LINE)}).encode()
        answer = await sent(harness, {"name": "before"}, long, {"name": "after"}, cut=50_000)
        assert (answer.json()["accepted"], [one["line"] for one in answer.json()["refused"]]) == (2, [2])


async def test_more_than_one_request_may_have(sqlite_url: str) -> None:
    async with served(sqlite_url, fake_source(), most_bulk_rows=10) as harness:
        answer = await sent(harness, *({"name": f"n{n}"} for n in range(11)))
        assert (answer.status_code, answer.json()["code"]) == (413, "too_many")


async def test_the_same_thing_of_a_dataset_is_there_once(database_url: str) -> None:
    async with served(database_url, fake_source()) as harness:
        given = {"name": "Ada Lovelace", "dataset": "people", "external_id": "7"}
        first, second = [await harness.client.post("/entities", json=given) for _ in range(2)]
        assert first.json()["id"] == second.json()["id"]
        assert len((await harness.get("/entities", dataset="people"))["entities"]) == 1


async def test_they_are_listed_page_by_page(database_url: str) -> None:
    async with served(database_url, fake_source()) as harness:
        await harness.put_all(*({"name": f"n{n}"} for n in range(5)))
        seen, after = [], None
        while True:
            page = await harness.get("/entities", limit=2, **({"after": after} if after else {}))
            seen += [one["name"] for one in page["entities"]]
            if (after := page["next"]) is None:
                break
        assert sorted(seen) == [f"n{n}" for n in range(5)]
        assert (await harness.get("/entities", status="COMPLETE"))["entities"] == []


async def test_other_local_facts_are_merged_again(database_url: str) -> None:
    async with served(database_url, fake_source()) as harness:
        id = await harness.put("Ada Lovelace", entity_type="person", properties={"birth_date": "1816"})
        await harness.drain()
        answer = await harness.client.patch(f"/entities/{id}", json={"properties": {"birth_date": "1815"}})
        found = answer.json()
        assert found["enriched_properties"]["birth_date"][0]["value"] == "1815"
        assert [conflict["state"] for conflict in found["conflicts"]] == ["settled"]
        assert [change["kind"] for change in found["history"]][:2] == ["merged", "edited"]


@pytest.mark.parametrize(
    "given",
    [{}, {"name": "  "}, {"name": "x" * 1001}, {"name": "x", "color": 1}, {"name": "x", "properties": {"a": "\x00"}}],
)
async def test_what_is_not_an_entity_is_refused(sqlite_url: str, given: dict[str, Any]) -> None:
    async with served(sqlite_url, fake_source()) as harness:
        answer = await harness.client.post("/entities", json=given)
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


async def test_unknown_ones_are_404(sqlite_url: str) -> None:
    async with served(sqlite_url, fake_source()) as harness:
        unknown = f"/entities/{uuid.uuid4()}"
        for answer in (await harness.client.get(unknown), await harness.client.patch(unknown, json={"properties": {}})):
            assert (answer.status_code, answer.json()["code"]) == (404, "no_such_entity")


async def test_every_operation_says_what_it_does(sqlite_url: str) -> None:
    async with served(sqlite_url, fake_source()) as harness:
        found = await harness.get("/openapi.json")
        assert {"/enrichment/stats", "/enrichment/queue/{entity_id}", "/entities", "/entities/bulk"} <= set(
            found["paths"]
        )
        for path, verbs in found["paths"].items():
            for verb, operation in verbs.items():
                assert operation.get("description"), (verb, path)
                assert operation.get("tags"), (verb, path)


async def test_the_knowledge_base_is_everybodys_or_not(sqlite_url: str) -> None:
    """At /reconcile: pages of other sites may ask it, unless that is switched off."""
    elsewhere = {"origin": "https://elsewhere.example", "sec-fetch-site": "cross-site"}
    asked = {"queries": json.dumps({"q0": {"query": "Berlin"}})}
    async with served(sqlite_url, fake_source()) as harness:
        answer = await harness.client.post("/reconcile", data=asked, headers=elsewhere)
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.json()["q0"]["result"][0]["name"] == "Berlin"
        assert (await harness.client.get("/reconcile", params={"callback": "f"})).text.startswith("/**/f(")
    async with served(sqlite_url, fake_source(), open_reconciliation=False) as harness:
        refused = await harness.client.post("/reconcile", data=asked, headers=elsewhere)
        assert refused.status_code == 403
        script = await harness.client.get("/reconcile", params={"callback": "f"})
        assert (script.status_code, script.json()["code"]) == (403, "not_open")
        ours = await harness.client.post("/reconcile", data=asked)
        assert ours.json()["q0"]["result"][0]["name"] == "Berlin"
        assert "access-control-allow-origin" not in ours.headers


NUMBER = 10**400


@pytest.mark.parametrize(
    "given",
    [
        {"birth_date": [None]},
        {"population": NUMBER},
        {"population": {"amount": NUMBER, "unit": "people"}},
        {"coordinates": {"lat": NUMBER, "lon": 1}},
    ],
)
async def test_odd_local_facts_keep_no_entity_from_being_merged(database_url: str, given: dict[str, Any]) -> None:
    source = FakeSource()
    source.learn("Ulm", "Q3012", birth_date="0850", population=126_000, coordinates={"lat": 48.4, "lon": 10.0})
    async with served(database_url, source) as harness:
        first, second = await harness.put_all({"name": "Ulm", "properties": given}, {"name": "Ulm"})
        await harness.drain()
        assert await harness.status(first) == "COMPLETE"
        answer = await harness.client.patch(f"/entities/{second}", json={"properties": given})
        assert answer.status_code == 200


@pytest.mark.parametrize(
    "path", ["/entities?status=%00", "/entities?dataset=a%00", "/browse?status=%00", "/browse?dataset=%00"]
)
async def test_text_that_no_database_keeps_is_refused_as_a_filter(database_url: str, path: str) -> None:
    async with served(database_url, fake_source()) as harness:
        assert (await harness.client.get(path)).status_code == 422


@pytest.mark.parametrize("given", [["1816"], "1816", []])
async def test_local_facts_that_are_no_object_say_nothing(database_url: str, given: Any) -> None:
    """Rows are written by SQL, too."""
    async with served(database_url, fake_source()) as harness:
        id = await harness.put("Ada Lovelace", entity_type="person")
        odd = sa.update(harness.tables.entity).values(properties=given)
        await harness.mill.run(lambda connection: connection.execute(odd).close())
        await harness.drain()
        assert (await harness.merged(id))["birth_date"] == ["1815-12-10"]
        assert (await harness.get(f"/entities/{id}"))["enrichment_status"] == "COMPLETE"
        assert (await harness.client.get(f"/browse/{id}")).status_code == 200
        answer = await harness.client.patch(f"/entities/{id}", json={"properties": {"birth_date": "1815"}})
        assert answer.json()["properties"] == {"birth_date": "1815"}
