"""What a store of vectors offers.

A collection holds the points of many documents. A point belongs to a document, to a generation of it, and has a number
in it. All points of a document that have another generation than the current one are leftovers of an older run.

Errors are those of `parts.vectors.errors`: `VectorsUnavailable` if the store can't be reached or does not answer (it
says nothing about what is stored), `CollectionMissing` if there is no such collection. A store that can't be reached
never looks like an empty one.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import UUID

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Point:
    """A vector of one chunk of a document."""

    document: UUID
    generation: int
    number: int
    """Of the chunk within the document, from 0."""
    vector: Vector
    """Stored with length 1. One of zeros, of a text without any token, stays so: its cosine is 0."""
    model: str
    """The model that made the vector. Vectors of different models must not be compared."""


@dataclass(frozen=True, slots=True)
class VectorHit:
    """A point that was found."""

    document: UUID
    generation: int
    number: int
    score: float
    """The cosine."""


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection as the store knows it."""

    name: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Placed:
    """Where points of a document are."""

    collection: str
    generation: int
    model: str


@dataclass(frozen=True, slots=True)
class DocumentPoints:
    """All points of one document, in all collections."""

    document: UUID
    counts: Mapping[Placed, int] = field(default_factory=dict)
    at: datetime | None = None
    """When the newest of them was written, by the clock of the store or of the writer."""


class VectorStore(Protocol):
    """A store of vectors. Safe to share among tasks; what returned is durable."""

    async def prepare(self) -> None:
        """Make the store's own file or tables. Idempotent. A part of the installation: until then, the store is
        unavailable to all who look for something in it, since nobody can tell it from one that was lost."""

    async def create(self, collection: str, dimensions: int) -> None:
        """Make a collection, and prepare the store. Idempotent; raises `WrongDimensions` if the collection exists with
        another number of dimensions."""

    async def drop(self, collection: str) -> bool:
        """Remove a collection and all of its points. Return whether there was one. Idempotent."""

    def collections(self) -> AsyncIterator[Collection]:
        """Yield all collections, sorted by name, to the end."""

    async def put(self, collection: str, points: Sequence[Point]) -> None:
        """Write points; those with the same document, generation and number are replaced. Raises CollectionMissing: a
        dropped collection does not come back by a late write. Raises WrongDimensions and WrongVector before anything
        is written. If the process dies, all points are there or none; Qdrant, which has no transactions, may have some
        of them."""

    async def delete(
        self, collection: str, document: UUID, *, generation: int | None = None, other_than: int | None = None
    ) -> int:
        """Delete the points of a document, whatever their number: all of them, those of one generation, or those of
        all generations but one. Return how many there were. Idempotent; 0 if there is no such collection."""

    async def count(self, collection: str, document: UUID) -> Mapping[int, int]:
        """Return how many points a document has, by generation. Empty if there is no such collection."""

    async def search(
        self, collection: str, vector: Vector, limit: int, *, documents: Sequence[UUID] | None = None
    ) -> list[VectorHit]:
        """Return the nearest points, best first. `documents` limits it to these. Raises CollectionMissing."""

    def documents(self) -> AsyncIterator[DocumentPoints]:
        """Yield every document that has points in any collection, sorted by document, to the end, in bounded memory.
        A document that is written or deleted meanwhile may be yielded or not; all others are, exactly once."""

    async def points_of(self, documents: Sequence[UUID]) -> Mapping[UUID, DocumentPoints]:
        """Return the points of these documents, for a second look. Documents without points are left out."""

    async def close(self) -> None:
        """Release connections and threads. Idempotent. The store opens them again when it is used, also in another
        event loop."""
