"""How well knowledge finds: `python -m tools.knowledge_search_quality --data DIR [--minilm] [--json]`.

DIR has the files of the Cranfield collection, which do not ship: cran.all.1400, cran.qry and cranqrel. Each abstract is
a document with one passage. Every ranking is measured on SQLite and on PostgreSQL, on all queries, and apart on those
with odd numbers, by which weights may be chosen, and on those with even ones, by which they are judged.
"""

import argparse
import asyncio
import json
import math
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID, uuid4

import sqlalchemy as sa

from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import DocumentStatus, KbDocument, KnowledgeBase
from rowmill_systems.knowledge.names import collection_of
from rowmill_systems.knowledge.search.chunk_rows import insert_chunks
from rowmill_systems.knowledge.search.fusion import fused
from rowmill_systems.knowledge.search.meaning import find_by_meaning
from rowmill_systems.knowledge.search.query import query_terms
from rowmill_systems.knowledge.search.words import Scored, find_by_words, term_counts
from rowmill_systems.knowledge.settings import KnowledgeSettings
from rowmill_systems.parts.embeddings import open_embedder
from rowmill_systems.parts.vectors.port import Point
from tests.support.databases import fresh_database
from tests.support.postgres import TemporaryPostgres

DEPTH = 50
FIRST = 10
"""What nDCG looks at."""
Ranking = dict[int, list[int]]
"""Documents by query, best first."""


@dataclass(frozen=True)
class Abstract:
    number: int
    title: str
    text: str


@dataclass(frozen=True)
class Collection:
    abstracts: Sequence[Abstract]
    queries: Mapping[int, str]
    """By their place in the file: the judgements count so, whatever numbers the queries have."""
    relevant: Mapping[int, frozenset[int]]


@dataclass(frozen=True)
class QualityRow:
    database: str
    ranking: str
    all: float
    odd: float
    even: float
    milliseconds: float
    """For a query, on average."""


def read_collection(folder: Path) -> Collection:
    abstracts = [
        Abstract(number, " ".join(fields.get("T", "").split()), fields.get("W", ""))
        for number, fields in read_records(folder / "cran.all.1400")
    ]
    queries = {place: fields["W"] for place, (_, fields) in enumerate(read_records(folder / "cran.qry"), 1)}
    relevant: dict[int, set[int]] = {}
    for line in filter(str.strip, (folder / "cranqrel").read_text("latin-1").splitlines()):
        query, document, grade = map(int, line.split()[:3])
        if grade > 0:
            relevant.setdefault(query, set()).add(document)
    return Collection(abstracts, queries, {query: frozenset(found) for query, found in relevant.items()})


def read_records(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Return the records of a file: a number, and fields by their letter."""
    records: list[tuple[int, dict[str, str]]] = []
    field = ""
    for line in path.read_text("latin-1").splitlines():
        if line.startswith(".I "):
            records.append((int(line[3:]), {}))
        elif re.fullmatch(r"\.[A-Z]", line.strip()):
            field = line.strip()[1]
        elif records:
            fields = records[-1][1]
            fields[field] = f"{fields.get(field, '')}{line}\n"
    return records


def ndcg(found: Sequence[int], relevant: frozenset[int]) -> float:
    gained = sum(1 / math.log2(rank + 1) for rank, each in enumerate(found[:FIRST], 1) if each in relevant)
    best = sum(1 / math.log2(rank + 1) for rank in range(1, min(FIRST, len(relevant)) + 1))
    return gained / best if best else 0.0


def mean(rankings: Ranking, collection: Collection, remainder: int | None = None) -> float:
    chosen = [query for query in rankings if remainder is None or query % 2 == remainder]
    return sum(ndcg(rankings[query], collection.relevant.get(query, frozenset())) for query in chosen) / len(chosen)


async def store(knowledge: Knowledge, collection: Collection) -> tuple[UUID, dict[UUID, int]]:
    """Write all abstracts, their passages and vectors. Return the knowledge base, and the number of each document."""
    kb_id, numbers = uuid4(), {uuid4(): each.number for each in collection.abstracts}
    embedder = await knowledge.open_embedder()

    def write(connection: sa.Connection) -> None:
        connection.execute(sa.insert(KnowledgeBase).values(id=kb_id, name="cranfield"))
        ready = {"status": DocumentStatus.READY, "generation": 1, "indexed_generation": 1, "chunk_count": 1}
        written = {"size": 1, "sha256": "", "embedding_model": embedder.name, "kb_id": kb_id, **ready}
        connection.execute(
            sa.insert(KbDocument),
            [
                {"id": id, "filename": f"{number}.txt", "object_key": str(id), **written}
                for id, number in numbers.items()
            ],
        )
        insert_chunks(
            connection,
            [
                {"document_id": id, "generation": 1, "number": 0, "kb_id": kb_id, "page": 1, "page_title": "",
                 "heading": each.title, "text": each.text}
                for id, each in zip(numbers, collection.abstracts, strict=True)
            ],
        )  # fmt: skip

    await knowledge.mill.run(write)
    vectors = await embedder.embed([f"{each.title}\n{each.text}" for each in collection.abstracts])
    await knowledge.vectors.create(collection_of(kb_id), embedder.dimensions)
    points = [Point(id, 1, 0, vector, embedder.name) for id, vector in zip(numbers, vectors, strict=True)]
    await knowledge.vectors.put(collection_of(kb_id), points)
    return kb_id, numbers


async def measure(url: str, name: str, collection: Collection, models: Sequence[str], folder: Path) -> list[QualityRow]:
    rows = []
    for model in models:
        settings = KnowledgeSettings(
            database_url=url, vectors=str(folder / f"{name}-{model}.db"), storage=str(folder / "files")
        )
        knowledge = Knowledge(settings, embedder=open_embedder(model))
        async with knowledge.opened():
            await knowledge.migrate()
            kb_id, numbers = await store(knowledge, collection)
            rows += await measure_model(knowledge, kb_id, numbers, collection, name, model)
    return rows


async def measure_model(
    knowledge: Knowledge, kb_id: UUID, numbers: Mapping[UUID, int], collection: Collection, database: str, model: str
) -> list[QualityRow]:
    words: Ranking = {}
    meaning: Ranking = {}
    hybrid: Ranking = {}
    spent = dict.fromkeys(("words", model, f"words + {model}"), 0.0)
    for query, text in collection.queries.items():
        began = time.perf_counter()

        def find(connection: sa.Connection, text: str = text) -> list[Scored]:
            counts = term_counts(connection, kb_id, query_terms(text))
            found = find_by_words(connection, kb_id, counts, DEPTH)
            return [(chunk, counts.share(score)) for chunk, score in found]

        worded = await knowledge.mill.run(find, write=False)
        between = time.perf_counter()
        meant = await find_by_meaning(knowledge, text, [kb_id], DEPTH, ())
        spent["words"] += between - began
        spent[model] += time.perf_counter() - between
        words[query] = [numbers[each.document_id] for each, _ in worded]
        meaning[query] = [numbers[each.document_id] for each in meant.chunks]
        hybrid[query] = [numbers[each.chunk.document_id] for each in fused(meant.chunks, worded, meant.model)]
    spent[f"words + {model}"] = spent["words"] + spent[model]
    rankings = {"words": words, model: meaning, f"words + {model}": hybrid}
    return [
        QualityRow(
            database, ranking, mean(found, collection), mean(found, collection, 1), mean(found, collection, 0),
            1000 * spent[ranking] / len(found),
        )
        for ranking, found in rankings.items()
    ]  # fmt: skip


def table(rows: Sequence[QualityRow]) -> str:
    lines = [
        "| database | ranking | nDCG@10 | odd queries | even queries | ms |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {row.database} | {row.ranking} | {row.all:.3f} | {row.odd:.3f} | {row.even:.3f} | {row.milliseconds:.1f} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="How well knowledge finds, on the Cranfield collection")
    parser.add_argument("--data", type=Path, required=True, help="the folder of the collection")
    parser.add_argument("--minilm", action="store_true", help="with the better model, too")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    given = parser.parse_args()
    collection = read_collection(given.data)
    models = ["wordllama", *(["minilm"] if given.minilm else [])]
    with tempfile.TemporaryDirectory() as temporary, TemporaryPostgres() as server, fresh_database(server.url) as url:
        folder = Path(temporary)
        rows = asyncio.run(measure(f"sqlite:///{folder}/knowledge.db", "sqlite", collection, models, folder))
        rows += asyncio.run(measure(url, "postgresql", collection, models, folder))
    print(json.dumps([asdict(row) for row in rows], indent=2) if given.json else table(rows))


if __name__ == "__main__":
    main()
