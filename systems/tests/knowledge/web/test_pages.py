"""Pages: knowledge bases, documents with where each is and why, consistency, the outbox, people."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from rowmill_systems.knowledge.models import KbDocument
from rowmill_systems.knowledge.names import collection_of, owner_of
from rowmill_systems.knowledge.web import reads
from rowmill_systems.knowledge.web.comparing import job_of
from rowmill_systems.parts.vectors.errors import VectorsUnavailable
from systems.tests.knowledge.harness import Interposed, Outage, document, drain, events, sql
from systems.tests.knowledge.web.browsing import Visitor, cells, chips, posts_of, titles
from systems.tests.knowledge.web.served import EDITOR, VIEWER, ServedKnowledge, served
from tests.support.html import ReadPage

HOSTILE = """<script>alert(1)</script>"'><img src=x onerror=alert(1)>{{ 7 * 7 }}"""
PAPER = b"# Cranes\n\nA crane lifts heavy loads.\n\n# Whales\n\nA whale is a mammal of the sea.\n"
START = datetime(2026, 3, 1, tzinfo=UTC)


@asynccontextmanager
async def visited(url: str, folder: Path, **more: Any) -> AsyncIterator[tuple[ServedKnowledge, Visitor]]:
    async with served(url, folder, **{"grace_seconds": 0} | more) as harness:
        yield harness, Visitor(harness)


def row_of(kb_id: str, number: int, **more: Any) -> dict[str, Any]:
    """Return a row of a document."""
    row = {
        "id": uuid4(), "kb_id": UUID(kb_id), "filename": f"{number:03}.txt", "size": 1000, "sha256": "0" * 64,
        "object_key": f"{owner_of(UUID(kb_id))}/{uuid4()}/{'0' * 64}", "created_at": START + timedelta(minutes=number),
    }  # fmt: skip
    return row | more


async def put_rows(harness: ServedKnowledge, rows: list[dict[str, Any]]) -> None:
    await harness.knowledge.mill.run(lambda c: c.execute(sa.insert(KbDocument), rows).close())


async def compare(harness: ServedKnowledge, visitor: Visitor, path: str, **fields: str) -> None:
    """Send a form that compares the stores, and wait until that is done."""
    await visitor.form(f"/consistency/{path}", **fields)
    await job_of(harness.app).finished()


async def fail(harness: ServedKnowledge, id: str, code: str, text: str = "why") -> None:
    change = "UPDATE documents SET status = 'failed', error_code = :code, last_error = :text, retry_count = 3"
    await sql(harness.knowledge, f"{change} WHERE filename = :id", id=id, code=code, text=f"{code}: {text}")


async def test_knowledge_bases_are_created_listed_and_renamed(database_url: str, tmp_path: Path) -> None:
    async with visited(database_url, tmp_path) as (harness, visitor):
        assert titles(await visitor.page("/"))[-1] == "No knowledge bases yet"
        path = await visitor.form("/bases", name="Harbour", description="Plans")
        await harness.document(path.removeprefix("/bases/"), PAPER)
        await put_rows(harness, [row_of(path.removeprefix("/bases/"), 1, status="failed")])
        await visitor.form("/bases", name="Archive")
        page = await visitor.page("/")
        assert cells(page).startswith("Archive 0 0 0 0 B none yet Harbour Plans 2 0 1 1.1 kB ")
        assert "every 2s" not in str([tag.attributes for tag in page.all("div", id="live")]), "nothing is under way"
        assert "Name of 200" not in await visitor.form("/bases", 422, name=" ")
        assert await visitor.form(f"{path}/rename", name="Port", description="") == path
        assert [tag.text for tag in (await visitor.page(path)).all("h1")] == ["Port"]
        assert "Not renamed" in await visitor.form(f"{path}/rename", 422, name="x" * 300)
        assert "Port" in cells(await visitor.page("/", q="por"))
        assert titles(await visitor.page("/", q="nothing like it"))[-1] == "No knowledge base of that name"
        await visitor.page(f"/bases/{uuid4()}", 404)
        await visitor.page("/", 404, sort="size")


async def test_a_knowledge_base_is_deleted_once_its_name_is_repeated(sqlite_url: str, tmp_path: Path) -> None:
    async with visited(sqlite_url, tmp_path) as (harness, visitor):
        kb_id = await harness.kb("Papers")
        await harness.document(kb_id, PAPER)
        page = await visitor.page(f"/bases/{kb_id}")
        [dialog] = page.all("dialog", id="delete")
        assert "1 document, 80 B of files" in " ".join(dialog.text.split())
        assert "type the name" in await visitor.form(f"/bases/{kb_id}/delete", 422, confirm="papers")
        assert await visitor.form(f"/bases/{kb_id}/delete", confirm="Papers") == "/"
        await visitor.page(f"/bases/{kb_id}", 404)
        await drain(harness.knowledge)
        assert await harness.knowledge.mill.run(lambda c: reads.kb_names(c, 5), write=False) == []


async def pages_from(visitor: Visitor, path: str) -> list[ReadPage]:
    """Follow a list to its end."""
    found = list[ReadPage]()
    while path:
        found.append(await visitor.page(path))
        path = next((tag.attributes["href"] for tag in found[-1].all("a", rel="next")), "")
    return found


def names(pages: list[ReadPage]) -> list[str]:
    return [tag.text for page in pages for tag in page.all("a") if tag.text.endswith(".txt")]


async def test_documents_are_paged_sorted_and_filtered(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with visited(database_url, tmp_path) as (harness, visitor):
        kb_id = await harness.kb()
        states = ["ready", "failed", "archived", "deleting"]
        rows = [row_of(kb_id, number, status=states[number % 4]) for number in range(120)]
        other = await harness.kb("Other")
        await put_rows(harness, [*rows, row_of(other, 1, status="ready")])
        monkeypatch.setattr(reads, "MOST_COUNTED", 20)
        shown = [row["filename"] for row in rows if row["status"] in ("ready", "failed")]
        path = f"/bases/{kb_id}"
        newest_first = await pages_from(visitor, path)
        assert names(newest_first) == shown[::-1]
        assert len(newest_first) == 2
        assert chips(newest_first[0])[:3] == ["20+ ready", "20+ failed", "20+ deleting"]
        assert names(await pages_from(visitor, f"{path}?sort=name")) == shown
        failed = [row["filename"] for row in rows if row["status"] == "failed"]
        assert names(await pages_from(visitor, f"{path}?status=failed&sort=added")) == failed
        assert names(await pages_from(visitor, f"{path}?q=11")) == ["117.txt", "116.txt", "113.txt", "112.txt"]
        assert titles(await visitor.page(path, status="pending"))[-1] == "No such document"
        await visitor.page(path, 404, after="nonsense")


async def test_files_are_uploaded_without_a_script(sqlite_url: str, tmp_path: Path) -> None:
    async with visited(sqlite_url, tmp_path, max_file_bytes=500) as (harness, visitor):
        kb_id = await harness.kb()
        assert titles(await visitor.page(f"/bases/{kb_id}"))[-1] == "No documents yet"
        path = f"/bases/{kb_id}/documents"
        sent = await visitor.send("POST", path, files=[("file", ("a.md", PAPER)), ("file", ("b.md", PAPER))])
        assert (sent.status_code, sent.headers["location"]) == (303, f"/bases/{kb_id}")
        files = [("file", ("empty.md", b"")), ("file", ("c.md", PAPER)), ("file", ("large.md", b"x" * 900))]
        refused = await visitor.send("POST", path, files=files)
        assert refused.status_code == 422
        assert "empty.md: there is nothing in the file" in refused.text
        assert "large.md: " in refused.text
        page = await visitor.page(f"/bases/{kb_id}")
        assert [tag.text for tag in page.all("a") if tag.text.endswith(".md")] == ["c.md", "b.md", "a.md"]
        assert page.all("div", id="live")[0].attributes["hx-trigger"] == "every 2s"
        [form] = page.all("form", class_="upload")
        assert form.attributes["data-upload"] == f"/api/v1/kbs/{kb_id}/documents"


async def test_a_failed_document_says_why_and_what_to_do(sqlite_url: str, tmp_path: Path) -> None:
    async with visited(sqlite_url, tmp_path) as (harness, visitor):
        kb_id = await harness.kb()
        first = await harness.document(kb_id, PAPER, "locked.md")
        await fail(harness, "locked.md", "encrypted")
        page = await visitor.page(f"/bases/{kb_id}")
        assert "The file needs a password. encrypted, 3 tries failed failed" in cells(page)
        whole = await visitor.page(f"/documents/{first}")
        [why] = [tag.text for tag in whole.all("div", class_="message bad")]
        assert "Upload it without one." in why
        assert await visitor.form(f"/documents/{first}/reprocess") == f"/documents/{first}"
        assert [
            each.payload["reason"] for each in await events(harness.knowledge) if each.event_type.endswith("reprocess")
        ]
        await drain(harness.knowledge)
        assert (await document(harness.knowledge, UUID(first))).status == "ready"
        await fail(harness, "locked.md", "timeout")
        assert await visitor.form(f"/bases/{kb_id}/reprocess-failed") == f"/bases/{kb_id}"
        await drain(harness.knowledge)
        assert (await document(harness.knowledge, UUID(first))).status == "ready"
        assert await visitor.form(f"/documents/{first}/delete") == f"/bases/{kb_id}"
        await visitor.page(f"/documents/{first}", 404)
        await visitor.form(f"/documents/{first}/delete", 404)


def stores(page: ReadPage) -> dict[str, list[str]]:
    """Return what a document's page says of each store."""
    [panel] = [tag.text for tag in page.all("ul", class_="stores")]
    words = [" ".join(line.split()) for line in panel.splitlines() if line.strip()]
    return {line.split(" ", 1)[0]: line.split(" ", 1)[1:] for line in words}


async def test_a_document_shows_its_passages_and_where_they_are(sqlite_url: str, tmp_path: Path) -> None:
    outage = Outage(VectorsUnavailable("no answer"))
    async with visited(sqlite_url, tmp_path) as (harness, visitor):
        knowledge, kb_id = harness.knowledge, await harness.kb()
        path = f"/documents/{(id := await harness.document(kb_id, PAPER))}"
        page = await visitor.page(path)
        assert [tag.text for tag in page.all("h3")] == ["Cranes", "Whales"]
        assert "lifts heavy loads" in page.all("li", id="passage-0")[0].text
        assert stores(page)["Vectors"] == ["2 passageshere"]
        assert "processed" in chips(page), "its event"
        assert stores(await visitor.page(path, look="1"))["Object"] == ["its bytes are therehere"]
        await knowledge.vectors.delete(collection_of(UUID(kb_id)), UUID(id))
        assert stores(await visitor.page(path, look="1"))["Vectors"] == ["0 passages, and 2 were writtenwrong"]
        assert stores(await visitor.page(path))["Vectors"] == ["2 passageshere"], "the row does not know"
        knowledge._vectors = Interposed(knowledge.vectors, outage)
        outage.methods = {"count"}
        seen = stores(await visitor.page(path, look="1"))
        assert seen["Vectors"] == ["can't be observed (vectors_unavailable)unknown"], "not taken for an empty one"
        marked = await visitor.page(path, at="1", passage="1")
        assert [tag.attributes["id"] for tag in marked.all("li") if " on" in tag.attributes.get("class", "")] == [
            "passage-1"
        ]
        await visitor.page(f"/documents/{uuid4()}", 404)


async def test_search_quotes_passages_and_leads_to_them(sqlite_url: str, tmp_path: Path) -> None:
    outage = Outage(VectorsUnavailable("no answer"))
    async with visited(sqlite_url, tmp_path) as (harness, visitor):
        assert titles(await visitor.page("/search"))[-1] == "No knowledge bases yet"
        kb_id = await harness.kb()
        id = await harness.document(kb_id, PAPER, "animals.md")
        page = await visitor.page("/search", q="a whale of the sea", kb=kb_id)
        assert [tag.text for tag in page.all("mark")] == ["Whales", "whale", "sea"]
        [link] = [tag.attributes["href"] for tag in page.all("a") if tag.text == "animals.md"][:1]
        assert link == f"/documents/{id}?at=0&passage=1#passage-1"
        assert "Not all was searched" not in cells(page, "p")
        assert not page.all("button", name="answer")
        assert titles(await visitor.page("/search", q="whale", kind="email"))[-1] == "Nothing found"
        harness.knowledge._vectors = Interposed(harness.knowledge.vectors, outage)
        outage.methods = {"search"}
        by_words = await visitor.page("/search", q="whale")
        assert "The vector store does not answer, so passages were found by words alone." in cells(by_words, "p")
        assert "animals.md" in titles(by_words)
        await visitor.page("/search", 404, q="whale", kb=str(uuid4()))
        await visitor.page("/search", q="whale", kb="nonsense")


async def test_the_stores_are_checked_and_mended_on_a_page(sqlite_url: str, tmp_path: Path) -> None:
    async with visited(sqlite_url, tmp_path) as (harness, visitor):
        knowledge, kb_id = harness.knowledge, await harness.kb()
        id = await harness.document(kb_id, PAPER, "lost.md")
        assert "Not compared yet" in titles(await visitor.page("/consistency"))
        await compare(harness, visitor, "check")
        assert "The stores agree" in " ".join(titles(await visitor.page("/consistency")))
        await knowledge.vectors.delete(collection_of(UUID(kb_id)), UUID(id))
        await compare(harness, visitor, "check")
        page = await visitor.page("/consistency")
        assert "Ready without vectors lost.md by itself" in cells(page)
        assert "1 event is written" in " ".join(page.all("dialog", id="mend")[0].text.split())
        assert [each.event_type for each in await events(knowledge)] == ["document.process"], "a check writes nothing"
        await compare(harness, visitor, "mend")
        assert "1 event written" in cells(await visitor.page("/consistency"), "p")
        found = await visitor.page("/consistency/findings", kind="ready_without_vectors")
        assert "lost.md" in cells(found)
        await drain(knowledge)
        await compare(harness, visitor, "mend")
        assert "The stores agree" in titles(await visitor.page("/consistency"))
        await visitor.page("/consistency/findings", 404, kind="nonsense")


async def test_orphans_are_previewed_and_removed_on_request(sqlite_url: str, tmp_path: Path) -> None:
    async with visited(sqlite_url, tmp_path) as (harness, visitor):
        storage = harness.knowledge.storage
        await harness.document(await harness.kb(), PAPER)
        async with storage.receive(most=100) as incoming:
            await incoming.write(b"orphan")
            orphan = (await incoming.keep(owner_of(uuid4()), uuid4())).key
        await compare(harness, visitor, "orphans")
        page = await visitor.page("/consistency")
        assert orphan in " ".join(tag.text for tag in page.all("code"))
        assert "type remove" in await visitor.form("/consistency/orphans/remove", 422, confirm="yes")
        assert await storage.exists(orphan)
        await compare(harness, visitor, "orphans/remove", confirm="remove")
        assert not await storage.exists(orphan)
        assert "1 orphan removed" in cells(await visitor.page("/consistency"), "p")


async def test_a_store_that_could_not_be_read_is_said_first(sqlite_url: str, tmp_path: Path) -> None:
    outage = Outage(VectorsUnavailable("no answer"), "collections", "documents")
    async with visited(sqlite_url, tmp_path) as (harness, visitor):
        await harness.document(await harness.kb(), PAPER)
        harness.knowledge._vectors = Interposed(harness.knowledge.vectors, outage)
        await compare(harness, visitor, "mend")
        page = await visitor.page("/consistency")
        [first, *_] = [tag.text for tag in page.tags if tag.attributes.get("role") == "alert"]
        assert "could not be read" in first
        assert "vectors: vectors_unavailable" in " ".join(first.split())
        assert "None that is certain" in titles(page)
        assert "The stores agree" not in titles(page)


async def test_the_outbox_shows_what_is_dead_and_requeues_it(database_url: str, tmp_path: Path) -> None:
    async with visited(database_url, tmp_path) as (harness, visitor):
        id = await harness.document(await harness.kb(), PAPER, "a.md")
        [event] = await events(harness.knowledge)
        dead = "UPDATE outbox SET state = 'dead', attempts = 5, processed_at = NULL, last_error = 'encrypted: locked'"
        await sql(harness.knowledge, dead)
        page = await visitor.page("/outbox", state="dead")
        assert [tag.text for tag in page.all("dd")][:3] == ["0", "0", "1"]
        assert f"Process a document {event.id}encrypted: locked dead a.md 5" in cells(page)
        assert titles(await visitor.page("/outbox", state="pending"))[-1] == "No such event"
        assert len((await visitor.page("/outbox", aggregate=id)).all("tr")) == 2
        assert len((await visitor.page("/outbox", type="kb.delete")).all("tr")) == 0
        whole = await visitor.page(f"/outbox/{event.id}")
        assert "The file needs a password." in cells(whole, "p")
        assert f"/documents/{id}" in whole.links()
        assert await visitor.form(f"/outbox/{event.id}/requeue") == f"/outbox/{event.id}"
        assert [each.state for each in await events(harness.knowledge)] == ["pending"]
        await visitor.form("/outbox/99999/requeue", 404)
        await visitor.page("/outbox/99999", 404)


async def test_people_are_added_changed_and_deleted(sqlite_url: str, tmp_path: Path) -> None:
    async with visited(sqlite_url, tmp_path) as (_, visitor):
        added = {"email": "tom@example.org", "password": "a long enough one", "role": "editor"}
        assert await visitor.form("/people", **added) == "/people"
        assert "Not done" in await visitor.form("/people", 422, **added)
        page = await visitor.page("/people")
        [tom] = [path for path in dict.fromkeys(posts_of(page)) if path.startswith("/people/")][1:]
        await visitor.form(tom, choice="role", role="viewer")
        await visitor.form(tom, choice="close")
        assert "May not log in." in cells(await visitor.page("/people"))
        await visitor.form(tom, choice="delete")
        assert "tom@example.org" not in cells(await visitor.page("/people"))
        await visitor.form(tom, 409, choice="delete")
        me = next(path for path in posts_of(await visitor.page("/people")) if path.startswith("/people/"))
        assert "Not done" in await visitor.form(me, 409, choice="role", role="viewer"), "the last administrator"


async def test_a_token_is_shown_once_works_and_is_revoked(sqlite_url: str, tmp_path: Path) -> None:
    async with visited(sqlite_url, tmp_path) as (harness, _):
        viewer = Visitor(harness, VIEWER)
        made = await viewer.send("POST", "/account/tokens", data={"name": "import", "days": "30"})
        token = made.text.split('class="token">')[1].split("<")[0]
        headers = {"authorization": f"Bearer {token}"}
        assert (await harness.client.get("/api/v1/kbs", headers=headers)).status_code == 200
        page = await viewer.page("/account")
        assert "import" in cells(page)
        assert token not in str([tag.text for tag in page.tags])
        assert "number of days" in await viewer.form("/account/tokens", 422, name="x", days="often")
        [revoke] = [path for path in posts_of(page) if path.endswith("/revoke")]
        assert await viewer.form(revoke) == "/account"
        assert (await harness.client.get("/api/v1/kbs", headers=headers)).status_code == 401
        assert "Not done" in await viewer.form("/account/password", 422, current="wrong", new="a long enough one")


async def test_nobody_does_more_than_the_role_allows(sqlite_url: str, tmp_path: Path) -> None:
    async with visited(sqlite_url, tmp_path) as (harness, _):
        kb_id = await harness.kb()
        id = await harness.document(kb_id, PAPER)
        viewer, editor = Visitor(harness, VIEWER), Visitor(harness, EDITOR)
        for path in ("/", f"/bases/{kb_id}", f"/documents/{id}"):
            page = await viewer.page(path)
            assert set(posts_of(page)) == {"/logout"}, path
            assert "/consistency" not in page.links(), path
        base, whole = f"/bases/{kb_id}", f"/documents/{id}"
        of_editors = ["/bases", *(f"{base}/{verb}" for verb in ("rename", "delete", "documents", "reprocess-failed"))]
        for path in (*of_editors, f"{whole}/reprocess", f"{whole}/delete"):
            sent = await viewer.send("POST", path, data={"name": "x", "confirm": "Papers"}, files={"file": ("a", b"x")})
            assert sent.status_code == 403, path
        of_administrators = [f"/consistency/{verb}" for verb in ("check", "mend", "orphans", "orphans/remove")]
        for path in (*of_administrators, "/outbox/1/requeue", "/people", f"/people/{uuid4()}"):
            assert (await editor.send("POST", path, data={"confirm": "remove"})).status_code == 403, path
        of_administrators = [
            "/consistency",
            "/consistency/findings?kind=wrong_model",
            "/outbox",
            "/outbox/1",
            "/people",
        ]
        for path in of_administrators:
            assert (await editor.send("GET", path)).status_code == 403, path


async def test_hostile_words_stay_words_on_every_page(sqlite_url: str, tmp_path: Path) -> None:
    async with visited(sqlite_url, tmp_path) as (harness, visitor):
        kb_id = (await visitor.form("/bases", name=HOSTILE, description=HOSTILE)).removeprefix("/bases/")
        id = await harness.document(kb_id, f"# {HOSTILE}\n\nwhale {HOSTILE}\n".encode(), "a.md")
        await sql(
            harness.knowledge, "UPDATE documents SET filename = :text, title = :text, language = 'x'", text=HOSTILE
        )
        await fail(harness, HOSTILE, HOSTILE[:60], HOSTILE)
        await sql(harness.knowledge, "UPDATE documents SET status = 'ready' WHERE filename = :text", text=HOSTILE)
        error = "UPDATE outbox SET last_error = :text, event_type = :text, state = 'dead', attempts = 5"
        await sql(harness.knowledge, error, text=HOSTILE)
        [event] = await events(harness.knowledge)
        paths = (
            "/",
            f"/bases/{kb_id}",
            f"/documents/{id}",
            "/outbox",
            f"/outbox/{event.id}",
            "/consistency",
            "/search",
        )
        for path in paths:
            await visitor.page(path)
        found = await visitor.page("/search", q=f"whale {HOSTILE}", kind=HOSTILE[:40])
        assert "49" not in cells(found, "p")
        await visitor.page(f"/bases/{kb_id}", q=HOSTILE, status=HOSTILE[:40])
        await visitor.page("/outbox", aggregate=HOSTILE, type=HOSTILE[:40], state=HOSTILE[:40])
        await visitor.form(f"/bases/{kb_id}/rename", 422, name=HOSTILE * 9, description=HOSTILE)
