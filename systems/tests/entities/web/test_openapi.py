"""The description of the API says what is really answered, also where something is wrong."""

from typing import Any

import jsonschema

from systems.tests.entities.harness import FakeSource
from systems.tests.entities.served import served

WRONG: list[tuple[str, str, str, dict[str, Any], int]] = [
    ("POST", "/enrichment/queue/{entity_id}", "/enrichment/queue/nobody", {}, 404),
    ("POST", "/enrichment/queue/{entity_id}", "/enrichment/queue/nobody?fresh=perhaps", {}, 422),
    ("POST", "/enrichment/queue/{entity_id}", "/enrichment/queue/x", {"headers": {"host": "evil.example"}}, 400),
    ("POST", "/enrichment/queue/{entity_id}", "/enrichment/queue/x", {"headers": {"origin": "http://evil"}}, 403),
    ("GET", "/enrichment/stats", "/enrichment/stats", {"headers": {"host": "evil.example"}}, 400),
    ("GET", "/entities", "/entities?limit=0", {}, 422),
    ("POST", "/entities", "/entities", {"json": {}}, 422),
    ("POST", "/entities", "/entities", {"content": b"{", "headers": {"content-type": "application/json"}}, 422),
    ("GET", "/entities/{entity_id}", "/entities/nobody", {}, 404),
    ("GET", "/entities/{entity_id}", "/entities/a%00b", {}, 404),
    ("PATCH", "/entities/{entity_id}", "/entities/nobody", {"json": {"properties": {}}}, 404),
    ("PATCH", "/entities/{entity_id}", "/entities/nobody", {"json": {"properties": 1}}, 422),
    ("POST", "/entities/{entity_id}/link", "/entities/nobody/link", {"json": {"choice": "none"}}, 404),
    ("POST", "/entities/{entity_id}/link", "/entities/nobody/link", {"json": {"choice": "odd"}}, 422),
    ("POST", "/conflicts/{conflict_id}/decide", "/conflicts/1/decide", {"json": {"choice": "other"}}, 404),
    ("POST", "/conflicts/{conflict_id}/decide", "/conflicts/1/decide", {"json": {"choice": "value"}}, 422),
    ("GET", "/conflicts", "/conflicts?state=odd", {}, 422),
    ("GET", "/reconcile", "/reconcile?queries=%7B", {}, 400),
    ("POST", "/reconcile", "/reconcile", {"data": {"queries": "{"}}, 400),
    ("GET", "/reconcile/preview", "/reconcile/preview", {}, 422),
    ("GET", "/reconcile/preview", "/reconcile/preview?id=nobody", {}, 404),
    ("GET", "/reconcile/view", "/reconcile/view?id=nobody", {}, 404),
    ("GET", "/reconcile/suggest/entity", "/reconcile/suggest/entity?cursor=-1", {}, 422),
    ("GET", "/reconcile/flyout/entity", "/reconcile/flyout/entity?id=nobody", {}, 404),
    # The method that a path does not take is described with those that it takes.
    ("GET", "/enrichment/stats", "PUT /enrichment/stats", {}, 405),
    ("GET", "/entities", "DELETE /entities", {}, 405),
    ("GET", "/entities/{entity_id}", "PUT /entities/nobody", {}, 405),
]


async def test_what_goes_wrong_is_answered_as_described(sqlite_url: str) -> None:
    """E7."""
    async with served(sqlite_url, FakeSource()) as harness:
        document = await harness.get("/openapi.json")
        for method, path, asked, given, code in WRONG:
            verb, _, url = asked.rpartition(" ")
            answer = await harness.client.request(verb or method, url, **given)
            assert answer.status_code == code, f"{method} {asked}: {answer.text}"
            schema = schema_of(document, method, path, answer)
            if schema is not None:
                jsonschema.validate(answer.json(), schema)


def schema_of(document: dict[str, Any], method: str, path: str, answer: Any) -> Any:
    """Of the answer's status and type; None if it is no JSON."""
    responses = document["paths"][path][method.lower()]["responses"]
    content = responses[str(answer.status_code)]["content"]
    kind = answer.headers["content-type"].split(";")[0]
    assert set(content) == {kind}, f"{method} {path} {answer.status_code}"
    if kind != "application/json":
        return None
    return {**content[kind]["schema"], "components": document["components"]}


async def test_every_operation_says_what_it_does_and_answers(sqlite_url: str) -> None:
    async with served(sqlite_url, FakeSource()) as harness:
        document = await harness.get("/openapi.json")
        for path, verbs in document["paths"].items():
            for verb, operation in verbs.items():
                name = f"{verb} {path}"
                assert operation.get("description"), name
                assert operation.get("tags"), name
                assert next(one for code, one in operation["responses"].items() if code.startswith("2"))["content"]
        assert "HTTPValidationError" not in document["components"]["schemas"], "nothing answers so"
