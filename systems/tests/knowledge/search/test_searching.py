"""Search finds by meaning and by words, on both databases, and shows only what is visible."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest

import rowmill as rm
from rowmill_systems.knowledge.bases import create_kb, request_kb_deletion, request_reembedding
from rowmill_systems.knowledge.documents import request_deletion
from rowmill_systems.knowledge.errors import KbMissing
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import HIDDEN, DocumentStatus
from rowmill_systems.knowledge.search import meaning
from rowmill_systems.knowledge.search.filters import SearchFilters
from rowmill_systems.knowledge.search.searching import Degraded, SearchAnswer, search
from rowmill_systems.parts.embeddings.port import Vectors
from rowmill_systems.parts.vectors.errors import VectorsUnavailable
from systems.tests.knowledge.harness import HashEmbedder, Interposed, Outage, advance, drain, knowledge_on, put, sql

CRANES = "# Cranes\n\nA crane lifts heavy loads.\n\n# Norms\n\nSee ISO-9001 about quality."
WHALES = "# Whales\n\nA whale is a mammal of the sea.\n\n# 水\n\n自来水管道需要维修。"
NASTY = (
    '"', "'", "\\", "a AND", "NOT", "crane OR", "NEAR(", "crane*", "(crane", "terms:crane", "^crane", "{crane}",
    "-crane", "crane & | !", ":*", "<->", "\x00crane\x00", "\ud800 crane", "%_", "the of and", "   ", "", "🐋",
    "x" * 10_000, "crane " * 2_000, "' OR 1=1 --",
)  # fmt: skip


@pytest.fixture
async def filled(knowledge: Knowledge) -> tuple[Knowledge, UUID]:
    """A knowledge base with two documents that are ready."""
    kb_id = await create_kb(knowledge, "Handbooks")
    await put(knowledge, kb_id, CRANES, "cranes.md")
    await put(knowledge, kb_id, WHALES, "whales.md")
    await drain(knowledge)
    return knowledge, kb_id


def found(answer: SearchAnswer) -> list[str]:
    return [hit.text for hit in answer.hits]


async def test_hits_quote_the_passage_with_its_place_and_context(filled: tuple[Knowledge, UUID]) -> None:
    knowledge, kb_id = filled
    answer = await search(knowledge, "Lifting a load", kb_ids=[kb_id])
    first = answer.hits[0]
    assert (first.filename, first.page, first.number, first.heading) == ("cranes.md", 1, 0, "Cranes")
    assert (first.before, first.after.splitlines()[0], first.kb_id) == ("", "# Norms", kb_id)
    assert [first.text[start:end] for start, end in first.highlights] == ["lifts", "loads"]
    assert answer.degraded is None


@pytest.mark.parametrize("query", ["ISO-9001", "iso9001", "ISO 9001", "9001", "QUALITIES"])
async def test_identifiers_are_found_whole_and_in_parts(filled: tuple[Knowledge, UUID], query: str) -> None:
    knowledge, kb_id = filled
    answer = await search(knowledge, query, kb_ids=[kb_id])
    assert "ISO-9001" in answer.hits[0].text
    assert answer.hits[0].highlights


async def test_chinese_is_found_without_spaces(filled: tuple[Knowledge, UUID]) -> None:
    knowledge, kb_id = filled
    first = (await search(knowledge, "水管维修", kb_ids=[kb_id])).hits[0]
    assert [first.text[start:end] for start, end in first.highlights] == ["水管", "维修"]


async def test_any_text_is_a_query(filled: tuple[Knowledge, UUID]) -> None:
    knowledge, kb_id = filled
    for query in NASTY:
        answer = await search(knowledge, query, kb_ids=[kb_id])
        assert answer.degraded is None
        if "crane" in query:
            assert "crane" in answer.hits[0].text, query
    assert (await search(knowledge, "  ", kb_ids=[kb_id])).hits == ()


async def test_only_the_visible_generation_is_found(filled: tuple[Knowledge, UUID]) -> None:
    knowledge, kb_id = filled
    await sql(knowledge, "UPDATE documents SET indexed_generation = 99 WHERE filename = 'cranes.md'")
    assert "A crane lifts heavy loads." not in " ".join(found(await search(knowledge, "crane lifts", kb_ids=[kb_id])))
    await sql(knowledge, "UPDATE documents SET indexed_generation = NULL")
    assert found(await search(knowledge, "crane lifts whale", kb_ids=[kb_id])) == []


@pytest.mark.parametrize("status", DocumentStatus)
async def test_what_an_earlier_run_indexed_is_found_until_the_document_is_deleted(
    filled: tuple[Knowledge, UUID], status: DocumentStatus
) -> None:
    """A comparison that has many documents processed again must not hide them."""
    knowledge, kb_id = filled
    await sql(knowledge, "UPDATE documents SET status = :status, generation = generation + 1", status=status)
    hits = (await search(knowledge, "crane lifts", kb_ids=[kb_id], limit=1)).hits
    assert [hit.by for hit in hits] == ([] if status in HIDDEN else ["both"])


async def test_a_document_whose_deletion_was_asked_for_is_found_no_longer(filled: tuple[Knowledge, UUID]) -> None:
    knowledge, kb_id = filled
    [hit] = (await search(knowledge, "whale mammal", kb_ids=[kb_id], limit=1)).hits
    await request_deletion(knowledge, hit.document_id)
    assert hit.text not in found(await search(knowledge, "whale mammal", kb_ids=[kb_id]))


async def test_several_knowledge_bases_are_searched_and_no_others(filled: tuple[Knowledge, UUID]) -> None:
    knowledge, kb_id = filled
    other, third = await create_kb(knowledge, "Other"), await create_kb(knowledge, "Third")
    await put(knowledge, other, "A crane is a bird.", "birds.md")
    await put(knowledge, third, "A crane is a tap.", "taps.md")
    await drain(knowledge)
    both = await search(knowledge, "crane", kb_ids=[kb_id, other, kb_id])
    assert {hit.filename for hit in both.hits if "crane" in hit.text} == {"cranes.md", "birds.md"}
    assert {hit.kb_id for hit in both.hits} == {kb_id, other}
    await request_kb_deletion(knowledge, other)
    with pytest.raises(KbMissing):
        await search(knowledge, "crane", kb_ids=[kb_id, other])
    with pytest.raises(KbMissing):
        await search(knowledge, "crane", kb_ids=[uuid4()])


async def test_filters_leave_out_documents(filled: tuple[Knowledge, UUID]) -> None:
    knowledge, kb_id = filled
    whales = (await search(knowledge, "whale", kb_ids=[kb_id], limit=1)).hits[0].document_id
    now = datetime.now(UTC)

    async def names(filters: SearchFilters) -> set[str]:
        answer = await search(knowledge, "a crane and a whale", kb_ids=[kb_id], filters=filters)
        return {hit.filename for hit in answer.hits}

    assert await names(SearchFilters(documents=[whales])) == {"whales.md"}
    assert await names(SearchFilters(documents=[])) == set()
    assert await names(SearchFilters(filename="CRANE")) == {"cranes.md"}
    assert await names(SearchFilters(filename="%")) == set()
    assert await names(SearchFilters(kinds=["text"])) == {"cranes.md", "whales.md"}
    assert await names(SearchFilters(kinds=["pdf"])) == set()
    assert await names(SearchFilters(created_from=now - timedelta(hours=1))) == {"cranes.md", "whales.md"}
    assert await names(SearchFilters(created_before=now - timedelta(hours=1))) == set()


async def test_neighbours_are_one_hit(knowledge: Knowledge) -> None:
    kb_id = await create_kb(knowledge, "Long")
    sections = [f"# Part {n}\n\nThe crane number {n} lifts." for n in range(5)]
    await put(knowledge, kb_id, "\n\n".join(sections), "long.md")
    await drain(knowledge)
    hits = (await search(knowledge, "crane number 2", kb_ids=[kb_id])).hits
    numbers = [hit.number for hit in hits]
    assert numbers[0] == 2
    assert not any(abs(a - b) == 1 for a in numbers for b in numbers)
    assert "number 1" in hits[0].before
    assert "number 3" in hits[0].after


async def filled_with(knowledge: Knowledge) -> UUID:
    kb_id = await create_kb(knowledge, "Handbooks")
    await put(knowledge, kb_id, CRANES, "cranes.md")
    await drain(knowledge)
    return kb_id


async def test_without_the_vector_store_words_answer_and_say_so(database_url: str, tmp_path: Path) -> None:
    outage = Outage(VectorsUnavailable("refused"))
    async with knowledge_on(database_url, tmp_path) as plain:
        kb_id = await filled_with(plain)
        async with knowledge_on(database_url, tmp_path, vectors=Interposed(plain.vectors, outage)) as knowledge:
            assert (await search(knowledge, "crane", kb_ids=[kb_id])).degraded is None
            outage.methods = {"search"}
            answer = await search(knowledge, "crane", kb_ids=[kb_id])
            assert answer.degraded is Degraded.VECTORS_UNAVAILABLE
            assert "crane" in answer.hits[0].text
            assert answer.hits[0].by == "words"
            nothing = await search(knowledge, "submarine", kb_ids=[kb_id])
            assert (nothing.hits, nothing.degraded) == ((), Degraded.VECTORS_UNAVAILABLE)


async def test_without_the_model_words_answer_and_say_so(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Hanging(HashEmbedder):
        down = True

        async def embed(self, texts: Sequence[str]) -> Vectors:
            if self.down:
                raise rm.errors.ProviderDown("away")
            await asyncio.Event().wait()
            return await super().embed(texts)

    model = Hanging()
    monkeypatch.setattr(meaning, "SECONDS", 0.05)
    async with knowledge_on(sqlite_url, tmp_path) as plain:
        kb_id = await filled_with(plain)
        async with knowledge_on(sqlite_url, tmp_path, embedder=model) as knowledge:
            for model.down in (True, False):
                answer = await search(knowledge, "crane", kb_ids=[kb_id])
                assert answer.degraded is Degraded.MODEL_UNAVAILABLE
                assert "crane" in answer.hits[0].text


@pytest.mark.parametrize("dimensions", [64, 32])
async def test_vectors_of_another_model_are_not_compared(sqlite_url: str, tmp_path: Path, dimensions: int) -> None:
    async with knowledge_on(sqlite_url, tmp_path) as plain:
        kb_id = await filled_with(plain)
    async with knowledge_on(sqlite_url, tmp_path, embedder=HashEmbedder("new", dimensions)) as knowledge:
        answer = await search(knowledge, "crane", kb_ids=[kb_id])
        assert answer.degraded is Degraded.OTHER_MODEL
        assert {hit.by for hit in answer.hits} == {"words"}


@pytest.mark.parametrize("dimensions", [64, 32])
async def test_while_vectors_are_replaced_words_answer_and_say_so(
    database_url: str, tmp_path: Path, dimensions: int
) -> None:
    async with knowledge_on(database_url, tmp_path) as before:
        kb_id = await filled_with(before)
    async with knowledge_on(database_url, tmp_path, embedder=HashEmbedder("new", dimensions)) as knowledge:
        await request_reembedding(knowledge, kb_id)
        knowledge._vectors = Interposed(knowledge.vectors, outage := Outage(VectorsUnavailable("away"), "put"))
        await drain(knowledge)
        answer = await search(knowledge, "crane", kb_ids=[kb_id])
        assert (answer.degraded, {hit.by for hit in answer.hits}) == (Degraded.OTHER_MODEL, {"words"})
        outage.methods.clear()
        await advance(knowledge, 60)
        await drain(knowledge)
        answer = await search(knowledge, "crane", kb_ids=[kb_id], limit=1)
        assert (answer.degraded, {hit.by for hit in answer.hits}) == (None, {"both"})


async def test_the_vector_of_a_query_is_made_once(filled: tuple[Knowledge, UUID]) -> None:
    knowledge, kb_id = filled
    model = knowledge.embedder
    assert isinstance(model, HashEmbedder)
    before = len(model.embedded)
    for _ in range(2):
        await search(knowledge, "heavy whales", kb_ids=[kb_id])
    assert model.embedded[before:] == ["heavy whales"]
