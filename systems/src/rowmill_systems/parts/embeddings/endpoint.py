"""A model behind an OpenAI-compatible API."""

from collections.abc import Sequence

import numpy as np

import rowmill as rm
from rowmill_systems.parts.embeddings.port import Vectors, normalised
from rowmill_systems.parts.models import ModelClient, estimate_tokens

MAX_TOKENS = 8000


class EndpointEmbedder:
    """An Embedder that calls a server. Limits, budget and cache are those of its client, which it closes."""

    def __init__(
        self, client: ModelClient, *, dimensions: int, max_tokens: int = MAX_TOKENS, wait: float = 60.0
    ) -> None:
        """`dimensions` is the length of the model's vectors. Texts are cut at `max_tokens`, by estimate. A call waits
        up to `wait` seconds for room in the limit."""
        self.name, self.dimensions = client.endpoint.model, dimensions
        self._client, self._max_tokens, self._wait = client, max_tokens, wait

    async def embed(self, texts: Sequence[str]) -> Vectors:
        written = [place for place, text in enumerate(texts) if text.strip()]
        found = await self._client.embed([self._cut(texts[place]) for place in written], wait=self._wait)
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        for place, vector in zip(written, found, strict=True):
            if len(vector) != self.dimensions:
                raise rm.errors.ProviderRefused(
                    f"{self.name} returns vectors of {len(vector)} numbers, not of {self.dimensions}: set dimensions"
                )
            vectors[place] = vector
        return normalised(vectors)

    def _cut(self, text: str) -> str:
        text = text.encode("utf-8", "replace").decode("utf-8")
        if estimate_tokens(text) <= self._max_tokens:
            return text
        return text.encode()[: self._max_tokens * 3 - 3].decode("utf-8", "ignore")

    async def close(self) -> None:
        await self._client.close()
