"""K8: nothing without a login, and nobody does more than their role allows."""

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import jsonschema

from systems.tests.knowledge.web.served import ADMINISTRATOR, EDITOR, VIEWER, ServedKnowledge, served

OPEN = {"GET /health", "POST /api/v1/login"}
OF_EDITORS = {
    "POST /api/v1/kbs", "PATCH /api/v1/kbs/{kb_id}", "DELETE /api/v1/kbs/{kb_id}", "POST /api/v1/kbs/{kb_id}/documents",
    "DELETE /api/v1/documents/{document_id}", "POST /api/v1/documents/{document_id}/reprocess",
}  # fmt: skip


async def operations(served: ServedKnowledge) -> dict[str, Any]:
    described = (await served.client.get("/openapi.json", headers=await served.login(VIEWER))).json()
    return {f"{verb.upper()} {path}": one for path, verbs in described["paths"].items() for verb, one in verbs.items()}


def concrete(path: str) -> str:
    """Return a path that names things that are not there."""
    return re.sub(r"\{\w+\}", lambda found: "7" if "event" in found[0] else str(uuid4()), path)


async def test_every_operation_asks_for_a_login_and_a_role(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        found = await operations(harness)
        assert set(found) >= OPEN | OF_EDITORS
        assert sum("/admin/" in name for name in found) == 15
        for name in set(found) - OPEN:
            verb, path = name.split()
            for role in (None, VIEWER, EDITOR):
                if path.endswith("/logout"):
                    continue
                headers = {} if role is None else await harness.login(role)
                answer = await harness.client.request(verb, concrete(path), headers=headers, json={})
                refused = "no_login" if role is None else None
                if role is not None and ("/admin/" in path or (name in OF_EDITORS and role is VIEWER)):
                    refused = "role_needed"
                if refused is None:
                    assert answer.status_code not in (401, 403), (name, role, answer.text)
                else:
                    status = 401 if role is None else 403
                    assert (answer.status_code, answer.json()["code"]) == (status, refused), (name, role)
        health = await harness.client.get("/health")
        assert (health.status_code, health.json()) == (200, {"status": "ok"})


async def test_what_is_not_there_needs_a_login_too(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        for path in ("/", "/docs", "/openapi.json", "/search", "/nothing", "/api/v1/nothing", "/bases/x"):
            answer = await harness.client.get(path)
            assert (answer.status_code, answer.json()["code"]) == (401, "no_login"), path


async def test_every_operation_is_described_with_its_answers(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        for name, operation in (await operations(harness)).items():
            assert operation.get("description"), name
            assert operation.get("tags"), name
            codes = set(operation["responses"])
            assert {"400", "401", "403", "405", "413", "422", "503"} <= codes, name
            if "{" in name and "/search" not in name:
                assert "404" in codes, name
            good = next(code for code in codes if code.startswith("2"))
            assert good == "204" or operation["responses"][good]["content"], name


async def test_refusals_are_what_the_description_says(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, max_file_bytes=1000) as harness:
        described = (await harness.client.get("/openapi.json", headers=await harness.login(VIEWER))).json()
        kb, nobody = await harness.kb(), uuid4()
        administrator: Any = {"role": ADMINISTRATOR}
        last = (await harness.json("GET", "/me", **administrator))["id"]
        upload, file = "/kbs/{kb_id}/documents", {"file": ("a", b"x")}
        too_early = {"created_from": "0001-01-01T00:00+14:00"}
        refusals = [
            ("post", "/login", 401, harness.ask("POST", "/login", role=None, json={"email": "a@b", "password": "x"})),
            ("post", "/login", 422, harness.ask("POST", "/login", role=None, json={"email": "a@b"})),
            ("post", "/kbs", 422, harness.ask("POST", "/kbs", json={"name": ""})),
            ("post", "/kbs", 422, harness.ask("POST", "/kbs", json={"name": "\x00 "})),
            ("post", "/kbs", 422, harness.ask("POST", "/kbs", content=b'{"name": "\\ud800"}')),
            ("post", "/kbs", 403, harness.ask("POST", "/kbs", headers={"origin": "https://evil.example"}, json={})),
            ("post", "/kbs", 405, harness.ask("PUT", "/kbs", json={})),
            ("get", "/kbs/{kb_id}", 404, harness.ask("GET", f"/kbs/{nobody}")),
            ("get", "/kbs/{kb_id}", 422, harness.ask("GET", "/kbs/x")),
            ("patch", "/kbs/{kb_id}", 404, harness.ask("PATCH", f"/kbs/{nobody}", json={"name": "a"})),
            ("delete", "/kbs/{kb_id}", 404, harness.ask("DELETE", f"/kbs/{nobody}")),
            ("get", "/kbs", 404, harness.ask("GET", "/kbs?after=x")),
            ("post", upload, 404, harness.ask("POST", f"/kbs/{nobody}/documents", files=file)),
            ("post", upload, 413, harness.upload(kb, b"x" * 1001)),
            ("post", upload, 413, harness.upload(kb, b"x" * 100_000)),
            ("post", upload, 422, harness.upload(kb, b"")),
            ("post", upload, 422, harness.ask("POST", f"/kbs/{kb}/documents", content=b"x")),
            ("get", upload, 422, harness.ask("GET", f"/kbs/{kb}/documents?status=deleting")),
            ("get", "/documents/{document_id}", 404, harness.ask("GET", f"/documents/{nobody}")),
            ("delete", "/documents/{document_id}", 404, harness.ask("DELETE", f"/documents/{nobody}")),
            ("get", "/documents/{document_id}/content", 404, harness.ask("GET", f"/documents/{nobody}/content")),
            ("post", "/search", 404, harness.ask("POST", "/search", json={"query": "a", "kb_ids": [str(nobody)]})),
            ("post", "/search", 422, harness.ask("POST", "/search", json={"query": "", "words": 1})),
            ("post", "/search", 422, harness.ask("POST", "/search", json={"query": "a", "filters": too_early})),
            ("get", "/admin/outbox", 422, harness.ask("GET", "/admin/outbox?event_type=%00", **administrator)),
            ("post", "/admin/outbox/{event_id}/requeue", 404,
             harness.ask("POST", "/admin/outbox/77/requeue", **administrator)),
            ("get", "/admin/outbox/stats", 403, harness.ask("GET", "/admin/outbox/stats")),
            ("get", "/admin/outbox/stats", 401, harness.ask("GET", "/admin/outbox/stats", role=None)),
            ("patch", "/admin/users/{user_id}", 409,
             harness.ask("PATCH", f"/admin/users/{last}", json={"role": "viewer"}, **administrator)),
            ("delete", "/admin/users/{user_id}", 404, harness.ask("DELETE", f"/admin/users/{nobody}", **administrator)),
            ("delete", "/me/tokens/{token_id}", 404, harness.ask("DELETE", f"/me/tokens/{nobody}")),
        ]  # fmt: skip
        for verb, path, status, asked in refusals:
            answer = await asked
            assert answer.status_code == status, (verb, path, answer.text)
            said = described["paths"][f"/api/v1{path}"][verb]["responses"]
            if status == 404 and str(status) not in said:
                assert answer.json()["code"] == "no_such_page"
                continue
            schema = said[str(status)]["content"]["application/json"]["schema"]
            jsonschema.validate(answer.json(), {**schema, "components": described["components"]})
            assert set(answer.json()) == {"code", "message"}
        assert (await harness.json("GET", f"/kbs/{kb}/documents"))["documents"] == []
        assert not [path for path in (tmp_path / "files").rglob("*") if path.is_file()]


async def test_texts_that_are_too_long_are_counted_in_characters(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        asked = [
            await harness.ask("POST", "/search", json={"query": "x" * 4001}),
            await harness.ask("POST", "/search", json={"query": "x", "filters": {"filename": "x" * 4001}}),
            await harness.ask("POST", "/answers", json={"question": "x" * 4001}),
            await harness.ask("GET", "/search", params={"q": "x", "filename": "x" * 4001}),
            await harness.ask("GET", "/admin/outbox", role=ADMINISTRATOR, params={"event_type": "x" * 4001}),
        ]
        for answer in asked:
            assert answer.status_code == 422
            assert answer.json()["message"].endswith("characters"), answer.text


async def test_the_schema_of_the_outbox_has_the_name_that_clients_know(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        described = (await harness.client.get("/openapi.json", headers=await harness.login(VIEWER))).json()
        assert described["components"]["schemas"]["OutboxStatsOut"]["title"] == "OutboxStats"
