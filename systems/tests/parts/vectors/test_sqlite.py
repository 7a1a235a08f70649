"""What is special about vectors in a file that processes share."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rowmill_systems.parts.vectors import VectorStore, open_vectors, sqlite, sqlite_file, sqlite_search
from rowmill_systems.parts.vectors.errors import VectorsUnavailable
from rowmill_systems.parts.vectors.sqlite import SqliteVectors
from systems.tests.parts.vectors.points import document, every_verb, listed, points, some_vectors

DOC, OTHER = document(1), document(2)
[QUERY] = some_vectors(1)

PUT_THAT_HANGS = """
import asyncio, sys, time
import numpy as np
from rowmill_systems.parts.vectors import open_vectors, sqlite
from systems.tests.parts.vectors.points import document, points

class Hanging(np.ndarray):
    def __iter__(self):
        for number, vector in enumerate(np.asarray(self)):
            if number == 2_000:
                print("in the middle", flush=True)
                time.sleep(600)
            yield vector

async def main():
    store = open_vectors(sys.argv[1])
    await store.put("kb_1", points(document(1), 4_000))
    real = sqlite.unit_vectors
    sqlite.unit_vectors = lambda given: real(given).view(Hanging)
    await store.put("kb_1", points(document(2), 4_000))

asyncio.run(main())
"""

USE_AFTER_FORK = """
import asyncio, os, sys
from rowmill_systems.parts.vectors import open_vectors
from systems.tests.parts.vectors.points import document, points, some_vectors

store = open_vectors(sys.argv[1])
asyncio.run(store.put("kb_1", points(document(1), 10)))
child = os.fork()
if child == 0:
    asyncio.run(store.put("kb_1", points(document(2), 20)))
    found = asyncio.run(store.search("kb_1", some_vectors(1)[0], 100))
    os._exit(0 if len(found) == 30 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert len(asyncio.run(store.search("kb_1", some_vectors(1)[0], 100))) == 30
asyncio.run(store.put("kb_1", points(document(3), 10)))
asyncio.run(store.close())
"""


def restore(backup: Path, path: Path) -> None:
    for log in ("-wal", "-shm"):  # SQLite would apply them to the backup
        path.with_name(path.name + log).unlink()
    backup.replace(path)


LETTER = b"a letter " * 1_000


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "vectors.db"


async def test_a_process_that_is_killed_in_a_put_leaves_nothing_of_it(sqlite: VectorStore, path: Path) -> None:
    await sqlite.create("kb_1", 8)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PUT_THAT_HANGS, path, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"in the middle\n"
    assert await sqlite.count("kb_1", DOC) == {1: 4_000}, "who reads does not wait"
    process.kill()
    await process.wait()
    assert await sqlite.count("kb_1", OTHER) == {}
    await sqlite.put("kb_1", points(OTHER, 3))
    assert await sqlite.count("kb_1", OTHER) == {1: 3}
    assert len(await sqlite.search("kb_1", QUERY, 10_000)) == 4_003


async def test_a_forked_process_uses_connections_of_its_own(sqlite: VectorStore, path: Path) -> None:
    await sqlite.create("kb_1", 8)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", USE_AFTER_FORK, path)
    assert await process.wait() == 0
    assert len(await sqlite.search("kb_1", QUERY, 100)) == 40


async def test_a_store_sees_what_another_one_wrote(sqlite: VectorStore, path: Path) -> None:
    other = open_vectors(str(path))
    await sqlite.create("kb_1", 8)
    assert await other.search("kb_1", QUERY, 10) == []
    for number in range(3):
        await sqlite.put("kb_1", points(document(number), 10, seed=number))
        assert len(await other.search("kb_1", QUERY, 100)) == 10 * (number + 1)
    await sqlite.delete("kb_1", document(0))
    assert {hit.document for hit in await other.search("kb_1", QUERY, 5)} <= {document(1), document(2)}
    await sqlite.drop("kb_1")
    await sqlite.create("kb_1", 4)
    await sqlite.put("kb_1", points(DOC, 3, dimensions=4))
    assert len(await other.search("kb_1", some_vectors(1, 4)[0], 9)) == 3
    await other.close()


async def test_stores_that_make_the_file_at_once(path: Path) -> None:
    stores = [open_vectors(str(path)) for _ in range(8)]
    await asyncio.gather(*(store.create("kb_1", 8) for store in stores))
    await asyncio.gather(*(store.put("kb_1", points(document(n), 5)) for n, store in enumerate(stores)))
    assert len(await stores[0].search("kb_1", QUERY, 100)) == 40
    for store in stores:
        await store.close()


@pytest.mark.parametrize("cache_bytes", [0, 20 * 32, 60 * 32])
async def test_a_collection_that_does_not_fit_into_memory_is_read(
    path: Path, cache_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_search, "BLOCK", 16)
    small, large = SqliteVectors(path, cache_bytes=cache_bytes), SqliteVectors(path)
    for collection in ("kb_1", "kb_2"):
        await small.create(collection, 8)
        await small.put(collection, points(DOC, 30, seed=1))
        await small.put(collection, points(OTHER, 20, seed=2))
    for collection in ("kb_1", "kb_2", "kb_1"):
        for limit in (1, 10, 50):
            assert await small.search(collection, QUERY, limit) == await large.search(collection, QUERY, limit)
    held = sum(cached.size for cached in small._search._cached.values())
    assert held == (50 * 32 if cache_bytes == 60 * 32 else 0)
    await small.close()
    await large.close()


async def test_what_was_deleted_is_forgotten_in_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_search, "BLOCK", 16)
    store = SqliteVectors(path)
    await store.create("kb_1", 8)
    for number in range(10):
        await store.put("kb_1", points(document(number), 20, seed=number))
        await store.search("kb_1", QUERY, 5)
        await store.delete("kb_1", document(number))
    assert await store.search("kb_1", QUERY, 5) == []
    [cached] = store._search._cached.values()
    assert cached.size <= 40 * 32
    await store.close()


async def test_a_file_that_is_gone_is_not_made_again(sqlite: VectorStore, path: Path) -> None:
    """Its disk may not be mounted. A connection would go on in a file that nobody sees."""
    await sqlite.create("kb_1", 8)
    await sqlite.put("kb_1", points(DOC, 3))
    for file in path.parent.iterdir():
        file.rename(file.with_suffix(file.suffix + ".moved"))
    verbs = every_verb(sqlite, DOC, QUERY, points(DOC, 1))
    for verb in (*verbs.values(), lambda: sqlite.create("kb_1", 8), sqlite.prepare):
        with pytest.raises(VectorsUnavailable, match="not mounted"):
            await verb()
    for file in path.parent.iterdir():
        file.rename(file.with_suffix(file.suffix.removesuffix(".moved")))
    assert await sqlite.count("kb_1", DOC) == {1: 3}


async def test_a_file_that_was_put_in_its_place_is_used(sqlite: VectorStore, path: Path) -> None:
    await sqlite.create("kb_1", 8)
    await sqlite.put("kb_1", points(DOC, 3))
    assert len(await sqlite.search("kb_1", QUERY, 10)) == 3
    restored = open_vectors(str(path.with_name("restored.db")))
    await restored.create("kb_1", 8)
    await restored.put("kb_1", points(OTHER, 3, seed=4))
    await restored.close()
    restore(path.with_name("restored.db"), path)
    assert {hit.document for hit in await sqlite.search("kb_1", QUERY, 10)} == {OTHER}


async def test_a_file_without_tables_is_no_empty_store(sqlite: VectorStore, path: Path) -> None:
    write(path, b"")
    for verb in every_verb(sqlite, DOC, QUERY, points(DOC, 1)).values():
        with pytest.raises(VectorsUnavailable):
            await verb()
    await sqlite.prepare()
    assert await listed(sqlite.documents()) == []


async def test_a_file_that_is_something_else_stays_as_it_is(sqlite: VectorStore, path: Path) -> None:
    write(path, LETTER)
    for verb in (lambda: sqlite.create("kb_1", 8), lambda: sqlite.count("kb_1", DOC)):
        with pytest.raises(VectorsUnavailable, match="SQLITE_NOTADB"):
            await verb()
    assert await asyncio.to_thread(path.read_bytes) == LETTER


async def test_a_writer_that_waits_too_long_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "BUSY_MS", 10)
    store = open_vectors(str(path))
    await store.create("kb_1", 8)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(VectorsUnavailable, match="SQLITE_BUSY"):
            await store.put("kb_1", points(DOC, 1))
        assert await store.search("kb_1", QUERY, 3) == []
        other.execute("ROLLBACK")
    other.close()
    await store.put("kb_1", points(DOC, 1))
    await store.close()


async def test_only_the_owner_can_read_the_file(sqlite: VectorStore, path: Path) -> None:
    before = os.umask(0)
    try:
        await sqlite.create("kb_1", 8)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (sqlite.DELETE, "vector_points_place (document=? AND collection=?)"),
        (sqlite.DELETE_PLACE, "vector_points_place (document=? AND collection=? AND generation=? AND number=?)"),
        (sqlite.COUNT, "COVERING INDEX vector_points_place (document=? AND collection=?)"),
        (sqlite.LAST_OF_PAGE, "COVERING INDEX"),
        (sqlite.PAGE_OF_DOCUMENTS, "COVERING INDEX vector_points_written (document>? AND document<?)"),
        (sqlite.ONE_DOCUMENT, "COVERING INDEX vector_points_written (document=?)"),
        (sqlite_search.VECTORS, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
    ],
)  # fmt: skip
async def test_statements_use_an_index(sqlite: VectorStore, path: Path, statement: str, index: str) -> None:
    await sqlite.prepare()
    with sqlite3.connect(path) as connection:
        marks = 5 if "?5" in statement else statement.count("?")
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", [1] * marks)]
    connection.close()
    assert any(index in step for step in plan), plan
    assert not any("TEMP B-TREE FOR ORDER BY" in step or step.startswith("SCAN p") for step in plan), plan
