"""Points for tests."""

from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from rowmill_systems.parts.vectors import Point, VectorStore

Matrix = npt.NDArray[np.float32]


def document(number: int) -> UUID:
    """Return an id, spread over all of them, in no order of `number`."""
    return UUID(bytes=np.random.default_rng(number).bytes(16))


def some_vectors(count: int, dimensions: int = 8, seed: int = 0) -> Matrix:
    """Return vectors of length 1."""
    found = np.random.default_rng(seed).normal(size=(count, dimensions))
    vectors: Matrix = (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)
    return vectors


def points(
    of: UUID, count: int, *, generation: int = 1, dimensions: int = 8, model: str = "model-1", seed: int = 0
) -> list[Point]:
    vectors = some_vectors(count, dimensions, seed)
    return [Point(of, generation, number, vector, model) for number, vector in enumerate(vectors)]


async def listed(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


def every_verb(store: VectorStore, of: UUID, vector: Matrix, put: Sequence[Point]) -> dict[str, Any]:
    """Return a call of each verb that looks for something, or changes it."""
    return {
        "drop": lambda: store.drop("kb_1"),
        "collections": lambda: listed(store.collections()),
        "put": lambda: store.put("kb_1", put),
        "delete": lambda: store.delete("kb_1", of),
        "count": lambda: store.count("kb_1", of),
        "search": lambda: store.search("kb_1", vector, 3),
        "documents": lambda: listed(store.documents()),
        "points_of": lambda: store.points_of([of]),
    }
