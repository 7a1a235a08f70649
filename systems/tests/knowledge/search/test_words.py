"""Full text is in step with the chunks, ranks by BM25 on both databases, and reads indexes."""

import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import UUID, uuid5

import pytest
import sqlalchemy as sa

from rowmill_systems.knowledge.models import DocumentStatus, KbDocument, KnowledgeBase
from rowmill_systems.knowledge.search import words
from rowmill_systems.knowledge.search.chunk_rows import delete_chunks, insert_chunks
from rowmill_systems.knowledge.search.fulltext import CHUNK_TERMS, scope_of
from rowmill_systems.knowledge.search.fusion import fused
from rowmill_systems.knowledge.search.hits import read_hits
from rowmill_systems.knowledge.search.words import ChunkKey, find_by_words, term_counts

KB = UUID(int=7)
SAME_CODE = UUID(int=(8 << 64) + 7)
WHOLE = re.compile(r"Seq Scan on (chunks|chunk_terms|documents)|SCAN (chunks|chunk_terms|documents)\b")


@contextmanager
def connected(url: str) -> Iterator[sa.Connection]:
    """A connection in a transaction, with two knowledge bases."""
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA foreign_keys = ON")
            connection.execute(sa.insert(KnowledgeBase), [{"id": id, "name": "a"} for id in (KB, SAME_CODE)])
            yield connection
    finally:
        engine.dispose()


def put_document(connection: sa.Connection, *texts: str, kb_id: UUID = KB, generation: int = 1) -> UUID:
    """Insert a document that is ready, with these passages. Its id depends on its text."""
    id = uuid5(kb_id, ascii(texts))
    connection.execute(
        sa.insert(KbDocument).values(
            id=id, kb_id=kb_id, filename="a.txt", size=1, sha256="", object_key=str(id), status=DocumentStatus.READY,
            generation=generation, indexed_generation=generation, chunk_count=len(texts),
        )
    )  # fmt: skip
    insert_chunks(connection, rows_of(id, *texts, kb_id=kb_id, generation=generation))
    return id


def rows_of(id: UUID, *texts: str, kb_id: UUID = KB, generation: int = 1) -> list[dict[str, Any]]:
    key = {"document_id": id, "generation": generation, "kb_id": kb_id}
    return [{**key, "number": n, "page": 1, "text": text} for n, text in enumerate(texts)]


def find(connection: sa.Connection, *terms: str, kb_id: UUID = KB, limit: int = 10) -> list[ChunkKey]:
    found = find_by_words(connection, kb_id, term_counts(connection, kb_id, terms), limit)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    return [chunk for chunk, _ in found]


def test_what_is_rare_and_what_is_said_often_in_few_words_comes_first(database_url: str) -> None:
    with connected(database_url) as connection:
        often = put_document(connection, "crane crane crane load")
        once = put_document(connection, "crane load among many other words that say nothing of it at all")
        rare = put_document(connection, "whale load")
        put_document(connection, "load load load")
        assert find(connection, "cran") == [ChunkKey(often, 1, 0), ChunkKey(once, 1, 0)]
        assert find(connection, "whal", "load", limit=1) == [ChunkKey(rare, 1, 0)]
        assert find(connection, "nowher") == []


def test_scores_are_those_of_bm25(database_url: str) -> None:
    """How often a term stands is counted exactly, whatever the database counts with."""
    with connected(database_url) as connection:
        texts = {n: "crane " * n + "filler " * (20 - n) for n in range(1, 13)}
        keys = {put_document(connection, text): n for n, text in texts.items()}
        counts = term_counts(connection, KB, ["cran"])
        assert (counts.chunks, counts.length, counts.having) == (12, 20.0, {"cran": 12})
        for chunk, score in find_by_words(connection, KB, counts, 20):
            times = keys[chunk.document_id]
            assert score == pytest.approx(counts.weight("cran") * 2.2 * times / (times + 1.2))


def test_common_terms_add_to_the_score_and_rare_ones_select(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "MOST_CANDIDATES", 5)
    with connected(database_url) as connection:
        both = put_document(connection, "crane whale and more of it")
        only = put_document(connection, "crane and more of it all day")
        for n in range(20):
            put_document(connection, f"whale number {n}")
        assert find(connection, "cran", "whal") == [ChunkKey(both, 1, 0), ChunkKey(only, 1, 0)]
        assert term_counts(connection, KB, ["whal"]).having == {"whal": 21}, "estimated by a sample"
        assert len(find(connection, "whal", "number", limit=3)) == 3, "where all are common, some are found"


def test_other_knowledge_bases_play_no_part(database_url: str) -> None:
    assert scope_of(KB) == scope_of(SAME_CODE)
    with connected(database_url) as connection:
        here = put_document(connection, "crane")
        put_document(connection, "crane", kb_id=SAME_CODE)
        assert find(connection, "cran") == [ChunkKey(here, 1, 0)]


def test_full_text_goes_with_the_chunks(database_url: str) -> None:
    with connected(database_url) as connection:
        id = put_document(connection, "crane", "whale")
        insert_chunks(connection, rows_of(id, "crane", "whale"))
        insert_chunks(connection, rows_of(id, "newer crane", generation=2))
        insert_chunks(connection, [])
        assert entries(connection) == 3
        assert find(connection, "newer") == [], "another generation than the visible one"
        assert delete_chunks(connection, id, other_than=1) == 1
        assert delete_chunks(connection, id, generation=2) == 0
        assert find(connection, "cran") == [ChunkKey(id, 1, 0)]
        connection.execute(sa.delete(KbDocument))
        assert entries(connection) == 0
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("INSERT INTO chunk_words (chunk_words) VALUES ('integrity-check')")


def entries(connection: sa.Connection) -> int:
    return connection.scalar(sa.select(sa.func.count()).select_from(CHUNK_TERMS)) or 0


def test_a_passage_of_any_characters_is_indexed(database_url: str) -> None:
    with connected(database_url) as connection:
        chance = random.Random(1)
        nasty = "".join(chr(chance.randrange(1, 0x2FFF)) for _ in range(3000)) + "\x00\ud800' \\ crane"
        id = put_document(connection, nasty, "word " * 20_000, "")
        assert find(connection, "cran") == [ChunkKey(id, 1, 0)]
        assert find(connection, "word") == [ChunkKey(id, 1, 1)]


@pytest.mark.parametrize("analysed", [False, True])
def test_search_reads_indexes(database_url: str, analysed: bool) -> None:
    with connected(database_url) as connection:
        chance = random.Random(2)
        for n in range(150):
            put_document(connection, *(" ".join(chance.choices(VOCABULARY, k=30)) for _ in range(4)), f"number {n}")
        if analysed:
            connection.exec_driver_sql("ANALYZE")
        terms = ("alpha", "number", "rar")
        counts = term_counts(connection, KB, terms)
        hits = fused([], find_by_words(connection, KB, counts, 10), "")
        for work in (
            partial(words.count_chunks, connection, KB, terms, words.sample_kb(connection, KB)),
            partial(find_by_words, connection, KB, counts, 10),
            partial(read_hits, connection, hits, [KB], terms),
        ):
            for plan in plans_of(connection, work):
                assert not WHOLE.search(plan), plan


VOCABULARY = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")


def plans_of(connection: sa.Connection, work: Callable[[], Any]) -> list[str]:
    """Return the plan of each statement that is run, as it is run."""
    plans: list[str] = []

    def see(_connection: Any, _cursor: Any, text: str, given: Any, *_: Any) -> None:
        if text.lstrip().startswith("SELECT") and "set_config" not in text and "current_setting" not in text:
            cursor = connection.connection.cursor()
            explain = "EXPLAIN " if connection.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN "
            cursor.execute(explain + text, given)
            plans.append("\n".join(str(row[-1]) for row in cursor.fetchall()))
            cursor.close()

    sa.event.listen(connection, "before_cursor_execute", see)
    try:
        work()
    finally:
        sa.event.remove(connection, "before_cursor_execute", see)
    assert plans
    return plans
