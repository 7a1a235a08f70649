"""A comparison of three stores that are far too large for the memory: the rows are real, the listings made up.

Ids and keys follow from the number of a document, so that the listings of objects and vectors need no memory of their
own. Each comparison runs in a process of its own, which did nothing before.
"""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from bench.reconcile import Peak
from rowmill import systems
from rowmill_systems.knowledge.consistency import kinds
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.names import collection_of, owner_of
from rowmill_systems.knowledge.settings import KnowledgeSettings
from rowmill_systems.parts.embeddings import open_embedder
from rowmill_systems.parts.vectors.port import Collection, DocumentPoints, Placed

SEED = 18
LIMIT_MB = 100.0
MOST_DIFFERENCES = 1000
"""A report lists no more findings one by one."""
KBS = 10
MODEL = KnowledgeSettings.model_fields["embedder"].default
"""Opened before the memory is watched: what is measured is the comparison."""
CHANGED_AT = datetime(2026, 1, 2, tzinfo=UTC)
"""Of everything: older than any grace."""
PLANTED = tuple(
    kind.name
    for kind in (
        kinds.READY_WITHOUT_VECTORS, kinds.WRONG_VECTOR_COUNT, kinds.WRONG_MODEL, kinds.WRONG_PASSAGES,
        kinds.LEFTOVER_VECTORS, kinds.LEFTOVER_OBJECT, kinds.VECTORS_WITHOUT_DOCUMENT, kinds.OBJECT_WITHOUT_DOCUMENT,
        kinds.READY_WITHOUT_OBJECT,
    )
)  # fmt: skip
"""Every kind that a listing or a missing row shows."""

KB_TEXT = "'00000000-0000-0000-0000-00000000000' || CAST(n % 10 AS TEXT)"
FILL = """
INSERT INTO knowledge_bases (id, name, embedding_model, dimensions, updated_at)
SELECT {kb}, 'Papers', :model, :dimensions, :at FROM {kb_numbers};
INSERT INTO documents (id, kb_id, filename, size, sha256, object_key, status, generation, indexed_generation,
    chunk_count, embedding_model, dimensions, updated_at)
SELECT {id}, {kb}, 'paper.md', 1000, {sha256}, 'kb-' || {kb_text} || '/' || {id_text} || '/' || {sha256}, 'ready', 1, 1,
    1, :model, :dimensions, :at FROM {numbers};
INSERT INTO chunks (document_id, generation, number, kb_id, text)
SELECT {id}, 1, 0, {kb}, 'A crane lifts heavy loads.' FROM {numbers};
INSERT INTO chunk_terms (document_id, generation, number, length, terms)
SELECT {id}, 1, 0, 1, {terms} FROM {numbers}
"""
POSTGRES = {
    "numbers": "generate_series(0, :documents - 1) AS t (n)",
    "kb_numbers": "generate_series(0, 9) AS t (n)",
    "id_text": "lpad(to_hex(n), 8, '0') || '-0000-0000-0000-000000000000'",
    "id": "CAST(lpad(to_hex(n), 8, '0') || '-0000-0000-0000-000000000000' AS uuid)",
    "kb": f"CAST({KB_TEXT} AS uuid)",
    "sha256": "lpad(to_hex(n), 64, '0')",
    "terms": "CAST('''000000crane''\\:1' AS tsvector)",
}
COUNTED = "(WITH RECURSIVE t (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM t WHERE n < {last}) SELECT n FROM t)"
SQLITE = {
    "numbers": COUNTED.format(last=":documents - 1"),
    "kb_numbers": COUNTED.format(last="9"),
    "id_text": "printf('%08x-0000-0000-0000-000000000000', n)",
    "id": "printf('%08x000000000000000000000000', n)",
    "kb": "printf('%032x', n % 10)",
    "sha256": "printf('%064x', n)",
    "terms": "' 000000crane '",
}


def document_id(number: int, *, known: bool = True) -> UUID:
    """Return the id of a document; or one right behind it, of a document that has no row."""
    return UUID(int=(number << 96) + (not known))


def kb_of(number: int) -> UUID:
    return UUID(int=number % KBS)


def object_key(number: int, *, known: bool = True, other: bool = False) -> str:
    """Return the key of an object; with `other`, of one beside it that no row names."""
    sha256 = "f" * 64 if other else f"{number:064x}"
    return f"{owner_of(kb_of(number))}/{document_id(number, known=known)}/{sha256}"


def planted(documents: int, differences: int) -> dict[int, str]:
    """Return the numbers of the documents that something is wrong with, and the kind of it."""
    chosen = random.Random(SEED).sample(range(documents), differences)
    return {number: PLANTED[place % len(PLANTED)] for place, number in enumerate(chosen)}


def expected(wrong: Mapping[int, str]) -> set[tuple[str, str]]:
    """Return the kinds and keys of all findings."""
    found = set()
    for number, kind in wrong.items():
        known = kind not in kinds.ORPHANS
        if "object" in kind:
            other = kind == kinds.LEFTOVER_OBJECT.name
            found.add((kind, f"object:{object_key(number, known=known, other=other)}"))
        else:
            found.add((kind, f"document:{document_id(number, known=known)}"))
    return found


class ListedVectors:
    """A vector store that lists a point for each document, but for the planted differences."""

    def __init__(self, documents: int, wrong: Mapping[int, str], model: str, dimensions: int) -> None:
        self._documents, self._wrong, self._model, self._dimensions = documents, wrong, model, dimensions

    async def documents(self) -> AsyncIterator[DocumentPoints]:
        for number in range(self._documents):
            for each in self._points(number):
                yield each

    async def points_of(self, documents: Sequence[UUID]) -> dict[UUID, DocumentPoints]:
        numbers = {each.int >> 96 for each in documents}
        found = {each.document: each for number in numbers for each in self._points(number)}
        return {each: found[each] for each in documents if each in found}

    async def collections(self) -> AsyncIterator[Collection]:
        for number in range(KBS):
            yield Collection(collection_of(kb_of(number)), self._dimensions)

    def _points(self, number: int) -> Iterable[DocumentPoints]:
        kind, collection, known = self._wrong.get(number), collection_of(kb_of(number)), document_id(number)
        model = "another" if kind == kinds.WRONG_MODEL.name else self._model
        counts = {Placed(collection, 1, model): 2 if kind == kinds.WRONG_VECTOR_COUNT.name else 1}
        if kind == kinds.LEFTOVER_VECTORS.name:
            counts[Placed(collection, 0, model)] = 1
        if kind != kinds.READY_WITHOUT_VECTORS.name:
            yield DocumentPoints(known, counts, CHANGED_AT)
        if kind == kinds.VECTORS_WITHOUT_DOCUMENT.name:
            yield DocumentPoints(document_id(number, known=False), counts, CHANGED_AT)


class ListedObjects:
    """An object store that lists an object for each document, but for the planted differences."""

    def __init__(self, documents: int, wrong: Mapping[int, str]) -> None:
        self._documents, self._wrong = documents, wrong

    async def keys(self, owner: str | None = None, collections: str = "") -> AsyncIterator[tuple[str, dict[str, Any]]]:
        if collections:
            for key in self._keys(UUID(collections).int >> 96):
                if key.startswith(f"{owner}/{collections}"):
                    yield key, {"at": CHANGED_AT, "size": 1000}
            return
        for first in range(KBS):
            for number in range(first, self._documents, KBS):
                for key in self._keys(number):
                    yield key, {"at": CHANGED_AT, "size": 1000}

    def _keys(self, number: int) -> Iterable[str]:
        kind = self._wrong.get(number)
        if kind != kinds.READY_WITHOUT_OBJECT.name:
            yield object_key(number)
        if kind == kinds.LEFTOVER_OBJECT.name:
            yield object_key(number, other=True)
        if kind == kinds.OBJECT_WITHOUT_DOCUMENT.name:
            yield object_key(number, known=False)


def fsck(url: str, documents: int, differences: int) -> dict[str, Any]:
    """Fill an empty database, compare it with the listings in a process of its own, and return what that saw."""
    asyncio.run(prepare(url, documents, differences))
    command = [sys.executable, "-m", "bench.knowledge_fsck", url, str(documents), str(differences)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, Any] = json.loads(said.stdout)
    return answer


async def prepare(url: str, documents: int, differences: int) -> None:
    """Make the tables and their rows."""
    knowledge = Knowledge(KnowledgeSettings(database_url=url))
    await systems.migrate(knowledge)
    lacking = [number for number, kind in planted(documents, differences).items() if kind == kinds.WRONG_PASSAGES.name]
    async with knowledge.mill.opened():
        await knowledge.mill.run(partial(fill, documents=documents, lacking=lacking))


def fill(connection: sa.Connection, documents: int, lacking: Sequence[int]) -> None:
    """Write the documents with a passage each. Those of `lacking` get none."""
    postgres, model = connection.dialect.name == "postgresql", open_embedder(MODEL)
    values: dict[str, dict[str, Any]] = {
        "documents": {"value": documents, "type_": sa.Integer()},
        "model": {"value": model.name, "type_": sa.Text()},
        "dimensions": {"value": model.dimensions, "type_": sa.Integer()},
        "at": {"value": CHANGED_AT, "type_": sa.DateTime(timezone=True)},
    }
    for statement in FILL.format(kb_text=KB_TEXT, **(POSTGRES if postgres else SQLITE)).split(";\n"):
        named = {name: value for name, value in values.items() if f":{name}" in statement}
        connection.execute(sa.text(statement).bindparams(*(sa.bindparam(name, **of) for name, of in named.items())))
    table = sa.table("chunks", sa.column("document_id", sa.Uuid))
    for number in lacking:
        connection.execute(sa.delete(table).where(table.c.document_id == document_id(number)))
    connection.execute(sa.text("ANALYZE"))


async def compare(url: str, documents: int, differences: int) -> dict[str, Any]:
    """Compare once, without correcting anything."""
    wrong, model = planted(documents, differences), open_embedder(MODEL)
    stores: dict[str, Any] = {
        "storage": ListedObjects(documents, wrong),
        "vectors": ListedVectors(documents, wrong, model.name, model.dimensions),
    }
    knowledge = Knowledge(KnowledgeSettings(database_url=url), **stores)
    async with knowledge.opened():
        await knowledge.consistency.reconciliation.history()
        began = time.perf_counter()
        with Peak() as peak:
            report = await knowledge.consistency.check(execute=False)
        seconds = time.perf_counter() - began
    found = {(one.kind, one.key) for one in report.run.findings}
    exact = found == expected(wrong) and report.findings == differences and not report.unreachable
    return {
        "documents": documents, "items": sum(report.run.observed.values()), "findings": report.findings, "exact": exact,
        "seconds": round(seconds, 1), "documents a second": round(documents / seconds),
        "grown MB": round((peak.rss - peak.before) / 2**20, 1), "memory MB": round(peak.rss / 2**20, 1),
    }  # fmt: skip


if __name__ == "__main__":
    database_url, number_of_documents, number_of_differences = sys.argv[1:]
    print(json.dumps(asyncio.run(compare(database_url, int(number_of_documents), int(number_of_differences)))))
