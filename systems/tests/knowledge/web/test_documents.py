"""K11: knowledge bases and their documents over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from systems.tests.knowledge.harness import PAPER, drain, scalars, sql
from systems.tests.knowledge.web.served import API, EDITOR, VIEWER, served


async def test_a_document_is_uploaded_processed_read_and_deleted(database_url: str, tmp_path: Path) -> None:
    """K11."""
    async with served(database_url, tmp_path) as harness:
        kb = await harness.kb()
        taken = await harness.upload(kb, PAPER, "papers/cranes.md")
        assert (taken.status_code, taken.json()["status"]) == (202, "pending")
        status_url = taken.json()["status_url"]
        assert (taken.json()["filename"], taken.headers["location"]) == ("cranes.md", status_url)
        path = status_url.removeprefix(API)
        waiting = await harness.json("GET", path, role=VIEWER)
        assert (waiting["status"], waiting["events"][0]["event_type"]) == ("pending", "document.process")
        await drain(harness.knowledge)
        ready = await harness.json("GET", path, role=VIEWER)
        assert (ready["status"], ready["error"], ready["chunk_count"]) == ("ready", None, ready["progress_done"])
        assert {place["name"]: place["state"] for place in ready["places"]} == dict.fromkeys(
            ("Database", "Object", "Full text", "Vectors"), "here"
        )
        assert (await harness.json("GET", f"/kbs/{kb}"))["documents"]["ready"] == 1
        again = await harness.json("POST", f"{path}/reprocess", 202)
        assert again == {"id": ready["id"], "requested": "processing"}
        await drain(harness.knowledge)
        assert (await harness.json("GET", path))["status"] == "ready"
        await harness.json("DELETE", path, 202)
        await harness.json("DELETE", path, 202)
        await harness.json("GET", path, 404)
        assert (await harness.json("GET", f"/kbs/{kb}/documents"))["documents"] == []
        await drain(harness.knowledge)
        assert await scalars(harness.knowledge, "SELECT status FROM documents") == ["archived"]


async def test_what_failed_says_why_and_what_to_do(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        document = (await harness.upload(await harness.kb(), PAPER)).json()["id"]
        await sql(harness.knowledge, "UPDATE documents SET status = 'failed', error_code = 'encrypted'")
        found = await harness.json("GET", f"/documents/{document}", role=VIEWER)
        assert (found["status"], found["error_code"]) == ("failed", "encrypted")
        assert found["error"] == {"what": "The file needs a password.", "to_do": "Upload it without one."}


async def test_knowledge_bases_are_created_renamed_listed_and_deleted(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path) as harness:
        created = await harness.ask("POST", "/kbs", json={"name": "Whales", "description": "Of the sea."})
        whales = created.json()
        assert (created.status_code, created.headers["location"]) == (201, f"{API}/kbs/{whales['id']}")
        for name in ("Ants", "Bees"):
            await harness.kb(name)
        renamed = await harness.json("PATCH", f"/kbs/{whales['id']}", json={"name": "Cranes"})
        assert (renamed["name"], renamed["description"]) == ("Cranes", "Of the sea.")
        first = await harness.json("GET", "/kbs?limit=2", role=VIEWER)
        assert [each["name"] for each in first["knowledge_bases"]] == ["Ants", "Bees"]
        second = await harness.json("GET", "/kbs", role=VIEWER, params={"limit": 2, "after": first["next"]})
        assert ([each["name"] for each in second["knowledge_bases"]], second["next"]) == (["Cranes"], None)
        assert len((await harness.json("GET", "/kbs?q=EE"))["knowledge_bases"]) == 1
        await harness.upload(whales["id"], PAPER)
        await harness.json("DELETE", f"/kbs/{whales['id']}", 202)
        for path in (f"/kbs/{whales['id']}", f"/kbs/{whales['id']}/documents"):
            await harness.json("GET", path, 404)
        await drain(harness.knowledge)
        statuses = "SELECT status FROM knowledge_bases ORDER BY name"
        assert await scalars(harness.knowledge, statuses) == ["active", "active", "archived"]


async def test_documents_are_listed_page_by_page_by_status_name_and_time(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path) as harness:
        kb = await harness.kb()
        for name in ("c.md", "a.md", "b.md"):
            await harness.upload(kb, PAPER, name)
        await sql(harness.knowledge, "UPDATE documents SET status = 'ready'")
        await harness.upload(kb, PAPER, "d.md")

        async def names(**given: object) -> list[str]:
            found: list[str] = []
            after: str | None = ""
            while after is not None:
                page = await harness.json("GET", f"/kbs/{kb}/documents", params={**given, "limit": 2, "after": after})
                found += [each["filename"] for each in page["documents"]]
                after = page["next"]
            return found

        assert await names() == ["d.md", "b.md", "a.md", "c.md"]
        assert await names(sort="added") == ["c.md", "a.md", "b.md", "d.md"]
        assert await names(sort="-name") == ["d.md", "c.md", "b.md", "a.md"]
        assert await names(status="ready") == ["b.md", "a.md", "c.md"]
        assert await names(status="pending") == ["d.md"]
        assert await names(q="B.") == ["b.md"]
        assert await names(q="%") == []


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\a.md", "a.md"),
        ("a\r\nset-cookie: b=c.md", "aset-cookie: b=c.md"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}dm.a", "dm.a"),
        ("q\"u;o'te.md", "q\"u;o'te.md"),
        ("ä\N{SNOWMAN}.md", "ä\N{SNOWMAN}.md"),
        ("x" * 400 + ".md", "x" * 235 + ".md"),
        ("..", "unnamed"),
    ],
)
async def test_no_name_of_a_file_does_harm(sqlite_url: str, tmp_path: Path, name: str, stored: str) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        kb, content = await harness.kb(), b"<script>alert(1)</script>" * 100
        plain = {"content-type": "text/html"}
        taken = await harness.ask(
            "POST", f"/kbs/{kb}/documents", params={"filename": name}, content=content, headers=plain
        )
        assert (taken.status_code, taken.json()["filename"]) == (202, stored)
        answer = await harness.ask("GET", f"/documents/{taken.json()['id']}/content", role=VIEWER)
        assert answer.content == content
        assert answer.headers["content-type"] == "application/octet-stream"
        disposition = answer.headers["content-disposition"]
        assert disposition.startswith("attachment; filename*=UTF-8''")
        assert not set(disposition[29:]) & set("\r\n\"'; /\\")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert int(answer.headers["content-length"]) == len(content)


async def test_a_download_whose_bytes_are_gone_says_so(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        document = (await harness.upload(await harness.kb(), PAPER)).json()["id"]
        for path in (tmp_path / "files").rglob("*"):
            if path.is_file():
                path.unlink()
        answer = await harness.ask("GET", f"/documents/{document}/content")
        assert (answer.status_code, answer.json()["code"]) == (404, "missing_object")
        places = (await harness.json("GET", f"/documents/{document}"))["places"]
        assert {place["name"]: place["state"] for place in places}["Object"] == "wrong"


async def test_an_upload_that_breaks_off_leaves_nothing(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, on_network=True) as harness:
        kb = await harness.kb()
        token = (await harness.login(EDITOR))["authorization"]
        waiting = asyncio.Event()
        receive = harness.knowledge.storage.receive
        seen: list[object] = []

        def watched(**given: object) -> object:
            waiting.set()
            seen.append(receive(**given))  # type: ignore[arg-type]
            return seen[-1]

        harness.knowledge.storage.receive = watched  # type: ignore[method-assign, assignment]
        _, writer = await asyncio.open_connection("127.0.0.1", harness.client.base_url.port)
        head = (
            f"POST {API}/kbs/{kb}/documents?filename=a.md HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token}\r\n"
            "Content-Type: text/markdown\r\nContent-Length: 100000\r\n\r\n"
        )
        writer.write(head.encode() + b"# Cranes\n" * 100)
        await writer.drain()
        await asyncio.wait_for(waiting.wait(), 30)
        assert await scalars(harness.knowledge, "SELECT state FROM uploads") == ["open"]
        writer.close()
        async with asyncio.timeout(30):
            while await scalars(harness.knowledge, "SELECT state FROM uploads WHERE state = 'open'"):
                await asyncio.sleep(0.01)
        assert (await harness.json("GET", f"/kbs/{kb}/documents"))["documents"] == []
        assert await scalars(harness.knowledge, "SELECT count(*) FROM outbox") == [0]
        assert not [path for path in (tmp_path / "files").rglob("*") if path.is_file()]


async def test_what_is_too_large_is_refused_while_it_comes_in(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path, on_network=True, max_file_bytes=100_000) as harness:
        kb = await harness.kb()

        async def of_no_said_length() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b"x" * 10_000

        for more in (
            {"content": of_no_said_length(), "params": {"filename": "a"}},
            {"files": {"file": b"x" * 100_001}},
        ):
            answer = await harness.ask("POST", f"/kbs/{kb}/documents", **more)
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert (await harness.upload(kb, b"x" * 100_000)).status_code == 202
        assert len([path for path in (tmp_path / "files").rglob("*") if path.is_file()]) == 1


async def test_two_files_in_a_form_are_refused_whole(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        kb = await harness.kb()
        files = [("file", ("a.md", PAPER)), ("file", ("b.md", PAPER))]
        answer = await harness.ask("POST", f"/kbs/{kb}/documents", files=files)
        assert (answer.status_code, answer.json()["code"]) == (422, "one_file")
        assert (await harness.json("GET", f"/kbs/{kb}/documents"))["documents"] == []


async def test_the_database_that_is_away_is_said_to_be(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        kb, login = await harness.kb(), await harness.login(VIEWER)
        await sql(harness.knowledge, "ALTER TABLE knowledge_bases RENAME TO elsewhere")
        answer = await harness.client.get(f"{API}/kbs/{kb}", headers=login)
        assert answer.status_code == 500
        assert answer.json() == {"code": "internal", "message": "The server failed to answer. Its log says why."}
