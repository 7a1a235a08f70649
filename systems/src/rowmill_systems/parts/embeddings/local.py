"""Models that run in this process, on numpy."""

import asyncio
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from rowmill_systems.parts.embeddings.port import Vectors, normalised
from rowmill_systems.parts.embeddings.weights import read_safetensors

Floats = npt.NDArray[np.float32]
MOST_CHARACTERS = 100_000
"""Of one text: what follows is cut before it is split into tokens, which takes time and memory by length."""


class TokenAverage:
    """Averages one vector per token. The order of words plays no part."""

    def __init__(self, name: str, weights: Path, tokenizer: Path) -> None:
        self.name = name
        (table,) = read_safetensors(weights).values()
        self._table = table.astype(np.float32)
        self.dimensions = int(self._table.shape[1])
        self._tokenizer = _open_tokenizer(tokenizer, None)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await asyncio.to_thread(self._embed, texts)

    async def close(self) -> None:
        pass

    def _embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        encoded = self._tokenizer.encode_batch([_cut(text) for text in texts], add_special_tokens=False)
        for place, tokens in enumerate(encoded):
            if tokens.ids:
                vectors[place] = self._table[tokens.ids].mean(axis=0)
        return normalised(vectors)


class Transformer:
    """A BERT encoder with mean pooling, for models of the sentence-transformers family."""

    BATCH_TOKENS = 4096
    """Tokens of one forward pass, padding included: bounds its memory."""

    def __init__(self, name: str, folder: Path, *, max_tokens: int = 256) -> None:
        self.name = name
        config: Mapping[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
        self.dimensions = int(config["hidden_size"])
        self._heads, self._layers = int(config["num_attention_heads"]), int(config["num_hidden_layers"])
        self._epsilon = np.float32(config["layer_norm_eps"])
        tensors = read_safetensors(folder / "model.safetensors")
        self._weights = {tensor: value for tensor, value in tensors.items() if value.dtype == np.float32}
        self._tokenizer = _open_tokenizer(folder / "tokenizer.json", min(max_tokens, config["max_position_embeddings"]))

    async def embed(self, texts: Sequence[str]) -> Vectors:
        return await asyncio.to_thread(self._embed, texts)

    async def close(self) -> None:
        pass

    def _embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), np.float32)
        encoded = [tokens.ids for tokens in self._tokenizer.encode_batch([_cut(text) for text in texts])]
        written = [place for place, text in enumerate(texts) if text.strip()]
        for places in self._batches(written, encoded):
            vectors[places] = self._forward([encoded[place] for place in places])
        return normalised(vectors)

    def _batches(self, places: Sequence[int], encoded: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Group texts of similar length, so that little of a pass is padding."""
        batch: list[int] = []
        for place in sorted(places, key=lambda place: len(encoded[place])):
            if batch and (len(batch) + 1) * len(encoded[place]) > self.BATCH_TOKENS:
                yield batch
                batch = []
            batch.append(place)
        if batch:
            yield batch

    def _forward(self, encoded: Sequence[Sequence[int]]) -> Floats:
        longest = max(map(len, encoded))
        ids = np.zeros((len(encoded), longest), np.int64)
        mask = np.zeros((len(encoded), longest), np.float32)
        for row, tokens in enumerate(encoded):
            ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1.0
        hidden = (
            self._of("embeddings.word_embeddings.weight")[ids]
            + self._of("embeddings.position_embeddings.weight")[:longest]
            + self._of("embeddings.token_type_embeddings.weight")[0]
        )
        hidden = self._norm(hidden, "embeddings.LayerNorm")
        hidden_by_mask = (mask - 1)[:, None, None, :] * np.float32(1e9)
        for layer in range(self._layers):
            hidden = self._layer(hidden, hidden_by_mask, f"encoder.layer.{layer}")
        kept: Floats = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return kept

    def _layer(self, hidden: Floats, mask: Floats, at: str) -> Floats:
        rows, length, width = hidden.shape

        def heads(part: str) -> Floats:
            split = self._linear(hidden, f"{at}.attention.self.{part}").reshape(rows, length, self._heads, -1)
            return split.transpose(0, 2, 1, 3)

        query, key, value = heads("query"), heads("key"), heads("value")
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(math.sqrt(width / self._heads)) + mask
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        attended = (scores @ value).transpose(0, 2, 1, 3).reshape(rows, length, width)
        attended = self._linear(attended, f"{at}.attention.output.dense")
        hidden = self._norm(hidden + attended, f"{at}.attention.output.LayerNorm")
        wide = gelu(self._linear(hidden, f"{at}.intermediate.dense"))
        return self._norm(hidden + self._linear(wide, f"{at}.output.dense"), f"{at}.output.LayerNorm")

    def _linear(self, values: Floats, at: str) -> Floats:
        result: Floats = values @ self._of(f"{at}.weight").T + self._of(f"{at}.bias")
        return result

    def _norm(self, values: Floats, at: str) -> Floats:
        centred = values - values.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        result: Floats = centred / np.sqrt(variance + self._epsilon) * self._of(f"{at}.weight") + self._of(f"{at}.bias")
        return result

    def _of(self, name: str) -> Floats:
        return self._weights[name]  # type: ignore[return-value]  # of float32, by the filter in __init__


def gelu(values: Floats) -> Floats:
    """The exact GELU. numpy has no erf: Abramowitz and Stegun 7.1.26, right to 1.5e-7."""
    x = np.abs(values) * np.float32(math.sqrt(0.5))
    t = 1 / (1 + np.float32(0.3275911) * x)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(values) * (1 - series * np.exp(-x * x))
    result: Floats = (values * (1 + erf) / 2).astype(np.float32)
    return result


def _open_tokenizer(file: Path, most: int | None) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    if most is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(most)
    return tokenizer


def _cut(text: str) -> str:
    """Half of a surrogate pair is no text for the tokenizer."""
    return text[:MOST_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
