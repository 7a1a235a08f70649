"""Knowledge bases, each part beside what it is held against.

    python -m bench.knowledge [--only fsck,ingest,search] [--stores sqlite,postgres,pgvector] [--quick] [--json]

fsck: a million documents in the database, and a million objects and vectors in listings that are made up, with a
thousand differences of nine kinds: are exactly those found, how fast, and by how much does the memory grow?
ingest: documents of many kinds through the whole system, beside the same parts called in a plain loop.
search: a search among 100,000 passages, beside the vector store called with the same vectors.

Vectors are in a file of SQLite, but for `pgvector`, which is measured by searches alone.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import knowledge_fsck, knowledge_ingest, knowledge_search
from bench.server import bench_server
from demos.papers.make import make_papers
from rowmill_systems.knowledge.knowledge import Knowledge

MEASURES, STORES = ("fsck", "ingest", "search"), ("sqlite", "postgres", "pgvector")
SHOWN_FIRST = ("measure", "store", "goal", "met")
INGEST_AT_LEAST, SEARCH_AT_MOST = 0.8, 1.3


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    documents: int = 1_000_000
    differences: int = knowledge_fsck.MOST_DIFFERENCES
    papers: int = 300
    chunks: int = 100_000


QUICK = Sizes(documents=20_000, differences=90, papers=48, chunks=5_000)


@contextmanager
def database(store: str, folder: Path) -> Iterator[str]:
    """Yield the URL of an empty database."""
    if store == "sqlite":
        yield f"sqlite:///{folder / 'knowledge.db'}"
    else:
        with bench_server() as server:
            yield server.url


def measure_fsck(store: str, sizes: Sizes) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, database(store, Path(folder)) as url:
        found = knowledge_fsck.fsck(url, sizes.documents, sizes.differences)
    met = found["exact"] and found["grown MB"] < knowledge_fsck.LIMIT_MB
    return {"goal": f"exact, < {knowledge_fsck.LIMIT_MB:.0f} MB", "met": met, **found}


def measure_ingest(store: str, sizes: Sizes) -> dict[str, Any]:
    """Take the same papers in, by turns in both ways."""
    with tempfile.TemporaryDirectory() as papers:
        paths = [paper.path for paper in make_papers(Path(papers), 1, clean=sizes.papers, scans=0)]
        ways = knowledge_ingest.whole_system, knowledge_ingest.plain_loop
        rates = [[ingest_once(way, store, paths) for way in ways] for _ in range(knowledge_ingest.ROUNDS)]
    found = knowledge_ingest.summary(rates, sizes.papers)
    return {"goal": f"≥ {INGEST_AT_LEAST}", "met": found["ratio"] >= INGEST_AT_LEAST, **found}


def ingest_once(way: knowledge_ingest.Way, store: str, papers: list[Path]) -> float:
    with tempfile.TemporaryDirectory() as folder, database(store, Path(folder)) as url:
        return asyncio.run(knowledge_ingest.rate_of(way, url, Path(folder), papers))


def measure_search(store: str, sizes: Sizes) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, database(store, Path(folder)) as url:
        found = asyncio.run(search_in(store, url, Path(folder), sizes.chunks))
    return {"goal": f"≤ {SEARCH_AT_MOST}", "met": found["ratio"] <= SEARCH_AT_MOST, **found}


async def search_in(store: str, url: str, folder: Path, chunks: int) -> dict[str, Any]:
    settings = knowledge_ingest.settings_in(folder, url)
    if store == "pgvector":
        settings = settings.model_copy(update={"vectors": url})
    knowledge = Knowledge(settings)
    await knowledge.migrate()
    async with knowledge.opened():
        await knowledge_search.fill_rows(knowledge, chunks)
        await knowledge_search.fill_vectors(knowledge, chunks)
        return await knowledge_search.measure(knowledge, chunks)


MEASURED = {"fsck": measure_fsck, "ingest": measure_ingest, "search": measure_search}


def table_line(found: dict[str, Any]) -> str:
    """Return a result as a line for people."""
    facts = [f"{name} {told(value)}" for name, value in found.items() if name not in SHOWN_FIRST]
    met = "met" if found["met"] else "NOT MET"
    return f"{found['measure']:7}{found['store']:10}{met:9}({found['goal']})  {', '.join(facts)}"


def told(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(MEASURES), help="measures, with commas between them")
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that everything works")
    parser.add_argument("--documents", type=int, help="of fsck")
    parser.add_argument("--papers", type=int, help="of ingest")
    parser.add_argument("--chunks", type=int, help="of search")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each result")
    given = parser.parse_args()
    usual = QUICK if given.quick else Sizes()
    documents = given.documents or usual.documents
    sizes = Sizes(
        documents, min(usual.differences, documents // 10), given.papers or usual.papers, given.chunks or usual.chunks
    )
    met = True
    for measure in given.only.split(","):
        for store in given.stores.split(","):
            if store == "pgvector" and measure != "search":
                continue
            found = {"measure": measure, "store": store, **MEASURED[measure](store, sizes)}
            met &= found["met"]
            print(json.dumps(found) if given.json else table_line(found), flush=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
