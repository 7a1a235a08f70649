"""What makes vectors of texts."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]
"""A row for each text, of length 1; of zeros for a text without any token."""


class Embedder(Protocol):
    """A model that embeds texts. Safe to share among tasks."""

    name: str
    """Names the model and its version. Vectors of different names must not be compared."""
    dimensions: int

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector for each text, in their order. A text that is too long for the model is cut."""

    async def close(self) -> None:
        """Release what the model holds. Idempotent."""


def normalised(vectors: Vectors) -> Vectors:
    """Return the vectors with length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    result: Vectors = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return result
