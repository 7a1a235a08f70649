"""Store vectors of the chunks of documents, and find the nearest ones.

    from uuid import uuid4

    import numpy as np

    from rowmill_systems.parts.vectors import Point, open_vectors

    store = open_vectors(f"{folder}/vectors.db")     # or postgresql://… with pgvector, or http://host:6333 of Qdrant
    await store.create("kb_7", dimensions=2)
    document = uuid4()
    vectors = np.array([[1, 0], [0, 1]], np.float32)
    await store.put("kb_7", [Point(document, 1, number, vector, "model-1") for number, vector in enumerate(vectors)])
    [hit] = await store.search("kb_7", np.array([0.6, 0.8], np.float32), limit=1)
    assert (hit.document, hit.number, round(hit.score, 1)) == (document, 1, 0.8)
    assert await store.delete("kb_7", document) == 2
    await store.close()

Points carry the generation of their document, so that those of an older run are recognised and removed.
"""

from rowmill_systems.parts.vectors.open import open_vectors
from rowmill_systems.parts.vectors.port import (
    Collection,
    DocumentPoints,
    Placed,
    Point,
    Vector,
    VectorHit,
    VectorStore,
)

__all__ = ["Collection", "DocumentPoints", "Placed", "Point", "Vector", "VectorHit", "VectorStore", "open_vectors"]
