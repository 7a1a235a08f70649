"""Uploads: streamed, limited in size, and cleaned up if they are not finished."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from rowmill_systems.knowledge.bases import create_kb
from rowmill_systems.knowledge.errors import EmptyUpload, KbMissing, UploadExpired
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.uploading import upload
from rowmill_systems.parts.objects.errors import NetworkFailed, ObjectTooLarge, StorageFailed
from rowmill_systems.parts.objects.folder import FolderStorage
from systems.tests.knowledge.harness import (
    PAPER,
    Interposed,
    Outage,
    advance,
    document,
    drain,
    knowledge_on,
    objects_of,
    put,
    scalars,
    sql,
)

UPLOADS = "SELECT state FROM uploads ORDER BY created_at"
DOCUMENTS = "SELECT count(*) FROM documents"


async def test_an_upload_is_never_in_memory_as_a_whole(knowledge: Knowledge) -> None:
    """Each piece is written before the next one is asked for."""
    kb_id = await create_kb(knowledge, "a")

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"crane lifts loads\n" * 100

    document_id = await upload(knowledge, kb_id, chunks(), filename="..\\a/b\tc.txt", media_type="text/plain\n")
    row = await document(knowledge, document_id)
    assert (row.size, row.filename, row.media_type) == (5 * 1800, "bc.txt", "text/plain")
    assert await objects_of(knowledge, kb_id) == [row.object_key]
    assert row.object_key == f"kb-{kb_id}/{document_id}/{row.sha256}"
    assert await scalars(knowledge, UPLOADS) == []


async def test_what_is_refused_leaves_nothing(database_url: str, tmp_path: Path) -> None:
    async with knowledge_on(database_url, tmp_path, max_file_bytes=100) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        with pytest.raises(EmptyUpload):
            await put(knowledge, kb_id, b"")
        with pytest.raises(ObjectTooLarge):
            await put(knowledge, kb_id, b"x" * 101)
        with pytest.raises(KbMissing):
            await put(knowledge, uuid4())
        assert (await objects_of(knowledge, kb_id), await scalars(knowledge, UPLOADS)) == ([], [])
        assert await scalars(knowledge, DOCUMENTS) == [0]


async def test_an_upload_that_breaks_off_leaves_nothing(knowledge: Knowledge) -> None:
    kb_id = await create_kb(knowledge, "a")

    async def chunks() -> AsyncIterator[bytes]:
        yield PAPER
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        await upload(knowledge, kb_id, chunks(), filename="a.md")
    assert (await objects_of(knowledge, kb_id), await scalars(knowledge, UPLOADS)) == ([], [])


async def test_an_upload_that_took_too_long_is_refused(knowledge: Knowledge) -> None:
    """Its clean-up has begun, and what it stored would be forgotten."""
    kb_id = await create_kb(knowledge, "a")

    async def chunks() -> AsyncIterator[bytes]:
        yield PAPER
        await advance(knowledge, knowledge.settings.upload_seconds + 1)
        await drain(knowledge)

    with pytest.raises(UploadExpired):
        await upload(knowledge, kb_id, chunks(), filename="a.md")
    assert (await objects_of(knowledge, kb_id), await scalars(knowledge, UPLOADS)) == ([], ["removed"])


async def test_bytes_whose_fate_is_unknown_are_removed_later(
    knowledge: Knowledge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage did not answer: the bytes may arrive yet. The row that names them waits."""
    kb_id = await create_kb(knowledge, "a")
    storage = knowledge.storage
    assert isinstance(storage, FolderStorage)
    async with storage.receive() as incoming:
        kind = type(incoming)
    keep = kind.keep

    async def lost_answer(self: object, owner: object, collection: object) -> None:
        await keep(self, owner, collection)  # type: ignore[arg-type]
        raise NetworkFailed("no answer")

    monkeypatch.setattr(kind, "keep", lost_answer)
    with pytest.raises(NetworkFailed):
        await put(knowledge, kb_id)
    await drain(knowledge)
    assert (len(await objects_of(knowledge, kb_id)), await scalars(knowledge, UPLOADS)) == (1, ["open"])
    await advance(knowledge, knowledge.settings.upload_seconds + 1)
    await drain(knowledge)
    assert (await objects_of(knowledge, kb_id), await scalars(knowledge, UPLOADS)) == ([], ["removed"])


async def test_a_cancelled_upload_leaves_nothing(knowledge: Knowledge) -> None:
    kb_id = await create_kb(knowledge, "a")
    halfway = asyncio.Event()

    async def chunks() -> AsyncIterator[bytes]:
        yield PAPER
        halfway.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(upload(knowledge, kb_id, chunks(), filename="a.md"))
    await halfway.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await objects_of(knowledge, kb_id), await scalars(knowledge, UPLOADS)) == ([], [])


async def test_the_clean_up_waits_for_a_storage_that_is_away(database_url: str, tmp_path: Path) -> None:
    outage = Outage(StorageFailed("not mounted"))
    storage = Interposed(FolderStorage(tmp_path / "files"), outage)
    async with knowledge_on(database_url, tmp_path, storage=storage) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        document_id = await put(knowledge, kb_id)
        uploads = "INSERT INTO uploads (id, kb_id, document_id) VALUES (:id, :kb, :document)"
        other = uuid4()
        async with storage.receive() as incoming:
            await incoming.write(PAPER)
            await incoming.keep(f"kb-{kb_id}", other)
        form = (lambda id: id.hex) if database_url.startswith("sqlite") else str
        await sql(knowledge, uploads, id=form(uuid4()), kb=form(kb_id), document=form(other))
        await sql(knowledge, uploads, id=form(uuid4()), kb=form(kb_id), document=form(document_id))
        outage.methods = {"keys"}
        await drain(knowledge)
        assert sorted(await scalars(knowledge, UPLOADS)) == ["open", "removed"], "an accepted document stays"
        outage.methods = set()
        await advance(knowledge, 10_000)
        await drain(knowledge)
        assert await scalars(knowledge, UPLOADS) == ["removed", "removed"]
        assert await objects_of(knowledge, kb_id) == [(await document(knowledge, document_id)).object_key]
