"""K11: search and answers over HTTP."""

import json
from pathlib import Path

from systems.tests.knowledge.harness import PAPER
from systems.tests.knowledge.web.served import VIEWER, served
from systems.tests.model_server import Reply, model_server, saying


async def test_passages_are_found_and_quoted(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path) as harness:
        cranes, whales = await harness.kb("Cranes"), await harness.kb("Whales")
        document = await harness.document(cranes, PAPER, "cranes.md")
        other = await harness.document(whales, b"# Whales\n\nA whale sings.", "whales.md")
        found = await harness.json("POST", "/search", role=VIEWER, json={"query": "heavy loads"})
        hit = found["hits"][0]
        assert (hit["document_id"], hit["filename"], found["degraded"]) == (document, "cranes.md", None)
        assert "A crane lifts heavy loads." in hit["text"]
        assert [hit["text"][start:end].lower() for start, end in hit["highlights"]] == ["heavy", "loads"]
        by_address = await harness.json("GET", "/search", role=VIEWER, params={"q": "whale", "kb": whales})
        assert {each["document_id"] for each in by_address["hits"]} == {other}
        in_one = await harness.json("POST", f"/kbs/{cranes}/search", role=VIEWER, json={"query": "whale", "limit": 1})
        assert [each["kb_id"] for each in in_one["hits"]] == [cranes]
        for filters, number in (
            ({"filename": "WHALES"}, 1), ({"kinds": ["pdf"]}, 0), ({"documents": [document]}, 1),
            ({"created_before": "2020-01-01T00:00:00Z"}, 0),
        ):  # fmt: skip
            given = {"query": "whale", "filters": filters}
            hits = (await harness.json("POST", "/search", role=VIEWER, json=given))["hits"]
            assert len({each["document_id"] for each in hits}) == number, filters


async def test_questions_are_answered_with_citations(sqlite_url: str, tmp_path: Path) -> None:
    said = {"found": True, "statements": [{"text": "Cranes lift loads.", "passages": [1]}]}
    async with (
        model_server() as model,
        served(sqlite_url, tmp_path, endpoint_url=model.url, answer_model="m") as harness,
    ):
        document = await harness.document(await harness.kb(), PAPER)
        model.reply = lambda asked, number: saying(json.dumps(said))
        found = await harness.json("POST", "/answers", role=VIEWER, json={"question": "What lifts heavy loads?"})
        assert (found["outcome"], found["text"]) == ("answered", "Cranes lift loads. [1]")
        [citation] = found["citations"]
        assert (citation["number"], citation["hit"]["document_id"]) == (1, document)
        model.reply = lambda asked, number: Reply(status=401)
        away = await harness.json("POST", "/answers", role=VIEWER, json={"question": "What lifts heavy loads?"})
        assert (away["outcome"], away["text"], len(away["hits"]) > 0) == ("model_unavailable", None, True)


async def test_without_a_model_there_are_no_answers_and_it_says_so(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        answer = await harness.ask("POST", "/answers", role=VIEWER, json={"question": "Why?"})
        assert (answer.status_code, answer.json()["code"]) == (501, "no_answer_model")


async def test_nothing_of_what_was_deleted_is_found(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        kb = await harness.kb()
        document = await harness.document(kb, PAPER)
        await harness.json("DELETE", f"/documents/{document}", 202)
        assert (await harness.json("POST", "/search", json={"query": "crane"}))["hits"] == []
        await harness.json("DELETE", f"/kbs/{kb}", 202)
        await harness.json("POST", f"/kbs/{kb}/search", 404, json={"query": "crane"})
        assert (await harness.json("POST", "/search", json={"query": "crane"}))["hits"] == []
