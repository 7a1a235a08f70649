"""Batches of queries, as OpenRefine and others send them."""

import json
import threading
from typing import Any

import pytest

from rowmill_systems.entities.reconciliation.matching import mentions_of
from rowmill_systems.entities.reconciliation.queries import (
    LONGEST_NAME,
    LONGEST_VALUE,
    MOST_CANDIDATES,
    MOST_PROPERTIES,
    MOST_QUERIES,
    Query,
)
from rowmill_systems.parts.names.types import EntityType
from systems.tests.entities.reconciliation.sample_kb import SampleKnowledgeBase
from systems.tests.entities.reconciliation.served import served
from systems.tests.entities.reconciliation.shapes import check


async def test_a_batch_is_answered_query_by_query() -> None:
    batch = {"q0": {"query": "Ada Lovelace"}, "q1": {"query": "Nobody At All"}, "ä\u2028": {"query": "London"}}
    async with served() as harness:
        answer = await harness.form(queries=batch)
        said = check("reconciliation-result-batch", answer.json())
        assert list(said) == list(batch)
        best = said["q0"]["result"][0]
        assert 80 < best["score"] < 100
        assert (best["id"], best["name"], best["match"], best["score"]) == ("t1", "Ada Lovelace", True, best["score"])
        assert best["type"] == [{"id": "person", "name": "Person"}]
        assert best["description"] == "English mathematician"
        assert said["q1"] == {"result": []}
        for again in (
            await harness.get(queries=json.dumps(batch)),
            await harness.client.post("/reconcile", files={"queries": (None, json.dumps(batch))}),
        ):
            assert again.json() == said


OPENREFINE_S = {
    "query": "London",
    "type": "place",
    "type_strict": "should",
    "properties": [
        {"pid": "population", "v": "422324"},
        {"pid": "founded", "v": "1855-01-01T00:00:00Z"},
        {"pid": "country", "v": {"id": "Q16", "name": "Canada"}},
        {"pid": "area", "v": 420.57},
        {"pid": "no_such_property", "v": "x"},
    ],
    "limit": 5,
}
"""As OpenRefine 3 writes it: text, one type that should fit, columns of which one is reconciled."""


async def test_openrefine_s_own_request() -> None:
    async with served() as harness:
        best, *others = await harness.results(**OPENREFINE_S)
    assert (best["id"], best["match"]) == ("t3", True)
    assert {each["id"] for each in others} == {"t2", "t4"}


def test_what_the_client_knows_is_what_the_linker_hears() -> None:
    [mention] = mentions_of(Query.model_validate(OPENREFINE_S))
    assert (mention.name, mention.type) == ("London", EntityType.PLACE)
    assert mention.known == {
        "population": "422324",
        "founded": "1855-01-01T00:00:00Z",
        "country": {"id": "Q16", "label": "Canada"},
        "area": 420.57,
    }
    given: list[tuple[str, Any]] = [
        ("employees", 0),
        ("coordinates", "51.5, -0.12"),
        ("isbn", ["1", {"id": "x"}]),
        ("award", ""),
        ("award", "Turing"),
        ("genre", []),
        ("website", "x" * 5000),
    ]
    asked = {"query": " Ada ", "properties": [{"pid": pid, "v": value} for pid, value in given]}
    [mention] = mentions_of(Query.model_validate(asked))
    assert (mention.name, mention.type) == ("Ada", None)
    assert mention.known == {
        "employees": 0,
        "coordinates": {"lat": 51.5, "lon": -0.12},
        "isbn": ["1", {"id": "x", "label": ""}],
        "award": "Turing",
        "website": "x" * LONGEST_VALUE,
    }
    several = mentions_of(Query.model_validate({"query": "Ada", "type": ["person", "human", "city", "?"]}))
    assert [each.type for each in several] == [EntityType.PERSON, EntityType.PLACE]


async def test_a_match_is_what_would_be_linked_and_nothing_else() -> None:
    async with served() as harness:
        namesakes = await harness.results(query="London")
        assert [each["id"] for each in namesakes] == ["t2", "t3", "t4"], "the best known first among equals"
        assert not any(each["match"] for each in namesakes), "nobody is ahead"

        told = await harness.results(query="London", properties=[{"pid": "population", "v": 422324}])
        assert [(each["id"], each["match"]) for each in told] == [("t3", True), ("t4", False), ("t2", False)]

        unlike = await harness.results(query="Lovelace")
        assert [(each["id"], each["match"]) for each in unlike] == [("t1", False)], "below the threshold"


async def test_types_are_wishes_unless_they_are_said_to_be_more() -> None:
    async with served() as harness:

        async def found(**query: Any) -> list[str]:
            return [each["id"] for each in await harness.results(query="London", **query)]

        assert await found(type="work") == ["t4", "t2", "t3"]
        assert await found(type=["work"], type_strict="should") == ["t4", "t2", "t3"]
        assert await found(type=["work", "person"], type_strict="any") == ["t4"]
        assert await found(type=["work", "place"], type_strict="any") == ["t2", "t3", "t4"]
        assert await found(type=["work", "place"], type_strict="all") == []
        assert await found(type=["place", "Place"], type_strict="all") == ["t2", "t3"]
        assert await found(type="Q_unknown") == ["t2", "t3", "t4"]
        assert await found(type="Q_unknown", type_strict="any") == []
        assert await found(type=["place", "Q_unknown"], type_strict="all") == []
        assert await found(type=[], type_strict="any") == ["t2", "t3", "t4"]
        assert (await harness.results(query="London", type="work"))[0]["match"]


async def test_of_several_types_the_one_that_fits_counts() -> None:
    async with served() as harness:
        best, *_ = await harness.results(query="Ada Lovelace", type=["event", "person"])
        [alone, *_] = await harness.results(query="Ada Lovelace", type="person")
        assert best == alone
        assert best["match"]
        features = {each["id"]: each["value"] for each in best["features"]}
        assert features == {"name": 1.0, "type": 1.0, "facts": 0.0, "prominence": 0.9}


async def test_an_id_is_found_and_is_a_match() -> None:
    async with served() as harness:
        [best] = await harness.results(query=" t3 ")
        assert (best["id"], best["score"], best["match"]) == ("t3", 100.0, True)


async def test_no_more_than_wanted_and_no_more_than_we_give() -> None:
    async with served() as harness:
        assert len(await harness.results(query="London", limit=1)) == 1
        assert len(await harness.results(query="mill", limit=12)) == 12
        assert len(await harness.results(query="mill", limit=1e6)) == MOST_CANDIDATES
        assert len(await harness.results(query="mill", limit=0)) == len(await harness.results(query="mill")) == 10
        [best] = await harness.results(query="London", limit=1)
        assert best["match"] is False, "the ones that are left off count as well"


async def test_what_names_nobody_finds_nobody() -> None:
    async with served() as harness:
        for query in ({"query": ""}, {"query": " \t"}, {"query": "x" * (LONGEST_NAME + 1)}):
            assert await harness.results(**query) == []
        assert await harness.results(properties=[{"pid": "birth_date", "v": "1815"}]) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '"q0"',
        '{"q0": null}',
        '{"q0": []}',
        '{"q0": {}}',
        '{"q0": {"query": 1}}',
        '{"q0": {"query": null}}',
        '{"q0": {"query": "a", "type": 1}}',
        '{"q0": {"query": "a", "type_strict": "never"}}',
        '{"q0": {"query": "a", "limit": -1}}',
        '{"q0": {"query": "a", "limit": NaN}}',
        '{"q0": {"query": "a", "limit": 1e999}}',
        '{"q0": {"query": "a", "props": []}}',
        '{"q0": {"query": "a", "properties": [{"pid": "x"}]}}',
        '{"q0": {"query": "a", "properties": [{"pid": "x", "v": null}]}}',
        '{"q0": {"query": "a", "properties": [{"pid": "x", "v": [[1]]}]}}',
        '{"q0": {"query": "secret\\ud800"}}',
        "[" * 100_000,
        '{"q0": {"query": "a", "limit": ' + "9" * 5000 + "x}}",
    ],
)
async def test_what_is_no_batch_is_refused_with_a_reason(text: str) -> None:
    async with served() as harness:
        answer = await harness.form(queries=text)
        assert answer.status_code == 400, answer.text
        assert set(answer.json()) == {"code", "message"}
        assert answer.json()["code"] == "unreadable"
        assert "secret" not in answer.text


async def test_too_much_at_once_is_refused() -> None:
    one = {"query": "Ada"}
    async with served() as harness:
        just = await harness.form(queries={f"q{number}": one for number in range(MOST_QUERIES)})
        assert just.status_code == 200
        for queries in (
            {f"q{number}": one for number in range(MOST_QUERIES + 1)},
            {"q0": {**one, "properties": [{"pid": "award", "v": "x"}] * (MOST_PROPERTIES + 1)}},
            {"q0": {**one, "properties": [{"pid": "award", "v": ["x"] * 1000}]}},
            {"q0": {**one, "type": ["person"] * 1000}},
        ):
            answer = await harness.form(queries=queries)
            assert (answer.status_code, answer.json()["code"]) == (413, "too_many")
        for large in (
            await harness.form(queries="x" * 3_000_000),
            await harness.client.post("/reconcile", files={"queries": (None, "x" * 3_000_000)}),
        ):
            assert (large.status_code, large.json()["code"]) == (413, "too_large")


async def test_a_form_that_asks_nothing_is_told_so() -> None:
    async with served() as harness:
        for answer in (
            await harness.form(other="x"),
            await harness.client.post("/reconcile"),
            await harness.client.post("/reconcile", json={"q0": {"query": "Ada"}}),
            await harness.client.post("/reconcile", files={"queries": ("a.json", "{}")}),
        ):
            assert (answer.status_code, set(answer.json())) == (400, {"code", "message"})


async def test_the_knowledge_base_is_read_beside_the_loop() -> None:
    sample_kb = SampleKnowledgeBase()
    async with served(sample_kb) as harness:
        await harness.results(query="Ada")
        await harness.get("/suggest/entity", prefix="Ada")
    assert sample_kb.threads
    assert threading.get_ident() not in sample_kb.threads
