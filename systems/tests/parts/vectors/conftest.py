"""All stores: a test that asks for `store` runs once on each."""

import os
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from rowmill_systems.parts.vectors import VectorStore, open_vectors, qdrant
from rowmill_systems.parts.vectors.qdrant import QdrantVectors
from systems.tests.parts.vectors.local_qdrant import LocalQdrant
from systems.tests.parts.vectors.points import listed

SERVER = os.environ.get("QDRANT_URL", "")
"""The URL of a Qdrant that the tests may empty; its key is in QDRANT_KEY."""
NO_SERVER = pytest.mark.skipif(not SERVER, reason="QDRANT_URL names no server")


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[VectorStore]:
    store = open_vectors(str(tmp_path / "vectors.db"))
    yield store
    await store.close()


@pytest.fixture
async def pgvector(pg_url: str) -> AsyncIterator[VectorStore]:
    store = open_vectors(pg_url)
    yield store
    await store.close()


@pytest.fixture
async def local(monkeypatch: pytest.MonkeyPatch) -> QdrantVectors:
    monkeypatch.setattr(qdrant, "PAGE", 150)  # it is slow: fewer points have to be more than a page
    return QdrantVectors("http://127.0.0.1:6333", connect=LocalQdrant())


@pytest.fixture
async def server_of_qdrant() -> AsyncIterator[VectorStore]:
    key = os.environ.get("QDRANT_KEY")
    store = open_vectors(SERVER, api_key=SecretStr(key) if key else None)
    for collection in await listed(store.collections()):
        await store.drop(collection.name)
    yield store
    await store.close()


@pytest.fixture(params=["sqlite", "pgvector", "local", pytest.param("server_of_qdrant", marks=NO_SERVER)])
def store(request: pytest.FixtureRequest) -> VectorStore:
    found: VectorStore = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def plenty(request: pytest.FixtureRequest, store: VectorStore) -> int:
    """More points than any page or batch of the store has."""
    return 1_050 if request.node.callspec.params["store"] == "local" else 10_500


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port of this machine at which nobody listens, and which nobody else gets."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.fixture(params=["sqlite", "pgvector", "qdrant"])
def away(request: pytest.FixtureRequest, tmp_path: Path, closed_port: int) -> Any:
    """A store that can't be reached."""
    return open_vectors(
        {
            "sqlite": str(tmp_path / "not-mounted" / "vectors.db"),
            "pgvector": f"postgresql://nobody@127.0.0.1:{closed_port}/vectors",
            "qdrant": f"http://127.0.0.1:{closed_port}",
        }[request.param]
    )
