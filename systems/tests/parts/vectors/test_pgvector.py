"""What is special about vectors in PostgreSQL."""

import asyncio

import asyncpg
import pytest

from rowmill_systems.parts.vectors import VectorStore, open_vectors
from rowmill_systems.parts.vectors.errors import CollectionMissing, VectorsRefused, VectorsUnavailable
from rowmill_systems.parts.vectors.pgvector import LAST, PAGE_OF_DOCUMENTS, SEARCH_INDEX, PgVectors
from rowmill_systems.parts.vectors.pgvector_errors import meaning
from systems.tests.parts.vectors.points import document, every_verb, listed, points, some_vectors

DOC = document(1)


async def test_a_database_without_tables_is_no_empty_store(pgvector: VectorStore) -> None:
    """It may be another one than before."""
    for verb in every_verb(pgvector, DOC, some_vectors(1)[0], points(DOC, 1)).values():
        with pytest.raises(VectorsUnavailable, match="no tables"):
            await verb()
    await pgvector.prepare()
    assert await listed(pgvector.documents()) == []


async def test_processes_that_make_the_tables_at_once(pg_url: str) -> None:
    stores = [open_vectors(pg_url) for _ in range(4)]
    await asyncio.gather(*(store.create("kb_1", 8) for store in stores))
    assert len(await listed(stores[0].collections())) == 1
    for store in stores:
        await store.close()


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (asyncpg.FeatureNotSupportedError("x"), "Install its package"),
        (asyncpg.UndefinedFileError("x"), "Install its package"),
        (asyncpg.UndefinedObjectError("x"), "CREATE EXTENSION vector"),
        (asyncpg.InsufficientPrivilegeError("x"), "CREATE EXTENSION vector"),
        (asyncpg.InvalidPasswordError("x"), "28P01"),
    ],
)
def test_what_somebody_has_to_set_up_is_said_with_its_fix(error: asyncpg.PostgresError, fix: str) -> None:
    found = meaning(error)
    assert isinstance(found, VectorsRefused)
    assert fix in str(found)


async def test_a_server_without_pgvector_says_what_to_install(pgvector: PgVectors, pg_url: str) -> None:
    """As a server whose packages lack it answers: the name of another extension stands for it."""
    connection = await asyncpg.connect(pg_url)
    with pytest.raises(asyncpg.PostgresError) as raised:
        await connection.execute("CREATE EXTENSION rowmill_has_no_such_extension")
    await connection.close()
    assert "Install its package" in str(meaning(raised.value))


async def test_a_put_and_a_drop_at_once_leave_no_points(pgvector: VectorStore) -> None:
    await pgvector.create("kb_1", 8)
    puts = [pgvector.put("kb_1", points(document(n), 50)) for n in range(6)]
    found = await asyncio.gather(*puts, pgvector.drop("kb_1"), return_exceptions=True)
    assert {type(each) for each in found} <= {type(None), CollectionMissing, bool}, found
    assert await listed(pgvector.documents()) == []


async def test_a_store_is_used_in_one_event_loop_after_the_other(pg_url: str) -> None:
    """As tasks of Celery do."""
    store = open_vectors(pg_url)

    def use() -> int:
        async def work() -> int:
            await store.create("kb_1", 8)
            await store.put("kb_1", points(DOC, 3))
            found = await store.search("kb_1", some_vectors(1)[0], 5)
            await store.close()
            return len(found)

        return asyncio.run(work())

    assert [await asyncio.to_thread(use) for _ in range(2)] == [3, 3]


async def test_an_index_is_used_once_it_is_built(pgvector: PgVectors, pg_url: str) -> None:
    await pgvector.create("kb_1", 8)
    await pgvector.create("kb_2", 4)
    for n in range(4):
        await pgvector.put("kb_1", points(document(n), 500, seed=n))
    queries = some_vectors(20, seed=9)
    exact = [await pgvector.search("kb_1", query, 10) for query in queries]
    await pgvector.build_index("kb_1")
    connection = await asyncpg.connect(pg_url)
    await connection.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid::regclass::text ~ 'hnsw'")
    await pgvector.build_index("kb_1")  # after one that broke off
    assert await connection.fetchval("SELECT indisvalid FROM pg_index WHERE indexrelid::regclass::text ~ 'hnsw'")
    await connection.close()
    found = [await pgvector.search("kb_1", query, 10) for query in queries]
    recall = sum(len(set(one) & set(other)) for one, other in zip(exact, found, strict=True)) / 200
    assert recall >= 0.95
    assert [hit.score for hit in found[0]] == sorted((hit.score for hit in found[0]), reverse=True)
    await pgvector.put("kb_1", points(DOC, 3, seed=7))
    [hit] = await pgvector.search("kb_1", some_vectors(3, seed=7)[2], 1)
    assert (hit.number, round(hit.score, 4)) == (2, 1.0), "what comes later is in it too"
    assert await pgvector.search("kb_1", queries[0], 10, documents=[DOC]) != []

    async def indexes() -> list[str]:
        connection = await asyncpg.connect(pg_url)
        rows = await connection.fetch("SELECT indexrelname FROM pg_stat_user_indexes WHERE indexrelname ~ 'hnsw'")
        await connection.close()
        return [row[0] for row in rows]

    [index] = await indexes()
    connection = await asyncpg.connect(pg_url)
    await connection.execute("ANALYZE rowmill_vectors.points")
    plan = await connection.fetch(f"EXPLAIN {SEARCH_INDEX.format(id=index[12:], dimensions=8)}", [1.0] * 8, 10)
    await connection.close()
    assert f"Index Scan using {index}" in plan[1][0], plan
    await pgvector.drop("kb_1")
    assert await indexes() == []


async def test_a_page_of_documents_is_read_from_the_index(pgvector: VectorStore, pg_url: str) -> None:
    await pgvector.create("kb_1", 2)
    await pgvector.put("kb_1", [point for n in range(600) for point in points(document(n), 5, dimensions=2)])
    connection = await asyncpg.connect(pg_url)
    await connection.execute("VACUUM ANALYZE rowmill_vectors.points")
    plan = await connection.fetch(f"EXPLAIN {PAGE_OF_DOCUMENTS}", type(LAST)(int=2**127), 10)
    await connection.close()
    text = "\n".join(row[0] for row in plan)
    assert text.count("Index Only Scan using points_pkey") == 2, text
