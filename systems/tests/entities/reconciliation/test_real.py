"""A knowledge base in a file, asked over HTTP: what it calls a match is what the linker links."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rowmill_systems.entities.kb.base import SqliteKnowledgeBase, open_knowledge_base
from rowmill_systems.entities.kb.build import build
from rowmill_systems.entities.linking.linker import Linker
from rowmill_systems.entities.sources.embedded import NAME, EmbeddedSource
from rowmill_systems.entities.things import Mention
from rowmill_systems.parts.names.types import EntityType
from systems.tests.entities.reconciliation.served import served
from systems.tests.entities.reconciliation.shapes import check

THINGS: list[dict[str, Any]] = [
    {
        "id": "paris",
        "name": "Paris",
        "types": ["place"],
        "aliases": ["City of Light"],
        "prominence": 0.9,
        "properties": {"country": ["france"], "population": [2_100_000]},
    },
    {"id": "france", "name": "France", "types": ["place"], "prominence": 0.95},
    {"id": "paris-texas", "name": "Paris", "types": ["place"], "prominence": 0.2, "properties": {"country": ["USA"]}},
    {"id": "paris-hilton", "name": "Paris Hilton", "types": ["person"], "prominence": 0.6},
    {"id": "Q7259", "name": "Ada Lovelace", "types": ["person"], "properties": {"birth_date": ["1815-12-10"]}},
    {"id": "acme", "name": "Acme Corporation", "types": ["organisation"], "aliases": ["ACME"]},
    *({"id": f"s{number}", "name": "John Smith", "types": ["person"]} for number in range(12)),
    {"id": "smith-town", "name": "John Smith", "types": ["place"]},
]
FRENCH = [{"pid": "country", "v": {"id": "france", "name": "France"}}]
QUERIES: list[dict[str, Any]] = [
    {"query": name, **more}
    for name in ("Paris", "paris", "Pariss", "Ada Lovelace", "Lovelace, Ada", "acme corp.", "John Smith", "Zzyzx")
    for more in ({}, {"type": "place"}, {"type": "person"}, {"properties": FRENCH}, {"type": "place", "limit": 1})
]


@pytest.fixture
def knowledge_base(tmp_path: Path) -> Iterator[SqliteKnowledgeBase]:
    source, target = tmp_path / "things.jsonl", tmp_path / "things.kb"
    source.write_text("".join(json.dumps(thing) + "\n" for thing in THINGS), "utf-8")
    build(source, target)
    opened = open_knowledge_base(target)
    yield opened
    opened.close()


async def test_a_match_is_what_the_linker_links(knowledge_base: SqliteKnowledgeBase) -> None:
    linker = Linker([EmbeddedSource(knowledge_base)], threshold=0.75, gap=0.15)
    linked = dict[str, str | None]()
    async with served(knowledge_base) as harness:
        answer = await harness.form(queries={str(number): query for number, query in enumerate(QUERIES)})
        said = check("reconciliation-result-batch", answer.json())
    for number, query in enumerate(QUERIES):
        known = {"country": {"id": "france", "label": "France"}} if "properties" in query else {}
        type = EntityType(query["type"]) if "type" in query else None
        link = (await linker.link(Mention(query["query"], type, known=known))).link
        matches = [each["id"] for each in said[str(number)]["result"] if each["match"]]
        assert matches == ([] if link is None else [link.id_in(NAME)]), query
        scores = [each["score"] for each in said[str(number)]["result"]]
        assert scores == sorted(scores, reverse=True)
        linked[str(query)] = None if link is None else link.id_in(NAME)
    assert {None, "paris", "Q7259", "acme"} <= set(linked.values()), "some are linked, and some are not"


async def test_an_id_is_found_by_it_unless_it_is_a_name_as_well(knowledge_base: SqliteKnowledgeBase) -> None:
    async with served(knowledge_base) as harness:
        best, *_ = await harness.results(query="Q7259")
        assert (best["name"], best["score"], best["match"]) == ("Ada Lovelace", 100.0, True)
        assert [each["match"] for each in await harness.results(query="paris")] == [
            each["match"] for each in await harness.results(query="Paris")
        ]


async def test_all_of_openrefine_s_steps(knowledge_base: SqliteKnowledgeBase) -> None:
    """Reconcile a column, fetch properties of what was matched, look at one, search for another by hand."""
    async with served(knowledge_base) as harness:
        manifest = check("manifest", (await harness.get()).json())
        cells = ["Ada Lovelace", "ACME", "Paris"]
        batch = {f"q{row}": {"query": cell, "properties": FRENCH} for row, cell in enumerate(cells)}
        said = check("reconciliation-result-batch", (await harness.form(queries=batch)).json())
        ids = [each["id"] for result in said.values() for each in result["result"] if each["match"]]
        assert ids == ["Q7259", "acme", "paris"]
        wanted = {"ids": ids, "properties": [{"id": "birth_date"}, {"id": "country"}, {"id": "alias"}]}
        rows = check("data-extension-response", (await harness.form(extend=wanted)).json())["rows"]
        assert rows["Q7259"]["birth_date"] == [{"date": "1815-12-10T00:00:00Z"}]
        assert rows["paris"]["country"] == [{"id": "france", "name": "France"}]
        assert rows["acme"]["alias"] == [{"str": "ACME"}]
        page = await harness.client.get(manifest["preview"]["url"].replace("{{id}}", "paris"))
        assert "City of Light" in page.text
        found = await harness.get("/suggest/entity", prefix="par")
        assert [each["id"] for each in found.json()["result"]][:2] == ["paris", "paris-hilton"]
        label = await harness.form(extend={"ids": ["paris-texas"], "properties": [{"id": "country"}]})
        assert label.json()["rows"]["paris-texas"]["country"] == [{"str": "USA"}], "no id that is another's"


async def test_half_characters_and_other_hostile_text_find_nobody(knowledge_base: SqliteKnowledgeBase) -> None:
    texts = [
        "\x00",
        "'; DROP TABLE things; --",
        '"*" OR NEAR(',
        "%_%",
        "\u202e\u2028",
        "🙂" * 100,
        "a" * 499,
        "(((((",
        "*",
    ]
    async with served(knowledge_base) as harness:
        for text in texts:
            assert not any(each["match"] for each in await harness.results(query=text)), text
            assert (await harness.get("/suggest/entity", prefix=text)).status_code == 200
            assert (await harness.get("/view", id=text)).status_code == 404
        half = await harness.client.get("/reconcile/view?id=%ED%A0%80")
        assert half.status_code == 404
