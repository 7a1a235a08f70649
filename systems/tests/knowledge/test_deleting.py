"""K4: deleted is what every store has confirmed; a knowledge base goes with all that belongs to it."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from rowmill_systems.knowledge.bases import create_kb, find_kb, list_kbs, request_kb_deletion
from rowmill_systems.knowledge.documents import (
    find_document,
    list_documents,
    request_deletion,
    request_reprocessing,
)
from rowmill_systems.knowledge.errors import DocumentMissing, KbMissing
from rowmill_systems.knowledge.events import deleting_kb
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.names import collection_of
from rowmill_systems.knowledge.uploading import upload
from rowmill_systems.parts.objects.errors import StorageFailed
from rowmill_systems.parts.objects.folder import FolderStorage
from rowmill_systems.parts.vectors.errors import VectorsUnavailable
from rowmill_systems.parts.vectors.open import open_vectors
from systems.tests.knowledge.harness import (
    PAPER,
    Interposed,
    Outage,
    advance,
    assert_consistent,
    assert_gone,
    document,
    drain,
    events,
    kb_row,
    knowledge_on,
    objects_of,
    put,
    scalars,
    sql,
)


async def collections_of(knowledge: Knowledge) -> list[str]:
    return [collection.name async for collection in knowledge.vectors.collections()]


async def test_a_deleted_document_is_hidden_at_once_and_then_gone_from_all_stores(knowledge: Knowledge) -> None:
    kb_id = await create_kb(knowledge, "a")
    first, second = await put(knowledge, kb_id), await put(knowledge, kb_id)
    await drain(knowledge)
    await request_deletion(knowledge, first)
    await request_deletion(knowledge, first)
    row = await document(knowledge, first)
    assert (row.status, row.generation, row.deleted_at) == ("deleting", 2, None)
    assert [each.id for each in await list_documents(knowledge, kb_id)] == [second]
    with pytest.raises(DocumentMissing):
        await find_document(knowledge, first)
    with pytest.raises(DocumentMissing):
        await request_reprocessing(knowledge, first, "a person")
    await drain(knowledge)
    await assert_gone(knowledge, kb_id, first)
    await assert_consistent(knowledge, kb_id, second)
    await request_deletion(knowledge, first)
    assert [event.event_type for event in await events(knowledge)].count("document.delete") == 1, "asked for once"
    with pytest.raises(DocumentMissing):
        await request_deletion(knowledge, uuid4())


async def test_a_document_that_was_never_processed_can_be_deleted(knowledge: Knowledge) -> None:
    kb_id = await create_kb(knowledge, "a")
    document_id = await put(knowledge, kb_id)
    await request_deletion(knowledge, document_id)
    await drain(knowledge)
    await assert_gone(knowledge, kb_id, document_id)
    assert {event.state for event in await events(knowledge)} == {"processed"}


@pytest.mark.parametrize("store", ["storage", "vectors"])
@pytest.mark.parametrize("way", ["raises", "swallows", "cannot be observed"])
async def test_nothing_is_marked_deleted_before_the_stores_confirm_it(
    database_url: str, tmp_path: Path, store: str, way: str
) -> None:
    """A store that fails, one that says yes and does nothing, and one that can't be looked at."""
    error = StorageFailed("not mounted") if store == "storage" else VectorsUnavailable("no answer")
    inner = FolderStorage(tmp_path / "files") if store == "storage" else open_vectors(str(tmp_path / "vectors.db"))
    look = {"storage": "exists", "vectors": "count"}[store]
    outage = Outage(error, look if way == "cannot be observed" else "delete")
    if way == "swallows":
        outage.swallows = 0 if store == "vectors" else None
    stores: dict[str, Any] = {store: Interposed(inner, outage)}
    async with knowledge_on(database_url, tmp_path, **stores) as knowledge:
        methods, outage.methods = outage.methods, set()
        kb_id = await create_kb(knowledge, "a")
        document_id = await put(knowledge, kb_id)
        await drain(knowledge)
        outage.methods = methods
        await request_deletion(knowledge, document_id)
        for _ in range(2):
            await drain(knowledge)
            row = await document(knowledge, document_id)
            assert (row.status, row.deleted_at) == ("deleting", None)
            assert row.error_code == ("not_confirmed" if way == "swallows" else error.code)
            await advance(knowledge, 1000)
        outage.methods = set()
        await drain(knowledge)
        await assert_gone(knowledge, kb_id, document_id)


async def test_a_deletion_whose_event_died_can_be_asked_for_again(database_url: str, tmp_path: Path) -> None:
    """It stays hidden: what a person deleted does not come back."""
    outage = Outage(VectorsUnavailable("no answer"), "delete")
    vectors = Interposed(open_vectors(str(tmp_path / "vectors.db")), outage)
    async with knowledge_on(database_url, tmp_path, vectors=vectors) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        document_id = await put(knowledge, kb_id)
        await request_deletion(knowledge, document_id)
        for _ in range(5):
            await drain(knowledge)
            await advance(knowledge, 1000)
        assert [event.state for event in await events(knowledge)] == ["processed", "dead"]
        assert (await document(knowledge, document_id)).status == "deleting"
        outage.methods = set()
        await request_deletion(knowledge, document_id)
        await drain(knowledge)
        await assert_gone(knowledge, kb_id, document_id)


async def test_a_deleted_knowledge_base_is_gone_from_all_stores(
    knowledge: Knowledge, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K4: documents ARCHIVED with deleted_at, the collection dropped, its objects removed, the counts logged."""
    monkeypatch.setattr(deleting_kb, "BATCH_DOCUMENTS", 2)
    kb_id, other = await create_kb(knowledge, "a"), await create_kb(knowledge, "b")
    kept = await put(knowledge, other)
    documents = [await put(knowledge, kb_id) for _ in range(5)]
    await drain(knowledge)
    waiting = await put(knowledge, kb_id)
    await request_deletion(knowledge, documents[0])
    await request_kb_deletion(knowledge, kb_id)
    await request_kb_deletion(knowledge, kb_id)
    assert [each.kb.id for each in await list_kbs(knowledge)] == [other]
    with pytest.raises(KbMissing):
        await find_kb(knowledge, kb_id)
    with pytest.raises(KbMissing):
        await put(knowledge, kb_id)
    with pytest.raises(DocumentMissing):
        await find_document(knowledge, documents[1])
    with caplog.at_level(logging.INFO):
        await drain(knowledge)
        await advance(knowledge, 10)
        await drain(knowledge)
    for document_id in (*documents, waiting):
        await assert_gone(knowledge, kb_id, document_id)
    row = await kb_row(knowledge, kb_id)
    assert row.status == "archived"
    assert row.deleted_at is not None
    assert collection_of(kb_id) not in await collections_of(knowledge)
    assert await objects_of(knowledge, kb_id) == []
    [logged] = [record for record in caplog.records if record.message.startswith("kb.deleted")]
    counts = {name: vars(logged)[name] for name in ("document_count", "vector_collection_deleted", "files_deleted")}
    # The document that was deleted by itself may be gone before, or go with the others.
    assert counts["document_count"] == 6
    assert counts["vector_collection_deleted"] is True
    assert counts["files_deleted"] in (5, 6)
    await assert_consistent(knowledge, other, kept)
    assert [event.event_type for event in await events(knowledge)].count("kb.delete") == 1
    with pytest.raises(KbMissing):
        await request_kb_deletion(knowledge, uuid4())


@pytest.mark.parametrize("method", ["drop", "keys", "delete"])
async def test_a_knowledge_base_is_not_archived_before_the_stores_confirm_it(
    database_url: str, tmp_path: Path, method: str
) -> None:
    outage = Outage(VectorsUnavailable("no answer") if method == "drop" else StorageFailed("not mounted"))
    stores: dict[str, Any] = {
        "vectors": Interposed(open_vectors(str(tmp_path / "vectors.db")), outage),
        "storage": Interposed(FolderStorage(tmp_path / "files"), outage),
    }
    async with knowledge_on(database_url, tmp_path, **stores) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        document_id = await put(knowledge, kb_id)
        await drain(knowledge)
        await request_kb_deletion(knowledge, kb_id)
        outage.methods = {method}
        await drain(knowledge)
        assert (await kb_row(knowledge, kb_id)).status == "deleting"
        assert (await document(knowledge, document_id)).status == "deleting"
        outage.methods = set()
        await advance(knowledge, 100)
        await drain(knowledge)
        assert (await kb_row(knowledge, kb_id)).status == "archived"
        await assert_gone(knowledge, kb_id, document_id)


async def test_a_store_that_drops_nothing_is_noticed(database_url: str, tmp_path: Path) -> None:
    outage = Outage(VectorsUnavailable(), "drop")
    outage.swallows = True
    vectors = Interposed(open_vectors(str(tmp_path / "vectors.db")), outage)
    async with knowledge_on(database_url, tmp_path, vectors=vectors) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        await put(knowledge, kb_id)
        await drain(knowledge)
        await request_kb_deletion(knowledge, kb_id)
        await drain(knowledge)
        assert (await kb_row(knowledge, kb_id)).status == "deleting"
        assert (await events(knowledge))[-1].last_error.startswith("not_confirmed")


async def test_an_upload_into_a_knowledge_base_that_is_deleted_meanwhile(knowledge: Knowledge) -> None:
    """It is refused at its end, and nothing is left of it."""
    kb_id = await create_kb(knowledge, "a")
    halfway, go_on = asyncio.Event(), asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        yield PAPER
        halfway.set()
        await go_on.wait()
        yield PAPER

    uploading = asyncio.create_task(upload(knowledge, kb_id, chunks(), filename="a.md"))
    await halfway.wait()
    await request_kb_deletion(knowledge, kb_id)
    await drain(knowledge)
    assert (await kb_row(knowledge, kb_id)).status == "archived"
    go_on.set()
    with pytest.raises(KbMissing):
        await uploading
    assert len(await objects_of(knowledge, kb_id)) == 1
    await drain(knowledge)
    assert await objects_of(knowledge, kb_id) == []
    assert await scalars(knowledge, "SELECT count(*) FROM documents") == [0]


async def test_a_deletion_by_plain_sql(knowledge: Knowledge) -> None:
    """An operator writes the event alone."""
    kb_id = await create_kb(knowledge, "a")
    document_id = await put(knowledge, kb_id)
    await drain(knowledge)
    insert = "INSERT INTO outbox (event_type, aggregate_id, payload) VALUES ('kb.delete', :id, '{}')"
    await sql(knowledge, insert, id=str(kb_id))
    await sql(knowledge, insert, id=str(uuid4()))
    await drain(knowledge)
    await assert_gone(knowledge, kb_id, document_id)
    assert {event.state for event in await events(knowledge)} == {"processed"}
