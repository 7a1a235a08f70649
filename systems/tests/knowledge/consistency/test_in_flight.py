"""K5: what is under way is no finding. Uploads, runs and deletions go on while the stores are compared."""

import asyncio
from pathlib import Path

import sqlalchemy as sa

from rowmill_systems.knowledge.documents import request_deletion
from rowmill_systems.knowledge.models import KbUpload
from rowmill_systems.knowledge.names import collection_of
from rowmill_systems.parts.clock import now
from rowmill_systems.parts.vectors.sqlite import SqliteVectors
from systems.tests.knowledge.consistency.damage import HOUR, Library, library_on, strange_id
from systems.tests.knowledge.consistency.hooked import HookedVectors
from systems.tests.knowledge.harness import assert_consistent, drain, put


async def test_what_is_young_is_no_finding(database_url: str, tmp_path: Path) -> None:
    async with library_on(database_url, tmp_path, grace_seconds=HOUR) as library:
        knowledge = library.knowledge
        await knowledge.vectors.delete(collection_of(library.kb_id), library.one)
        await library.put_points(library.other, 1, [1000])
        await library.put_points(strange_id(), 1, [0])
        await library.put_object(library.kb_id, strange_id())
        report = await library.check()
        # The object counts twice: without a second look it may be left over, or an orphan.
        assert (report.run.counts, report.run.in_flight) == ({}, 5)

        await library.change(library.one, age=2 * HOUR)
        assert await library.found() == {"ready_without_vectors": [f"document:{library.one}"]}
        await library.change(library.one, age=60)
        assert (await library.check()).run.closed == 0, "that it is in flight does not prove that it is mended"


async def test_an_upload_whose_server_died_is_left_to_its_clean_up(library: Library) -> None:
    document_id, knowledge = strange_id(), library.knowledge

    def open_upload(connection: sa.Connection) -> None:
        row = {"kb_id": library.kb_id, "document_id": document_id, "available_at": now(connection.dialect.name, HOUR)}
        connection.execute(sa.insert(KbUpload).values(row))

    key = await library.put_object(library.kb_id, document_id)
    await knowledge.mill.run(open_upload)
    assert await library.found() == {}

    await library.sql("UPDATE uploads SET state = 'failed'")
    assert await library.found() == {"object_without_document": [f"object:{key}"]}, "nobody else cleans it up any more"


async def test_a_document_that_is_deleted_while_the_stores_are_compared_is_no_finding(
    sqlite_url: str, tmp_path: Path
) -> None:
    vectors = HookedVectors(SqliteVectors(tmp_path / "v.db"))
    async with library_on(sqlite_url, tmp_path, vectors=vectors) as library:
        await vectors.delete(collection_of(library.kb_id), library.one)
        last = await library.last_event()

        async def delete() -> None:
            await request_deletion(library.knowledge, library.one)
            await drain(library.knowledge)

        # The rows are looked at before the vectors: the deletion comes between both.
        vectors.before_look = delete
        await library.check()
        assert [kind for kind, _ in await library.added_since(last)] == ["document.delete"], "nothing was corrected"
        assert (await library.row()).status == "archived"
        assert await library.found() == {}
    await vectors.close()


async def test_a_document_that_is_processed_while_the_stores_are_compared_is_no_finding(
    sqlite_url: str, tmp_path: Path
) -> None:
    vectors = HookedVectors(SqliteVectors(tmp_path / "v.db"))
    async with library_on(sqlite_url, tmp_path, vectors=vectors) as library:
        kept = (await library.row()).indexed_generation
        await vectors.delete(collection_of(library.kb_id), library.one)
        vectors.before_look = lambda: library.put_points(library.one, kept, range(2))
        report = await library.check()
        assert vectors.looked_at == [library.one]
        assert (report.run.counts, report.run.cleared) == ({}, 1)
    await vectors.close()


async def test_uploads_and_runs_beside_comparisons_leave_nothing_to_find(sqlite_url: str, tmp_path: Path) -> None:
    """Comparisons go on all the time while documents are uploaded, processed and deleted."""
    async with library_on(sqlite_url, tmp_path, grace_seconds=600) as library:
        knowledge, over = library.knowledge, asyncio.Event()

        async def compare() -> int:
            found = 0
            while not over.is_set():
                found += (await library.check()).findings
            return found

        comparing = asyncio.create_task(compare())
        documents = [await put(knowledge, library.kb_id) for _ in range(3)]
        await drain(knowledge)
        await request_deletion(knowledge, documents[0])
        await drain(knowledge)
        over.set()
        assert await comparing == 0
        await assert_consistent(knowledge, library.kb_id, documents[1])
    async with library_on(sqlite_url, tmp_path) as library:
        assert await library.found() == {}
