"""K9: what every store of vectors promises."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from rowmill_systems.parts.vectors import Collection, Placed, Point, VectorStore, pgvector, sqlite
from rowmill_systems.parts.vectors.errors import CollectionMissing, VectorsUnavailable, WrongDimensions, WrongVector
from systems.tests.parts.vectors.points import document, every_verb, listed, points, some_vectors

DOC, OTHER, NOWHERE = document(1), document(2), document(10**9)


async def test_collections_come_and_go(store: VectorStore) -> None:
    for _ in range(2):
        await store.create("kb_b", 8)
    await store.create("kb_B", 3)
    await store.create("kb_a", 8)
    await store.put("kb_b", points(DOC, 3))
    assert await listed(store.collections()) == [Collection("kb_B", 3), Collection("kb_a", 8), Collection("kb_b", 8)]
    assert [await store.drop("kb_b") for _ in range(3)] == [True, False, False]
    assert [found.name for found in await listed(store.collections())] == ["kb_B", "kb_a"]
    assert await listed(store.documents()) == []
    await store.create("kb_b", 4)
    assert await store.count("kb_b", DOC) == {}, "it does not come back with what it had"


async def test_a_collection_that_many_make_at_once_is_one(store: VectorStore) -> None:
    await asyncio.gather(*(store.create("kb_1", 8) for _ in range(6)))
    assert await listed(store.collections()) == [Collection("kb_1", 8)]


async def test_more_collections_than_a_page(store: VectorStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (sqlite, pgvector):
        monkeypatch.setattr(module, "PAGE", 10)
    names = [f"kb_{number:02}" for number in range(45)]
    await asyncio.gather(*(store.create(name, 2) for name in names))
    assert [found.name for found in await listed(store.collections())] == names


async def test_another_number_of_dimensions_is_refused(store: VectorStore) -> None:
    await store.create("kb_1", 8)
    for dimensions in (7, 0):
        with pytest.raises(WrongDimensions):
            await store.create("kb_1", dimensions)
    with pytest.raises(WrongDimensions):
        await store.put("kb_1", points(DOC, 2, dimensions=7))
    with pytest.raises(WrongDimensions):
        await store.put("kb_1", [*points(DOC, 1), *points(DOC, 1, dimensions=7)])
    with pytest.raises(WrongDimensions):
        await store.search("kb_1", some_vectors(1, 7)[0], 3)
    assert await store.count("kb_1", DOC) == {}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
async def test_what_is_no_number_is_refused(store: VectorStore, value: float) -> None:
    await store.create("kb_1", 8)
    good, bad = points(DOC, 2)
    bad.vector[3] = value
    with pytest.raises(WrongVector, match="1 of 2"):
        await store.put("kb_1", [good, bad])
    with pytest.raises(WrongVector):
        await store.search("kb_1", bad.vector, 3)
    assert await store.count("kb_1", DOC) == {}


async def test_a_collection_that_was_dropped_takes_nothing(store: VectorStore) -> None:
    """A late write does not bring it back."""
    await store.create("kb_1", 8)
    await store.create("kb_2", 8)
    await store.drop("kb_1")
    for name in ("kb_1", "kb_never"):
        for given in (points(DOC, 2), []):
            with pytest.raises(CollectionMissing):
                await store.put(name, given)
        with pytest.raises(CollectionMissing):
            await store.search(name, some_vectors(1)[0], 3)
        with pytest.raises(CollectionMissing):
            await store.search(name, some_vectors(1)[0], 3, documents=[])
        assert await store.delete(name, DOC) == 0
        assert await store.count(name, DOC) == {}
    assert [found.name for found in await listed(store.collections())] == ["kb_2"]


async def test_points_of_one_place_are_replaced(store: VectorStore) -> None:
    await store.create("kb_1", 8)
    first, second, third = some_vectors(3)
    for vector, model in ((first, "model-1"), (second, "model-2")):
        await store.put("kb_1", [Point(DOC, 1, 0, vector, model)])
    await store.put("kb_1", [Point(DOC, 1, 1, first, "model-2"), Point(DOC, 1, 1, third, "model-2")])
    assert await store.count("kb_1", DOC) == {1: 2}
    assert (await store.points_of([DOC]))[DOC].counts == {Placed("kb_1", 1, "model-2"): 2}
    for number, vector in enumerate((second, third)):
        [hit] = await store.search("kb_1", vector, 1)
        assert (hit.number, round(hit.score, 4)) == (number, 1.0), "the last of them counts"


async def test_points_are_deleted_by_generation(store: VectorStore) -> None:
    await store.create("kb_1", 8)
    await store.create("kb_2", 8)
    for generation in (1, 2, 3):
        await store.put("kb_1", points(DOC, generation + 1, generation=generation))
    await store.put("kb_1", points(OTHER, 5))
    await store.put("kb_2", points(DOC, 7))
    assert await store.count("kb_1", DOC) == {1: 2, 2: 3, 3: 4}
    assert [await store.delete("kb_1", DOC, generation=1) for _ in range(2)] == [2, 0]
    assert await store.count("kb_1", DOC) == {2: 3, 3: 4}
    assert [await store.delete("kb_1", DOC, other_than=3) for _ in range(2)] == [3, 0]
    assert await store.count("kb_1", DOC) == {3: 4}
    with pytest.raises(ValueError, match="not both"):
        await store.delete("kb_1", DOC, generation=3, other_than=3)
    assert [await store.delete("kb_1", DOC) for _ in range(2)] == [4, 0]
    assert await store.count("kb_1", OTHER) == {1: 5}, "others stay"
    assert await store.count("kb_2", DOC) == {1: 7}


async def test_a_document_of_thousands_of_points_is_deleted_whole(store: VectorStore, plenty: int) -> None:
    await store.create("kb_1", 2)
    half = plenty // 2
    for generation in (1, 2):
        await store.put("kb_1", points(DOC, half, generation=generation, dimensions=2))
    assert await store.count("kb_1", DOC) == {1: half, 2: half}
    assert await store.delete("kb_1", DOC, other_than=2) == half
    assert await store.delete("kb_1", DOC) == half
    assert await store.count("kb_1", DOC) == {}
    assert await listed(store.documents()) == []


async def test_a_search_returns_the_nearest_by_cosine(store: VectorStore) -> None:
    """The same in all stores, to four digits."""
    vectors = some_vectors(300)
    await store.create("kb_1", 8)
    for number in range(3):
        await store.put(
            "kb_1", [replace(point, vector=point.vector * 3) for point in points(document(number), 100, seed=number)]
        )
    stored = np.concatenate([some_vectors(100, seed=number) for number in range(3)])
    for query in vectors[:5]:
        scores = stored @ query
        best = np.argsort(-scores)[:20]
        hits = await store.search("kb_1", query * 5, 20)
        assert [hit.score for hit in hits] == pytest.approx(scores[best].tolist(), abs=1e-4)
        assert [(hit.document, hit.number) for hit in hits] == [(document(i // 100), i % 100) for i in best.tolist()]
        assert {hit.generation for hit in hits} == {1}
    assert len(await store.search("kb_1", query, 1_000)) == 300
    assert await store.search("kb_1", query, 0) == []


async def test_a_search_among_documents(store: VectorStore) -> None:
    await store.create("kb_1", 8)
    for number in range(4):
        await store.put("kb_1", points(document(number), 10, seed=number))
    query = some_vectors(1, seed=9)[0]
    everything = await store.search("kb_1", query, 100)
    wanted = {document(1), document(3)}
    expected = [hit for hit in everything if hit.document in wanted]
    found = await store.search("kb_1", query, 100, documents=[*wanted, *wanted, NOWHERE])
    assert [hit.number for hit in found] == [hit.number for hit in expected]
    assert {hit.document for hit in found} == wanted
    assert len(await store.search("kb_1", query, 3, documents=[document(1)])) == 3
    assert await store.search("kb_1", query, 100, documents=[NOWHERE]) == []
    assert await store.search("kb_1", query, 100, documents=[]) == [], "no documents, no hits"
    many = [document(number) for number in range(2_000)]
    assert len(await store.search("kb_1", query, 100, documents=many)) == 40


async def test_a_search_sees_every_change_at_once(store: VectorStore) -> None:
    """Also what was deleted, replaced and written since the last search."""
    await store.create("kb_1", 8)
    near, far = some_vectors(2)
    await store.put("kb_1", points(OTHER, 30, seed=5))
    await store.put("kb_1", [Point(DOC, 1, number, near, "model-1") for number in range(40)])
    assert {hit.document for hit in await store.search("kb_1", near, 40)} == {DOC}
    await store.put("kb_1", [Point(DOC, 1, 0, far, "model-1")])
    await store.delete("kb_1", OTHER)
    scores = [hit.score for hit in await store.search("kb_1", near, 100)]
    assert scores == pytest.approx([1.0] * 39 + [float(near @ far)], abs=1e-4)
    await store.delete("kb_1", DOC)
    assert await store.search("kb_1", near, 3) == []
    await store.drop("kb_1")
    await store.create("kb_1", 8)
    assert await store.search("kb_1", near, 3) == []
    await store.put("kb_1", points(OTHER, 3))
    assert len(await store.search("kb_1", near, 3)) == 3


async def test_a_vector_of_zeros_is_far_from_everything(store: VectorStore) -> None:
    """The vector of a text without any token."""
    zeros = np.zeros(8, np.float32)
    [near] = some_vectors(1)
    await store.create("kb_1", 8)
    await store.put("kb_1", [Point(DOC, 1, 0, zeros, "model-1"), Point(DOC, 1, 1, near, "model-1")])
    assert [(hit.number, round(hit.score, 4)) for hit in await store.search("kb_1", near, 5)] == [(1, 1.0), (0, 0.0)]
    assert {round(hit.score, 4) for hit in await store.search("kb_1", zeros, 5)} == {0.0}


async def test_documents_are_listed_sorted_and_to_the_end(store: VectorStore, plenty: int) -> None:
    """Of all collections, with more points than any page has."""
    expected: Counter[tuple[str, int, str, str]] = Counter()
    for place, name in enumerate(("kb_1", "kb_2", "kb_3")):
        await store.create(name, 2)
        vectors = some_vectors(plenty // 3, 2)
        given = [
            Point(document(i // 3 + place * 100), 1 + i % 2, i, vector, f"model-{i % 2}")
            for i, vector in enumerate(vectors)
        ]
        await store.put(name, given)
        expected.update((str(point.document), point.generation, point.model, name) for point in given)
    found = await listed(store.documents())
    ids = [each.document for each in found]
    assert ids == sorted(set(ids))
    assert len(ids) == 200 + -(-plenty // 9)
    counted = {
        (str(each.document), placed.generation, placed.model, placed.collection): count
        for each in found
        for placed, count in each.counts.items()
    }
    assert counted == expected
    some = await store.points_of([*ids[:600], NOWHERE])
    assert some == {each.document: each for each in found[:600]}
    assert await store.points_of([]) == {}


async def test_documents_are_listed_while_others_change(store: VectorStore) -> None:
    numbers = range(700)
    await store.create("kb_1", 2)
    await store.put("kb_1", [Point(document(n), 1, 0, some_vectors(1, 2)[0], "m") for n in numbers])
    steady = {document(n) for n in numbers[100:]}
    found = []
    async for each in store.documents():
        found.append(each.document)
        if len(found) == 10:
            for n in numbers[:100:5]:
                await store.delete("kb_1", document(n))
            await store.put("kb_1", points(document(5_000), 3, dimensions=2))
    assert found == sorted(set(found))
    assert steady <= set(found)


async def test_when_points_were_written(store: VectorStore) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    await store.create("kb_1", 8)
    await store.create("kb_2", 8)
    await store.put("kb_1", points(DOC, 1))
    [first] = await listed(store.documents())
    await store.put("kb_2", points(DOC, 1))
    [second] = await listed(store.documents())
    assert first.at is not None
    assert second.at is not None
    assert before <= first.at < second.at <= datetime.now(UTC) + timedelta(seconds=2)
    assert (await store.points_of([DOC]))[DOC].at == second.at


async def test_ids_at_both_ends(store: VectorStore) -> None:
    ends = [type(DOC)(int=0), type(DOC)(int=1), type(DOC)(int=2**128 - 1)]
    await store.create("kb_1", 8)
    for end in ends:
        await store.put("kb_1", points(end, 2))
    assert [each.document for each in await listed(store.documents())] == ends


async def test_documents_whose_ids_begin_alike(store: VectorStore) -> None:
    """As those of UUID version 7, which begin with the time."""
    alike = [type(DOC)(int=(7 << 64) + tail) for tail in (5, 1, 2**64 - 1, 3)]
    await store.create("kb_1", 8)
    for each in alike:
        await store.put("kb_1", points(each, 4))
    found = await listed(store.documents())
    assert [(each.document, sum(each.counts.values())) for each in found] == [(each, 4) for each in sorted(alike)]


async def test_many_at_once(store: VectorStore) -> None:
    await store.create("kb_1", 8)
    await asyncio.gather(*(store.put("kb_1", points(document(n), 20)) for n in range(30)))
    counts = await asyncio.gather(*(store.count("kb_1", document(n)) for n in range(30)))
    assert counts == [{1: 20}] * 30
    query = some_vectors(1)[0]
    found = await asyncio.gather(*(store.search("kb_1", query, 5) for _ in range(30)))
    assert [len(hits) for hits in found] == [5] * 30


async def test_a_caller_that_is_cancelled_harms_nobody(store: VectorStore) -> None:
    await store.create("kb_1", 8)
    tasks = [asyncio.create_task(store.put("kb_1", points(document(n), 50))) for n in range(12)]
    searches = [asyncio.create_task(store.search("kb_1", some_vectors(1)[0], 5)) for _ in range(12)]
    for task in [*tasks[::2], *searches[::2]]:
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(*tasks, *searches, return_exceptions=True)
    for n in range(1, 12, 2):
        assert await store.count("kb_1", document(n)) == {1: 50}
    for n in range(0, 12, 2):
        assert await store.count("kb_1", document(n)) in ({}, {1: 50}), "all or nothing"


async def test_a_store_may_be_closed_twice_and_used_again(store: VectorStore) -> None:
    await store.close()
    await store.create("kb_1", 8)
    await store.put("kb_1", points(DOC, 2))
    for _ in range(2):
        await store.close()
    assert await store.count("kb_1", DOC) == {1: 2}


VERBS = ["drop", "collections", "put", "delete", "count", "search", "documents", "points_of"]


@pytest.mark.parametrize("verb", VERBS)
async def test_a_store_that_is_away_never_looks_empty(away: VectorStore, verb: str) -> None:
    verbs = every_verb(away, DOC, some_vectors(1)[0], points(DOC, 1))
    assert list(verbs) == VERBS
    with pytest.raises(VectorsUnavailable) as raised:
        await verbs[verb]()
    assert raised.value.retryable
    assert raised.value.code == "vectors_unavailable"
    await away.close()
