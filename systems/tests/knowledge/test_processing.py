"""K1, K3, K4: a document is fetched, read, embedded and written, and only then shown; failures are reported."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import rowmill as rm
from rowmill_systems.knowledge.bases import create_kb
from rowmill_systems.knowledge.documents import request_deletion, request_reprocessing
from rowmill_systems.knowledge.events import embedding_chunks, reading_chunks
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.parts.documents.document import Document
from rowmill_systems.parts.documents.errors import EncryptedFile
from rowmill_systems.parts.documents.limits import DocumentLimits
from rowmill_systems.parts.documents.readers import Readers
from rowmill_systems.parts.embeddings.port import Vectors
from rowmill_systems.parts.embeddings.weights import ModelMissing
from rowmill_systems.parts.objects.errors import ForbiddenObject, StorageFailed
from rowmill_systems.parts.objects.folder import FolderStorage
from rowmill_systems.parts.vectors.errors import VectorsRefused, VectorsUnavailable
from rowmill_systems.parts.vectors.open import open_vectors
from systems.tests.knowledge.harness import (
    PAPER,
    HashEmbedder,
    Interposed,
    Outage,
    PlainReaders,
    advance,
    assert_consistent,
    assert_gone,
    chunks_of,
    document,
    drain,
    events,
    knowledge_on,
    objects_of,
    points_of,
    put,
    scalars,
    sql,
)
from systems.tests.parts.documents import files

PENDING = "SELECT count(*) FROM outbox WHERE processed_at IS NULL AND attempts < 5"
FAILED = "SELECT count(*) FROM outbox WHERE attempts >= 5"


async def test_a_document_becomes_ready(knowledge: Knowledge) -> None:
    """K1, K4: the upload writes the document and its event together; the event makes it READY."""
    kb_id = await create_kb(knowledge, "Machines and animals")
    document_id = await put(knowledge, kb_id, media_type="text/markdown")
    row = await document(knowledge, document_id)
    [event] = await events(knowledge)
    assert (row.status, row.generation, row.event_id) == ("pending", 0, event.id)
    assert (event.event_type, event.aggregate_id) == ("document.process", str(document_id))
    assert event.payload == {"document_id": str(document_id)}
    assert await scalars(knowledge, PENDING) == [1]

    await drain(knowledge)

    await assert_consistent(knowledge, kb_id, document_id)
    row = await document(knowledge, document_id)
    assert (row.kind, row.media_type, row.pages, row.language) == ("text", "text/plain", 1, "en")
    assert (row.embedding_model, row.dimensions, row.stage) == ("hash", 64, None)
    assert (row.progress_done, row.progress_total) == (row.chunk_count, row.chunk_count)
    assert row.processed_at >= row.processing_started_at
    [event] = await events(knowledge)
    assert event.processed_at is not None
    assert (await scalars(knowledge, PENDING), await scalars(knowledge, FAILED)) == ([0], [0])


async def test_the_same_bytes_twice_are_two_documents(knowledge: Knowledge) -> None:
    kb_id = await create_kb(knowledge, "a")
    first, second = await put(knowledge, kb_id), await put(knowledge, kb_id)
    await drain(knowledge)
    await assert_consistent(knowledge, kb_id, first)
    await assert_consistent(knowledge, kb_id, second)


async def test_documents_of_several_kinds_by_the_real_reader(pg_url: str, tmp_path: Path) -> None:
    """One process reads them all; what can't be read is FAILED with a code, and its event processed."""
    readers = Readers(1, DocumentLimits(), "off")
    async with knowledge_on(pg_url, tmp_path, readers=readers) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        good = {
            "a.html": b"<title>Cranes</title><h1>Cranes</h1><p>A crane lifts heavy loads.</p>",
            "a.csv": b"name,lifts\ncrane,loads\n",
            "a.docx": files.word(lambda made: made.add_paragraph("A crane lifts heavy loads.")),
            "a.md": PAPER,
        }
        ready = {name: await put(knowledge, kb_id, content, name) for name, content in good.items()}
        bad = {"broken.pdf": (b"%PDF-1.7 and no more", "corrupt"), "blank.txt": (b" \n \n", "no_text")}
        failed = {name: await put(knowledge, kb_id, content, name) for name, (content, _) in bad.items()}
        await drain(knowledge)
        for document_id in ready.values():
            await assert_consistent(knowledge, kb_id, document_id)
        kinds = {name: (await document(knowledge, id)).kind for name, id in ready.items()}
        assert kinds == {"a.html": "html", "a.csv": "csv", "a.docx": "docx", "a.md": "text"}
        for name, document_id in failed.items():
            row = await document(knowledge, document_id)
            assert (row.status, row.error_code, row.stage) == ("failed", bad[name][1], None)
            assert await chunks_of(knowledge, document_id) == []
            assert await points_of(knowledge, kb_id, document_id) == {}
        assert {event.state for event in await events(knowledge)} == {"processed"}


@pytest.mark.parametrize("lost", [True, False])
async def test_what_is_wrong_with_a_document_is_no_failure_of_its_event(knowledge: Knowledge, lost: bool) -> None:
    kb_id = await create_kb(knowledge, "a")
    document_id = await put(knowledge, kb_id)
    if lost:
        await knowledge.storage.delete((await document(knowledge, document_id)).object_key)
    else:
        assert isinstance(knowledge.readers, PlainReaders)
        knowledge.readers.failure = EncryptedFile("it needs a password")
    await drain(knowledge)
    row = await document(knowledge, document_id)
    assert (row.status, row.error_code) == ("failed", "missing_object" if lost else "encrypted")
    assert row.last_error.startswith(f"{row.error_code}: ")
    [event] = await events(knowledge)
    assert (event.state, event.attempts) == ("processed", 0)


async def test_a_reprocessed_document_that_fails_keeps_what_it_had(knowledge: Knowledge) -> None:
    kb_id = await create_kb(knowledge, "a")
    document_id = await put(knowledge, kb_id)
    await drain(knowledge)
    assert isinstance(knowledge.readers, PlainReaders)
    knowledge.readers.failure = EncryptedFile("it needs a password")
    await request_reprocessing(knowledge, document_id, "a person")
    await drain(knowledge)
    row = await document(knowledge, document_id)
    assert (row.status, row.generation, row.indexed_generation) == ("failed", 2, 1)
    assert {chunk.generation for chunk in await chunks_of(knowledge, document_id)} == {1}
    assert await points_of(knowledge, kb_id, document_id) == {1: row.chunk_count}


async def test_reprocessing_clears_the_error_and_sweeps_the_older_generation(
    knowledge: Knowledge, caplog: pytest.LogCaptureFixture
) -> None:
    """K4+: PENDING, last_error and retry_count cleared, the reason logged."""
    kb_id = await create_kb(knowledge, "a")
    document_id = await put(knowledge, kb_id)
    await drain(knowledge)
    await sql(knowledge, "UPDATE documents SET retry_count = 3, last_error = 'x', error_code = 'x', status = 'failed'")
    with caplog.at_level(logging.INFO):
        await request_reprocessing(knowledge, document_id, "reconciliation")
        await drain(knowledge)
    assert f"document.reprocessed document_id={document_id} reason=reconciliation" in caplog.text
    row = await document(knowledge, document_id)
    assert (row.generation, row.retry_count) == (2, 0)
    await assert_consistent(knowledge, kb_id, document_id)


async def test_events_of_an_operator_are_handled_as_well(knowledge: Knowledge) -> None:
    """K1: only event_type, aggregate_id and payload have no default. An id that is none is no endless loop."""
    kb_id = await create_kb(knowledge, "a")
    document_id = await put(knowledge, kb_id)
    await drain(knowledge)
    insert = "INSERT INTO outbox (event_type, aggregate_id, payload) VALUES (:type, :id, '{}')"
    for type in ("document.reprocess", "document.process", "document.delete"):
        await sql(knowledge, insert, type=type, id=str(document_id))
    await sql(knowledge, insert, type="document.process", id="no id")
    await sql(knowledge, insert, type="document.process", id="00000000-0000-4000-8000-000000000000")
    for _ in range(5):
        await drain(knowledge)
        await advance(knowledge, 1000)
    assert (await document(knowledge, document_id)).status == "archived"
    found = {(event.aggregate_id, event.event_type): event.state for event in await events(knowledge)}
    assert found.pop(("no id", "document.process")) == "dead"
    assert set(found.values()) == {"processed"}


async def test_an_unknown_type_is_parked_and_logged(knowledge: Knowledge, caplog: pytest.LogCaptureFixture) -> None:
    """K4: it does not loop, and holds nobody up."""
    await sql(knowledge, "INSERT INTO outbox (event_type, aggregate_id) VALUES ('document.fly', '1')")
    with caplog.at_level(logging.WARNING):
        await drain(knowledge)
    assert "document.fly" in caplog.text
    [event] = await events(knowledge)
    assert (event.state, event.attempts) == ("waiting", 0)


async def test_an_outage_of_each_store_is_waited_for(database_url: str, tmp_path: Path) -> None:
    """A store that is away is never taken for an empty one. What was read is not read again, what was embedded not
    embedded again."""
    storage = Outage(StorageFailed("the disk is not mounted"), "get")
    vectors = Outage(VectorsUnavailable("no answer"), "put")
    readers, embedder = PlainReaders(), HashEmbedder()
    async with knowledge_on(
        database_url,
        tmp_path,
        storage=Interposed(FolderStorage(tmp_path / "files"), storage),
        vectors=Interposed(open_vectors(str(tmp_path / "vectors.db")), vectors),
        readers=readers,
        embedder=embedder,
    ) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        document_id = await put(knowledge, kb_id)
        await drain(knowledge)
        row = await document(knowledge, document_id)
        assert (row.status, row.error_code, row.retry_count) == ("processing", "storage", 1)
        storage.methods.clear()
        await advance(knowledge, 100)
        await drain(knowledge)
        row = await document(knowledge, document_id)
        assert (row.status, row.error_code, row.retry_count) == ("processing", "vectors_unavailable", 2)
        assert (row.stage, row.progress_done) == ("embedding", 0)
        vectors.methods = {"count"}
        await advance(knowledge, 100)
        await drain(knowledge)
        embedded = len(embedder.embedded)
        vectors.methods.clear()
        await advance(knowledge, 1000)
        await drain(knowledge)
        await assert_consistent(knowledge, kb_id, document_id)
        assert (len(readers.reads), len(embedder.embedded)) == (1, embedded)
        row = await document(knowledge, document_id)
        assert row.generation == 1, "attempts of one event are one run"


async def test_an_event_dies_after_five_attempts_and_its_document_is_failed(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """K3: kept, never retried by itself, one CRITICAL record; plain SQL says so; a person puts it back."""
    outage = Outage(VectorsUnavailable("no answer"), "count")
    vectors = Interposed(open_vectors(str(tmp_path / "vectors.db")), outage)
    async with knowledge_on(database_url, tmp_path, vectors=vectors) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        document_id = await put(knowledge, kb_id)
        for attempt in range(1, 6):
            assert await scalars(knowledge, PENDING) == [1]
            await drain(knowledge)
            row = await document(knowledge, document_id)
            assert (row.status, row.retry_count) == ("failed" if attempt == 5 else "processing", attempt)
            await advance(knowledge, 1000)
        await drain(knowledge)
        assert (await scalars(knowledge, PENDING), await scalars(knowledge, FAILED)) == ([0], [1])
        [event] = await events(knowledge)
        assert (event.state, event.attempts, event.processed_at) == ("dead", 5, None)
        assert event.last_error == row.last_error == "vectors_unavailable: no answer"
        alerts = [record for record in caplog.records if record.levelno == logging.CRITICAL]
        assert len(alerts) == 1
        assert {"severity": "CRITICAL", "alert": "ADMIN_INTERVENTION_REQUIRED", "event_id": event.id}.items() <= (
            vars(alerts[0]).get("fields", vars(alerts[0])).items()
        )
        assert await chunks_of(knowledge, document_id) == []
        outage.methods.clear()
        await sql(knowledge, "UPDATE outbox SET state = 'pending', attempts = 0")
        await drain(knowledge)
        await assert_consistent(knowledge, kb_id, document_id)


async def test_a_provider_that_asks_to_wait_costs_no_attempt(database_url: str, tmp_path: Path) -> None:
    outage = Outage(rm.RateLimited("slower", retry_after=30), "embed")
    async with knowledge_on(database_url, tmp_path, embedder=Interposed(HashEmbedder(), outage)) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        document_id = await put(knowledge, kb_id)
        for _ in range(6):
            await drain(knowledge)
            await advance(knowledge, 100)
        [event] = await events(knowledge)
        assert event.attempts == 0
        outage.methods.clear()
        await drain(knowledge)
        await assert_consistent(knowledge, kb_id, document_id)


@pytest.mark.parametrize(
    ("part", "error", "methods"),
    [
        ("vectors", VectorsRefused("look at its key"), ["put"]),
        ("vectors", rm.errors.DeclarationError("gopher://…", ["it is none of the known stores"], "store"), ["put"]),
        ("storage", ForbiddenObject("look at the key"), ["get", "keys"]),
        ("embedder", ModelMissing("it is not installed. Run: pip install it"), ["embed"]),
    ],
)
async def test_settings_that_are_wrong_cost_no_attempt(
    sqlite_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, part: str, error: Exception, methods: list[str]
) -> None:
    """Otherwise one worker that was set up wrongly would end every event."""
    outage = Outage(error, *methods)
    parts: dict[str, Any] = {
        "vectors": open_vectors(str(tmp_path / "vectors.db")),
        "storage": FolderStorage(tmp_path / "files"),
        "embedder": HashEmbedder(),
    }
    parts[part] = Interposed(parts[part], outage)
    async with knowledge_on(sqlite_url, tmp_path, **parts) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        document_id = await put(knowledge, kb_id)
        for _ in range(6):
            await drain(knowledge)
            await advance(knowledge, 100)
        [event] = await events(knowledge)
        row = await document(knowledge, document_id)
        assert (event.attempts, row.status, row.error_code) == (0, "processing", "wrong_settings")
        assert event.last_error == row.last_error == f"wrong_settings: {error}"
        warnings = [record for record in caplog.records if vars(record).get("event") == "settings.wrong"]
        assert [vars(record)["problem"] for record in warnings] == [str(error)]
        outage.methods.clear()
        await drain(knowledge)
        await assert_consistent(knowledge, kb_id, document_id)


async def test_a_worker_without_its_model_costs_no_attempt(sqlite_url: str, tmp_path: Path) -> None:
    async with knowledge_on(sqlite_url, tmp_path) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        document_id = await put(knowledge, kb_id)
        given, knowledge._embedder = knowledge.embedder, None
        knowledge.settings = knowledge.settings.model_copy(update={"embedder": "endpoint"})
        for _ in range(6):
            await drain(knowledge)
            await advance(knowledge, 100)
        [event] = await events(knowledge)
        assert event.attempts == 0
        assert "Set KNOWLEDGE_ENDPOINT_URL" in event.last_error
        knowledge._embedder = given
        await drain(knowledge)
        await assert_consistent(knowledge, kb_id, document_id)


async def test_a_deletion_waits_for_right_settings(sqlite_url: str, tmp_path: Path) -> None:
    outage = Outage(VectorsRefused("look at its key"))
    vectors = Interposed(open_vectors(str(tmp_path / "vectors.db")), outage)
    async with knowledge_on(sqlite_url, tmp_path, vectors=vectors) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        document_id = await put(knowledge, kb_id)
        await drain(knowledge)
        await request_deletion(knowledge, document_id)
        outage.methods = {"delete"}
        for _ in range(6):
            await drain(knowledge)
            await advance(knowledge, 100)
        row = await document(knowledge, document_id)
        assert (row.status, row.error_code, row.retry_count) == ("deleting", "wrong_settings", 0)
        outage.methods.clear()
        await drain(knowledge)
        await assert_gone(knowledge, kb_id, document_id)


async def test_an_error_of_a_library_is_named_but_not_quoted(
    database_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Errors may quote what they choked on. Logs, documents and events have the name alone."""
    outage = Outage(ValueError("a secret of the document"), "embed")
    async with knowledge_on(database_url, tmp_path, embedder=Interposed(HashEmbedder(), outage)) as knowledge:
        document_id = await put(knowledge, await create_kb(knowledge, "a"))
        for _ in range(5):
            await drain(knowledge)
            await advance(knowledge, 1000)
        row = await document(knowledge, document_id)
        assert (row.status, row.last_error) == ("failed", "ValueError")
        assert "secret" not in caplog.text
        [event] = await events(knowledge)
        assert event.last_error == "ValueError"


async def test_points_that_the_store_lost_are_written_again(database_url: str, tmp_path: Path) -> None:
    """READY is what the vector store confirmed, not what was sent to it."""
    vectors = open_vectors(str(tmp_path / "vectors.db"))
    async with knowledge_on(database_url, tmp_path, vectors=vectors) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        document_id = await put(knowledge, kb_id)
        whole = vectors.put

        async def lossy(collection: str, points: object) -> None:
            await whole(collection, list(points)[1:])  # type: ignore[call-overload]

        vectors.put = lossy  # type: ignore[method-assign]
        await drain(knowledge)
        row = await document(knowledge, document_id)
        assert (row.status, row.error_code, row.progress_done) == ("processing", "not_confirmed", 0)
        # What is there stays: an attempt that was frozen here would delete what another one has shown meanwhile.
        assert await points_of(knowledge, kb_id, document_id) == {1: row.progress_total - 1}
        vectors.put = whole  # type: ignore[method-assign]
        await advance(knowledge, 1000)
        await drain(knowledge)
        await assert_consistent(knowledge, kb_id, document_id)
        await vectors.close()


async def test_long_documents_are_written_in_batches(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory does not grow with the document, and an attempt goes on where the one before ended."""
    monkeypatch.setattr(embedding_chunks, "BATCH_CHUNKS", 4)
    monkeypatch.setattr(reading_chunks, "BATCH_ROWS", 3)
    embedder = HashEmbedder()
    async with knowledge_on(database_url, tmp_path, embedder=embedder, chunk_tokens=32) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        document_id = await put(
            knowledge, kb_id, "\n\n".join(f"Crane {n} lifts {'heavy loads ' * 12}." for n in range(30))
        )
        whole, sizes, failed = embedder.embed, [0], False

        async def embed(texts: Sequence[str]) -> Vectors:
            nonlocal failed
            if len(sizes) == 4 and not failed:
                failed = True
                raise rm.TransientError("once", code="once")
            sizes.append(len(texts))
            return await whole(texts)

        embedder.embed = embed  # type: ignore[method-assign]
        await drain(knowledge)
        row = await document(knowledge, document_id)
        assert (row.progress_done, row.error_code) == (12, "once")
        await advance(knowledge, 100)
        await drain(knowledge)
        await assert_consistent(knowledge, kb_id, document_id)
        row = await document(knowledge, document_id)
        assert max(sizes) == 4
        assert sum(sizes) == row.chunk_count > 12


async def test_a_storage_that_refuses_access_is_no_fault_of_the_document(database_url: str, tmp_path: Path) -> None:
    outage = Outage(ForbiddenObject("wrong key"), "get")
    storage = Interposed(FolderStorage(tmp_path / "files"), outage)
    async with knowledge_on(database_url, tmp_path, storage=storage) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        document_id = await put(knowledge, kb_id)
        await drain(knowledge)
        row = await document(knowledge, document_id)
        assert (row.status, row.error_code) == ("processing", "forbidden")
        assert len(await objects_of(knowledge, kb_id)) == 1


async def test_reading_is_shown_page_by_page_and_ends_when_the_document_is_deleted(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion need not wait until a long document is read."""
    monkeypatch.setattr(reading_chunks, "PROGRESS_SECONDS", 0.01)
    ended = asyncio.Event()

    class SlowReaders(PlainReaders):
        async def read(self, *given: Any, progress: Any = None, **options: Any) -> Document:
            progress(7, 90)
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            raise AssertionError

    async with knowledge_on(database_url, tmp_path, readers=SlowReaders()) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        document_id = await put(knowledge, kb_id)
        working = asyncio.create_task(drain(knowledge))
        while (await document(knowledge, document_id)).progress_total is None:
            await asyncio.sleep(0.01)
        row = await document(knowledge, document_id)
        assert (row.status, row.stage, row.progress_done, row.progress_total) == ("processing", "reading", 7, 90)
        await request_deletion(knowledge, document_id)
        await asyncio.wait_for(ended.wait(), 30)
        await working
        await drain(knowledge)
        await assert_gone(knowledge, kb_id, document_id)
        assert [event.attempts for event in await events(knowledge)] == [0, 0]


async def test_an_event_that_is_older_than_the_document_s_own_does_nothing(knowledge: Knowledge) -> None:
    """As one that was committed late, or put back by a person."""
    kb_id = await create_kb(knowledge, "a")
    document_id = await put(knowledge, kb_id)
    await drain(knowledge)
    await request_reprocessing(knowledge, document_id, "a person")
    await drain(knowledge)
    await sql(knowledge, "UPDATE outbox SET state = 'pending' WHERE id = (SELECT min(id) FROM outbox)")
    await drain(knowledge)
    assert (await document(knowledge, document_id)).generation == 2
    await assert_consistent(knowledge, kb_id, document_id)
