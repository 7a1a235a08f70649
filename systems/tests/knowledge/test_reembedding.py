"""A change of the model is noticed: a collection has vectors of one model, and is made anew for another."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from rowmill_systems.knowledge.bases import create_kb, request_reembedding
from rowmill_systems.knowledge.errors import KbMissing
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.names import collection_of
from rowmill_systems.parts.vectors.errors import VectorsUnavailable
from rowmill_systems.parts.vectors.open import open_vectors
from systems.tests.knowledge.harness import (
    HashEmbedder,
    Interposed,
    Outage,
    advance,
    assert_consistent,
    document,
    drain,
    events,
    kb_row,
    knowledge_on,
    put,
    scalars,
    sql,
)

SAME_LENGTH, LONGER = HashEmbedder("other"), HashEmbedder("longer", 96)


@asynccontextmanager
async def with_model(url: str, folder: Path, embedder: HashEmbedder, **more: Any) -> AsyncIterator[Knowledge]:
    async with knowledge_on(url, folder, embedder=embedder, **more) as knowledge:
        yield knowledge


async def finish(knowledge: Knowledge) -> None:
    for _ in range(6):
        await drain(knowledge)
        if {event.state for event in await events(knowledge)} == {"processed"}:
            return
        await advance(knowledge, 60)
    raise AssertionError([tuple(event) for event in await events(knowledge)])


async def assert_model(knowledge: Knowledge, kb_id: UUID, embedder: HashEmbedder, *documents: UUID) -> None:
    """Assert that all of it has vectors of that model, and of no other."""
    row = await kb_row(knowledge, kb_id)
    assert (row.embedding_model, row.dimensions, row.reembedding) == (embedder.name, embedder.dimensions, False)
    for document_id in documents:
        await assert_consistent(knowledge, kb_id, document_id)
        found = await document(knowledge, document_id)
        assert (found.embedding_model, found.dimensions) == (embedder.name, embedder.dimensions)
    models = {placed.model async for each in knowledge.vectors.documents() for placed in each.counts}
    assert models == {embedder.name}
    lengths = {each.dimensions async for each in knowledge.vectors.collections()}
    assert lengths == {embedder.dimensions}


@pytest.mark.parametrize("embedder", [SAME_LENGTH, LONGER], ids=lambda one: one.name)
async def test_the_first_document_after_a_change_has_everything_embedded_again(
    database_url: str, tmp_path: Path, embedder: HashEmbedder
) -> None:
    async with with_model(database_url, tmp_path, HashEmbedder()) as before:
        kb_id = await create_kb(before, "a")
        first, second = await put(before, kb_id), await put(before, kb_id)
        await drain(before)
        await assert_model(before, kb_id, HashEmbedder(), first, second)
        generation = (await document(before, first)).generation
    async with with_model(database_url, tmp_path, embedder) as after:
        third = await put(after, kb_id)
        await drain(after)
        assert (await document(after, third)).error_code == "wrong_model"
        await finish(after)
        await assert_model(after, kb_id, embedder, first, second, third)
        assert (await document(after, first)).generation == generation + 1
        assert [event.event_type for event in await events(after)].count("kb.reembed") == 1
        assert all(event.attempts == 0 for event in await events(after)), "waiting costs no attempt"


async def test_a_request_is_enough(database_url: str, tmp_path: Path) -> None:
    """As of the comparison of the stores. Words stay searchable meanwhile: the chunks of the older run are there."""
    async with with_model(database_url, tmp_path, HashEmbedder()) as before:
        kb_id = await create_kb(before, "a")
        document_id = await put(before, kb_id)
        await drain(before)
    async with with_model(database_url, tmp_path, LONGER) as after:
        await request_reembedding(after, kb_id)
        await request_reembedding(after, kb_id)
        await finish(after)
        await assert_model(after, kb_id, LONGER, document_id)
        assert [event.event_type for event in await events(after)].count("kb.reembed") == 1
        with pytest.raises(KbMissing):
            await request_reembedding(after, UUID(int=0))


async def test_workers_of_an_older_deployment_do_not_take_it_back(database_url: str, tmp_path: Path) -> None:
    """Otherwise both would embed everything again and again, in turns."""
    async with with_model(database_url, tmp_path, HashEmbedder()) as older:
        kb_id = await create_kb(older, "a")
        first = await put(older, kb_id)
        await drain(older)
        async with with_model(database_url, tmp_path, LONGER) as newer:
            await request_reembedding(newer, kb_id)
            await drain(older)
            assert (await kb_row(older, kb_id)).embedding_model == "hash", "it is for a worker with that model"
            await advance(newer, 60)
            await finish(newer)
            second = await put(older, kb_id)
            await drain(older)
            assert (await document(older, second)).error_code == "wrong_model"
            assert [event.event_type for event in await events(older)].count("kb.reembed") == 1
            await advance(newer, 60)
            await finish(newer)
            await assert_model(newer, kb_id, LONGER, first, second)


async def test_a_request_that_nobody_wants_any_more(database_url: str, tmp_path: Path) -> None:
    """The model was set back before any worker began."""
    async with with_model(database_url, tmp_path, HashEmbedder()) as before:
        kb_id = await create_kb(before, "a")
        document_id = await put(before, kb_id)
        await drain(before)
    async with with_model(database_url, tmp_path, LONGER) as changed:
        await request_reembedding(changed, kb_id)
    async with with_model(database_url, tmp_path, HashEmbedder()) as after:
        await finish(after)
        await assert_model(after, kb_id, HashEmbedder(), document_id)
        assert (await document(after, document_id)).generation == 1


@pytest.mark.parametrize("method", ["drop", "create"])
async def test_a_replacement_whose_event_died_is_gone_on_with(database_url: str, tmp_path: Path, method: str) -> None:
    """While it is under way, no run begins. The next run that waits for it writes its event again."""
    async with with_model(database_url, tmp_path, HashEmbedder()) as before:
        kb_id = await create_kb(before, "a")
        first = await put(before, kb_id)
        await drain(before)
    outage = Outage(VectorsUnavailable("no answer"), method)
    vectors = Interposed(open_vectors(str(tmp_path / "vectors.db")), outage)
    async with with_model(database_url, tmp_path, LONGER, vectors=vectors) as after:
        await request_reembedding(after, kb_id)
        for _ in range(5):
            await drain(after)
            await advance(after, 1000)
        assert (await events(after))[-1].state == "dead"
        assert (await kb_row(after, kb_id)).reembedding
        outage.methods = set()
        second = await put(after, kb_id)
        for _ in range(4):
            await drain(after)
            await advance(after, 60)
        replacements = [event.state for event in await events(after) if event.event_type == "kb.reembed"]
        assert replacements == ["dead", "processed"]
        await assert_model(after, kb_id, LONGER, first, second)


async def test_a_collection_of_another_length_than_the_database_says_is_replaced(
    database_url: str, tmp_path: Path
) -> None:
    """As after a database was restored, and the vector store was not."""
    async with with_model(database_url, tmp_path, LONGER) as knowledge:
        kb_id = await create_kb(knowledge, "a")
        first = await put(knowledge, kb_id)
        await drain(knowledge)
        await knowledge.vectors.drop(collection_of(kb_id))
        await knowledge.vectors.create(collection_of(kb_id), 7)
        second = await put(knowledge, kb_id)
        await finish(knowledge)
        await assert_model(knowledge, kb_id, LONGER, first, second)


async def test_a_document_that_failed_has_its_older_passages_embedded_again(database_url: str, tmp_path: Path) -> None:
    async with with_model(database_url, tmp_path, HashEmbedder()) as before:
        kb_id = await create_kb(before, "a")
        document_id = await put(before, kb_id)
        await drain(before)
        await sql(before, "UPDATE documents SET status = 'failed'")
    async with with_model(database_url, tmp_path, SAME_LENGTH) as after:
        await request_reembedding(after, kb_id)
        await finish(after)
        await assert_model(after, kb_id, SAME_LENGTH, document_id)
        assert await scalars(after, "SELECT generation FROM documents") == [2]
