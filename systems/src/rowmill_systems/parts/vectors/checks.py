"""Look at vectors before they are stored or compared."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rowmill_systems.parts.embeddings.port import Vectors
from rowmill_systems.parts.vectors.errors import WrongDimensions, WrongVector
from rowmill_systems.parts.vectors.port import Point, Vector

ZEROS = "Zeros are allowed, for a text without any token"


def latest(points: Sequence[Point]) -> list[Point]:
    """Return the points without those that a later one of the same place replaces."""
    return list({(point.document, point.generation, point.number): point for point in points}.values())


def unit_vectors(points: Sequence[Point]) -> Vectors:
    """Return the vectors of points with length 1, a row for each. Raises WrongVector and WrongDimensions."""
    lengths = {np.shape(point.vector) for point in points}
    if len(lengths) != 1 or len(next(iter(lengths))) != 1:
        raise WrongDimensions(f"the vectors of one put have the shapes {sorted(lengths)}. Give vectors of one length")
    return checked(np.stack([point.vector for point in points]))


def unit_vector(vector: Vector, dimensions: int) -> Vector:
    """Return the vector of a query with length 1. Raises WrongVector and WrongDimensions."""
    if np.shape(vector) != (dimensions,):
        raise WrongDimensions(f"the query has the shape {np.shape(vector)}, the collection {dimensions} dimensions")
    found: Vector = checked(vector[np.newaxis])[0]
    return found


def check_dimensions(vectors: Vectors, dimensions: int) -> None:
    """Raise WrongDimensions if the vectors do not fit a collection."""
    if vectors.shape[1] != dimensions:
        raise WrongDimensions(f"the vectors have {vectors.shape[1]} dimensions, the collection {dimensions}")


def checked(vectors: npt.NDArray[Any]) -> Vectors:
    """Return the vectors with length 1, zeros as they are. Raises WrongVector."""
    exact = vectors.astype(np.float64)  # the length of a vector may be too large for a float32
    broken = int(np.count_nonzero(~np.isfinite(exact).all(axis=1)))
    if broken:
        raise WrongVector(f"{broken} of {len(exact)} vectors have values that are no numbers, or infinite. {ZEROS}")
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    found: Vectors = (exact / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return found


def check_one_of(generation: int | None, other_than: int | None) -> None:
    """Raise ValueError if both are given."""
    if generation is not None and other_than is not None:
        raise ValueError("give `generation` or `other_than`, not both")


def check_positive(dimensions: int) -> None:
    """Raise WrongDimensions if vectors can't have that many."""
    if dimensions < 1:
        raise WrongDimensions(f"a collection has at least one dimension, not {dimensions}")


def check_same(there: int, dimensions: int) -> None:
    """Raise WrongDimensions if a collection that is there has another number of dimensions than it should."""
    if there != dimensions:
        raise WrongDimensions(f"the collection is there with {there} dimensions, not {dimensions}. Drop it first")
