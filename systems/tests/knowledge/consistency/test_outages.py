"""K5: a store that can't be read says nothing about what it has. One outage must not process every document again."""

import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from rowmill_systems.knowledge.consistency import check
from rowmill_systems.knowledge.consistency.stores import FEW
from rowmill_systems.knowledge.names import collection_of
from rowmill_systems.parts.objects.folder import FolderStorage
from rowmill_systems.parts.vectors.port import DocumentPoints, Placed
from rowmill_systems.parts.vectors.sqlite import SqliteVectors
from systems.tests.knowledge.consistency.damage import Library, library_on, ready_document, strange_id
from systems.tests.knowledge.consistency.hooked import HookedStorage, HookedVectors


@dataclass
class HookedLibrary:
    library: Library
    vectors: HookedVectors
    storage: HookedStorage


@pytest.fixture
async def hooked(sqlite_url: str, tmp_path: Path) -> AsyncIterator[HookedLibrary]:
    vectors, storage = HookedVectors(SqliteVectors(tmp_path / "v.db")), HookedStorage(FolderStorage(tmp_path / "files"))
    async with library_on(sqlite_url, tmp_path, vectors=vectors, storage=storage) as library:
        yield HookedLibrary(library, vectors, storage)
    await vectors.close()
    await storage.close()


@pytest.mark.parametrize("listed", [0, 1, 2])
async def test_vectors_that_break_off_lose_no_document(hooked: HookedLibrary, listed: int) -> None:
    """Wherever the listing breaks off, and whatever was damaged besides."""
    library = hooked.library
    gone = max(library.one, library.other)
    await hooked.vectors.delete(collection_of(library.kb_id), gone)
    await library.change(library.one, status="processing")
    await library.processing_since(library.one, 3600)
    hooked.vectors.documents_until = listed

    report = await library.check()
    assert report.unreachable == ["vectors"]
    assert report.exit_code == 3
    assert report.run.counts == {"stale_processing": 1}, "of rows alone it is known"
    [unreadable] = report.as_dict()["unreachable"]
    assert (unreadable["store"], unreadable["code"]) == ("vectors", "vectors_unavailable")


async def test_a_finding_stays_open_while_its_store_is_away(hooked: HookedLibrary) -> None:
    library = hooked.library
    await hooked.vectors.delete(collection_of(library.kb_id), library.one)
    last = await library.last_event()
    assert await library.found() == {"ready_without_vectors": [f"document:{library.one}"]}
    for until in (hooked.vectors.documents_until, 0):
        hooked.vectors.documents_until = until
        await library.check()
    [finding] = await library.knowledge.consistency.reconciliation.findings()
    assert (finding.kind, finding.corrections) == ("ready_without_vectors", 1)
    assert len(await library.added_since(last)) == 1


async def test_collections_that_break_off_prove_nothing(hooked: HookedLibrary) -> None:
    await hooked.vectors.create(collection_of(strange_id()), 64)
    hooked.vectors.collections_until = 0
    report = await hooked.library.check()
    assert (report.unreachable, report.run.counts) == (["vectors"], {})


@pytest.mark.parametrize("listed", [0, 1])
async def test_a_storage_that_breaks_off_loses_no_object(hooked: HookedLibrary, listed: int) -> None:
    library = hooked.library
    key = max([(await library.row(each)).object_key for each in (library.one, library.other)])
    await hooked.storage.delete(key)
    hooked.storage.keys_until = listed
    report = await library.check()
    assert (report.unreachable, report.run.counts) == (["objects"], {})
    assert report.run.observed["objects"] == listed


@pytest.mark.parametrize("store", ["vectors", "objects"])
async def test_a_store_that_is_away_at_the_second_look_proves_nothing(hooked: HookedLibrary, store: str) -> None:
    library = hooked.library
    await hooked.vectors.delete(collection_of(library.kb_id), library.one)
    await library.put_object(library.kb_id, strange_id())
    hooked.vectors.looks_fail, hooked.storage.looks_fail = store == "vectors", store == "objects"

    report = await library.check()
    assert report.unreachable == [store]
    expected = "object_without_document" if store == "vectors" else "ready_without_vectors"
    assert report.run.counts == {expected: 1}
    assert report.run.inconclusive > 0


async def test_an_empty_store_is_not_believed_if_much_should_be_in_it(hooked: HookedLibrary, tmp_path: Path) -> None:
    """Another file, another bucket, or a folder whose disk is not mounted."""
    library = hooked.library
    others = [await ready_document(library.knowledge, library.kb_id, 1) for _ in range(FEW - 1)]
    for document_id in (library.one, library.other, *others):
        await hooked.vectors.delete(collection_of(library.kb_id), document_id)
    for folder in (tmp_path / "files").glob("kb-*"):
        shutil.rmtree(folder)

    report = await library.check()
    assert sorted(report.unreachable) == ["objects", "vectors"]
    assert {each["code"] for each in report.as_dict()["unreachable"]} == {"too_few"}
    assert report.run.counts == {}

    believed = await check(library.knowledge, execute=False, believe_empty=True)
    assert believed.run.counts == {"ready_without_vectors": FEW + 1, "ready_without_object": FEW + 1}
    assert believed.exit_code == 5


async def test_a_folder_that_is_not_mounted_is_unreadable(hooked: HookedLibrary, tmp_path: Path) -> None:
    shutil.move(tmp_path / "files", tmp_path / "elsewhere")
    (tmp_path / "files").mkdir()
    report = await hooked.library.check()
    assert (report.unreachable, report.run.counts) == (["objects"], {})
    assert report.as_dict()["unreachable"][0]["code"] == "storage"


async def test_listings_are_read_to_their_end(hooked: HookedLibrary) -> None:
    """More documents than any page has, and than a store returns at once."""
    strangers = sorted(UUID(int=number << 64) for number in range(1, 12_001))
    place = Placed(collection_of(hooked.library.kb_id), 1, "hash")
    everything = {each: DocumentPoints(each, {place: 1}) for each in strangers}
    everything |= {each.document: each async for each in hooked.vectors.documents()}
    hooked.vectors.replaced = everything
    compared: list[int] = []

    report = await check(hooked.library.knowledge, execute=False, progress=compared.append)
    assert report.run.counts == {"vectors_without_document": 12_000}
    assert report.run.observed["vectors"] == 12_003
    assert compared == [10_000]
