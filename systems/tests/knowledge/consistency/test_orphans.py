"""K6: orphans go only if a person asks for it, after one more look."""

from pathlib import Path

import pytest

import rowmill as rm
from rowmill_systems.knowledge.consistency import orphans, preview_orphans, remove_orphans
from rowmill_systems.knowledge.consistency.orphans import remove_orphan
from rowmill_systems.knowledge.names import collection_of
from systems.tests.knowledge.consistency.damage import HOUR, Library, library_on, strange_id
from systems.tests.knowledge.harness import assert_consistent, knowledge_on, objects_of, points_of


async def test_orphans_are_previewed_and_removed_up_to_the_cap(library: Library) -> None:
    knowledge, documents, kb = library.knowledge, [strange_id(), strange_id()], strange_id()
    for document_id in documents:
        await library.put_points(document_id, 1, range(3))
    await knowledge.vectors.create(collection_of(kb), 64)
    key = await library.put_object(kb, strange_id())

    preview = await preview_orphans(knowledge, 2)
    assert preview.counts == {"vectors_without_document": 2, "collection_without_kb": 1, "object_without_document": 1}
    assert [kind for kind, _ in preview.listed] == ["vectors_without_document"] * 2
    assert await points_of(knowledge, library.kb_id, documents[0]) == {1: 3}, "a preview removes nothing"

    first = await remove_orphans(knowledge, 2)
    assert (first.removed, first.found) == (2, 4)
    second = await remove_orphans(knowledge)
    assert (second.removed, second.kept, second.found) == (2, 0, 2)
    assert second.listed == [("collection_without_kb", f"kb:{kb}"), ("object_without_document", f"object:{key}")]
    assert await objects_of(knowledge, kb) == []
    assert await library.found() == {}
    await assert_consistent(knowledge, library.kb_id, library.one)


async def test_an_orphan_that_is_explained_by_now_stays(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row came between the comparison and the removal: a database that is being restored."""
    key = (await library.row()).object_key
    listed = [
        ("vectors_without_document", f"document:{library.one}"),
        ("object_without_document", f"object:{key}"),
        ("collection_without_kb", f"kb:{library.kb_id}"),
        ("vectors_without_document", f"document:{strange_id()}"),
    ]

    async def preview(*_: object) -> orphans.OrphanReport:
        return orphans.OrphanReport({"vectors_without_document": len(listed)}, list(listed))

    monkeypatch.setattr(orphans, "preview_orphans", preview)
    report = await remove_orphans(library.knowledge)
    assert (report.removed, report.kept) == (0, 4)
    await assert_consistent(library.knowledge, library.kb_id, library.one)


async def test_a_young_orphan_stays(sqlite_url: str, tmp_path: Path) -> None:
    async with library_on(sqlite_url, tmp_path, grace_seconds=HOUR) as library:
        document_id = strange_id()
        await library.put_points(document_id, 1, [0])
        key = await library.put_object(library.kb_id, document_id)
        assert (await preview_orphans(library.knowledge)).found == 0
        assert not await remove_orphan(library.knowledge, f"document:{document_id}")
        assert not await remove_orphan(library.knowledge, f"object:{key}")


async def test_an_object_of_others_is_never_removed(sqlite_url: str, tmp_path: Path) -> None:
    async with library_on(sqlite_url, tmp_path) as library:
        async with library.knowledge.storage.receive() as incoming:
            await incoming.write(b"theirs")
            key = (await incoming.keep("their-folder", strange_id())).key
        assert not await remove_orphan(library.knowledge, f"object:{key}")
        assert await library.knowledge.storage.exists(key)


async def test_nothing_is_removed_for_a_database_without_any_knowledge_base(sqlite_url: str, tmp_path: Path) -> None:
    """It is rather the wrong database, with the right stores."""
    async with knowledge_on(sqlite_url, tmp_path, schedules=False) as knowledge:
        with pytest.raises(rm.errors.BadRequest, match="no knowledge base at all"):
            await remove_orphans(knowledge)
        with pytest.raises(rm.errors.BadRequest, match="between 1 and 1,000"):
            await preview_orphans(knowledge, 0)
