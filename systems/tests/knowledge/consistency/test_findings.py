"""K5, K6: each kind of damage behind the system's back is found exactly, mended once, and gone after that."""

from dataclasses import replace

import pytest

from rowmill_systems.knowledge.bases import create_kb, request_kb_deletion
from rowmill_systems.knowledge.names import collection_of
from systems.tests.knowledge.consistency.damage import (
    HOUR,
    Library,
    knowledge_on_same_stores,
    ready_document,
    strange_id,
)
from systems.tests.knowledge.harness import (
    HashEmbedder,
    assert_consistent,
    assert_gone,
    drain,
    events,
    kb_row,
    objects_of,
    points_of,
)


async def test_stores_that_agree_have_no_findings(library: Library) -> None:
    report = await library.check()
    assert (report.run.counts, report.unreachable, report.exit_code) == ({}, [], 0)
    assert report.run.observed == {"database": 5, "vectors": 3, "objects": 2}, "two documents, objects, and their base"


async def test_documents_that_lost_something_are_processed_again_once(library: Library) -> None:
    knowledge, collection = library.knowledge, collection_of(library.kb_id)
    one, two, three, four, five = [await ready_document(knowledge, library.kb_id) for _ in range(5)]
    await knowledge.vectors.delete(collection, one)
    await library.put_points(two, 1, [1000])
    await library.put_points(three, 1, [0], model="older")
    await library.sql("DELETE FROM chunks WHERE number = 0 AND document_id = :id", id=four)
    await knowledge.vectors.delete(collection, five)
    await library.sql("DELETE FROM chunk_terms WHERE document_id = :id", id=five)
    last = await library.last_event()

    damaged = {
        "ready_without_vectors": sorted(f"document:{each}" for each in (one, five)),
        "wrong_vector_count": [f"document:{two}"],
        "wrong_model": [f"document:{three}"],
        "wrong_passages": sorted(f"document:{each}" for each in (four, five)),
    }
    assert await library.found(execute=False) == damaged
    assert await library.added_since(last) == [], "a plan writes nothing"
    for _ in range(2):
        assert await library.found() == damaged
        added = [each for each in await events(knowledge) if each.id > last]
        assert sorted(each.aggregate_id for each in added) == sorted(map(str, (one, two, three, four, five)))
        assert {each.event_type for each in added} == {"document.reprocess"}
    assert added[0].payload == {"document_id": added[0].aggregate_id, "reason": "reconciliation"}

    await library.assert_mended()
    for document_id in (one, two, three, four, five):
        await assert_consistent(knowledge, library.kb_id, document_id)
    assert (await library.row()).generation == 1, "the others were left alone"


async def test_a_failed_document_that_search_still_shows_is_mended(library: Library) -> None:
    await library.change(library.one, status="failed", error_code="network")
    assert await library.found() == {}, "it has all that search shows of it"
    await library.knowledge.vectors.delete(collection_of(library.kb_id), library.one)

    assert await library.found() == {"ready_without_vectors": [f"document:{library.one}"]}
    await library.assert_mended()
    await assert_consistent(library.knowledge, library.kb_id, library.one)


async def test_a_document_that_fails_each_time_is_not_processed_again_and_again(library: Library) -> None:
    key = (await library.row()).object_key
    await library.knowledge.storage.delete(key)
    await library.sql("DELETE FROM chunks WHERE number = 0 AND document_id = :id", id=library.one)
    last = await library.last_event()

    for _ in range(3):
        assert await library.found() == {
            "wrong_passages": [f"document:{library.one}"],
            "ready_without_object": [f"object:{key}"],
        }
        await drain(library.knowledge)
        assert (await library.row()).status == "failed"
    added = await library.added_since(last)
    assert [name for name, _ in added] == ["document.reprocess", "document.process"]


async def test_a_document_that_was_never_indexed_is_no_finding(library: Library) -> None:
    await library.archive(library.one)
    await library.change(library.one, status="failed", indexed_generation=None, deleted_at=None)
    assert await library.found() == {}


async def test_a_document_that_is_processed_for_too_long_is_reset(library: Library) -> None:
    await library.processing_since(library.one, 31 * 60)
    await library.processing_since(library.other, 29 * 60)
    before = await library.row()

    assert await library.found() == {"stale_processing": [f"document:{library.one}"]}
    row = await library.row()
    assert (row.status, row.generation) == ("pending", before.generation + 1), "the old run may write nothing more"
    await library.processing_since(library.other, 0)
    await drain(library.knowledge)
    await assert_consistent(library.knowledge, library.kb_id, library.one)


@pytest.mark.parametrize(("silent", "stale"), [(60, False), (HOUR, True)])
async def test_a_run_that_makes_progress_may_take_its_time(library: Library, silent: float, stale: bool) -> None:
    await library.processing_since(library.one, 2 * HOUR, changed=silent)
    await library.set_event(library.one, "processing")
    assert ("stale_processing" in await library.found(execute=False)) is stale


@pytest.mark.parametrize("status", ["pending", "deleting"])
async def test_a_document_that_waits_for_an_event_that_is_gone_gets_a_new_one(library: Library, status: str) -> None:
    await library.change(library.one, age=HOUR, status=status)
    await library.change(library.other, age=60, status=status)

    assert await library.found() == {"document_stuck": [f"document:{library.one}"]}
    await drain(library.knowledge)
    if status == "pending":
        await assert_consistent(library.knowledge, library.kb_id, library.one)
    else:
        await assert_gone(library.knowledge, library.kb_id, library.one)


async def test_a_document_whose_event_waits_is_not_stuck(library: Library) -> None:
    await library.change(library.one, age=HOUR, status="pending")
    await library.set_event(library.one, "waiting")
    assert await library.found() == {}


@pytest.mark.parametrize("status", ["deleting", "archived"])
async def test_a_deletion_of_a_knowledge_base_that_lost_its_event_goes_on(library: Library, status: str) -> None:
    await library.change_kb(age=HOUR, status=status)
    last, key = await library.last_event(), f"kb:{library.kb_id}"

    found = await library.found()
    assert found.pop("leftover_collection", [key]) == [key]
    assert found == {"kb_stuck": [key]}
    assert await library.added_since(last) == [("kb.delete", str(library.kb_id))]
    await library.assert_mended()
    await assert_gone(library.knowledge, library.kb_id, library.one)


async def test_a_new_embedding_that_lost_its_event_goes_on(library: Library) -> None:
    await library.change_kb(age=HOUR, reembedding=True)
    assert await library.found() == {"kb_stuck": [f"kb:{library.kb_id}"]}
    await library.assert_mended()
    await assert_consistent(library.knowledge, library.kb_id, library.one)


async def test_a_knowledge_base_of_another_model_is_embedded_again(library: Library) -> None:
    assert await library.found() == {}
    knowledge, newer = library.knowledge, HashEmbedder("newer", 32)
    async with knowledge_on_same_stores(knowledge, newer) as restarted:
        later = replace(library, knowledge=restarted)
        assert await later.found() == {"kb_other_model": [f"kb:{library.kb_id}"]}
        await later.assert_mended()
        await assert_consistent(restarted, library.kb_id, library.one)
        assert (await kb_row(restarted, library.kb_id)).embedding_model == "newer"
        assert await library.found() == {}, "a process that started before the model was chosen leaves it alone"


async def test_a_collection_of_another_length_is_made_anew(library: Library) -> None:
    collection = collection_of(library.kb_id)
    await library.knowledge.vectors.drop(collection)
    await library.knowledge.vectors.create(collection, 3)

    found = await library.found()
    assert found.pop("wrong_dimensions") == [f"kb:{library.kb_id}"]
    assert list(found) == ["ready_without_vectors"]
    await library.assert_mended()
    await assert_consistent(library.knowledge, library.kb_id, library.one)


@pytest.mark.parametrize("generation", [0, 99])
async def test_vectors_of_another_generation_are_swept(library: Library, generation: int) -> None:
    """99: as a database has it that was restored from an old backup."""
    await library.put_points(library.one, generation, range(3))
    last = await library.last_event()

    assert await library.found() == {"leftover_vectors": [f"document:{library.one}"]}
    assert await library.added_since(last) == [("document.sweep", str(library.one))]
    await library.assert_mended()
    await assert_consistent(library.knowledge, library.kb_id, library.one)
    assert (await library.row()).generation == 1, "it was not processed again"


async def test_vectors_in_the_collection_of_another_knowledge_base_are_swept(library: Library) -> None:
    second = await create_kb(library.knowledge, "others")
    await library.put_points(library.one, 1, [0], kb_id=second)

    assert await library.found() == {"leftover_vectors": [f"document:{library.one}"]}
    await library.assert_mended()
    assert await points_of(library.knowledge, second, library.one) == {}


async def test_the_vectors_that_a_run_writes_are_not_swept(library: Library) -> None:
    row = await library.row()
    await library.change(library.one, status="processing", generation=row.generation + 1)
    await library.processing_since(library.one, 60)
    await library.put_points(library.one, row.generation + 1, range(3))
    assert await library.found() == {}

    await library.change(library.one, status="failed")
    assert await library.found() == {"leftover_vectors": [f"document:{library.one}"]}, "a run that failed wrote them"
    await library.assert_mended()
    assert await points_of(library.knowledge, library.kb_id, library.one) == {row.generation: row.chunk_count}


async def test_what_is_left_of_a_deleted_document_is_swept(library: Library) -> None:
    await library.archive(library.one)
    await library.put_points(library.one, 1, range(2))
    key = await library.put_object(library.kb_id, library.one)
    await library.sql(
        "INSERT INTO chunks (document_id, generation, number, kb_id, text) VALUES (:id, 1, 0, :kb, 'left')",
        id=library.one,
        kb=library.kb_id,
    )
    last = await library.last_event()

    document = [f"document:{library.one}"]
    assert await library.found() == {
        "leftover_vectors": document, "leftover_passages": document, "leftover_object": [f"object:{key}"],
    }  # fmt: skip
    assert await library.added_since(last) == [("document.sweep", str(library.one))], "one event for all of it"
    await library.assert_mended()
    await assert_gone(library.knowledge, library.kb_id, library.one)


async def test_an_object_that_its_document_does_not_name_is_swept(library: Library) -> None:
    key = await library.put_object(library.kb_id, library.one)
    assert await library.found() == {"leftover_object": [f"object:{key}"]}
    await library.assert_mended()
    assert key not in await objects_of(library.knowledge, library.kb_id)
    await assert_consistent(library.knowledge, library.kb_id, library.one)


async def test_the_collection_of_a_deleted_knowledge_base_is_dropped(library: Library) -> None:
    """As a run leaves it that made it again, empty, while the knowledge base was deleted."""
    await request_kb_deletion(library.knowledge, library.kb_id)
    await drain(library.knowledge)
    await library.knowledge.vectors.create(collection_of(library.kb_id), 64)

    assert await library.found() == {"leftover_collection": [f"kb:{library.kb_id}"]}
    await library.assert_mended()


async def test_a_lost_object_is_reported_and_its_document_stays(library: Library) -> None:
    key = (await library.row()).object_key
    await library.knowledge.storage.delete(key)
    last = await library.last_event()

    for _ in range(2):
        assert await library.found() == {"ready_without_object": [f"object:{key}"]}
    assert await library.added_since(last) == []
    assert (await library.row()).status == "ready"


async def test_orphans_are_reported_and_stay(library: Library) -> None:
    document, kb = strange_id(), strange_id()
    await library.put_points(document, 1, range(3))
    await library.knowledge.vectors.create(collection_of(kb), 64)
    key = await library.put_object(kb, strange_id())
    last = await library.last_event()

    for _ in range(2):
        assert await library.found() == {
            "vectors_without_document": [f"document:{document}"],
            "collection_without_kb": [f"kb:{kb}"],
            "object_without_document": [f"object:{key}"],
        }
    assert await library.added_since(last) == []
    assert await points_of(library.knowledge, library.kb_id, document) == {1: 3}


async def test_what_belongs_to_others_is_not_looked_at(library: Library) -> None:
    await library.knowledge.vectors.create("their_vectors", 3)
    async with library.knowledge.storage.receive() as incoming:
        await incoming.write(b"theirs")
        await incoming.keep("their-folder", "notes")
    assert await library.found() == {}


async def test_documents_of_dead_events_fail_before_they_count_as_stale(library: Library) -> None:
    """Otherwise a document that kills its readers would be processed again, hour after hour."""
    await library.processing_since(library.one, HOUR)
    await library.set_event(library.one, "dead", attempts=5, last_error="boom")
    assert await library.found() == {}
    assert (await library.row()).status == "failed"
