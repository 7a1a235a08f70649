"""DeBERTa of versions 2 and 3 with a head for classification, on numpy.

Attention looks at what a token is and at how far away it is, apart from each other: content to content, content to
position, position to content. Distances are put into buckets, which are exact near by and logarithmic far away.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import rowmill as rm
from rowmill_systems.parts.embeddings.local import Floats, gelu
from rowmill_systems.parts.embeddings.weights import read_safetensors

MODEL_TYPE = "deberta-v2"
"""Of versions 2 and 3 alike."""
BATCH_TOKENS = 4096
"""Tokens of one forward pass, padding included: bounds its memory."""
FILES = ("config.json", "tokenizer.json", "model.safetensors")
GET_ONE = "Give the folder of a model for zero-shot classification, as mDeBERTa-v3-base-mnli-xnli"


class DebertaModel:
    """Computes logits of token sequences. Raises DeclarationError if the folder has no model that it can run."""

    def __init__(self, folder: Path) -> None:
        missing = [name for name in FILES if not (folder / name).is_file()]
        if missing:
            raise _bad(folder, [f"{', '.join(missing)} is not there. {GET_ONE}"])
        try:
            self.config: Mapping[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
            tensors = read_safetensors(folder / "model.safetensors")
        except (OSError, ValueError, KeyError) as error:
            raise _bad(folder, [f"its files can't be read. Download them again. {GET_ONE}"]) from error
        if problems := list(_problems(self.config)):
            raise _bad(folder, problems)
        self._weights = {
            name: tensor.astype(np.float32, copy=False) for name, tensor in tensors.items() if tensor.dtype.kind == "f"
        }
        self._heads, self._layers = int(self.config["num_attention_heads"]), int(self.config["num_hidden_layers"])
        self._epsilon = np.float32(self.config.get("layer_norm_eps", 1e-7))
        self.max_tokens = int(self.config.get("max_position_embeddings", 512))
        farthest = int(self.config.get("max_relative_positions", -1))
        self._farthest = farthest if farthest > 0 else self.max_tokens
        self._buckets = int(self.config.get("position_buckets", -1))
        self._span = self._buckets if self._buckets > 0 else self._farthest
        kinds = self.config.get("pos_att_type") or ()
        self._kinds = tuple(kinds.split("|")) if isinstance(kinds, str) else tuple(kinds)
        self._shared_keys = bool(self.config.get("share_att_key", False))
        self.labels = {int(place): str(label) for place, label in self.config.get("id2label", {}).items()}
        self._check_tensors(folder)

    def _check_tensors(self, folder: Path) -> None:
        needed = ["deberta.embeddings.word_embeddings.weight", "pooler.dense.weight", "classifier.weight"]
        needed += [f"deberta.encoder.layer.{layer}.output.dense.weight" for layer in range(self._layers)]
        if missing := [name for name in needed if name not in self._weights]:
            raise _bad(folder, [f"model.safetensors lacks {missing[0]}. {GET_ONE}"])
        if len(self._of("classifier.weight")) != len(self.labels):
            raise _bad(folder, ["config.json names other labels than the model has. Look at id2label"])

    def logits(self, sequences: Sequence[Sequence[int]]) -> Floats:
        """Return a row of logits for each sequence of token ids, which may have any lengths."""
        result = np.zeros((len(sequences), len(self.labels)), np.float32)
        for places in self._batches(sequences):
            result[places] = self._forward([sequences[place] for place in places])
        return result

    def _batches(self, sequences: Sequence[Sequence[int]]) -> Iterator[list[int]]:
        """Group sequences of similar length, so that little of a pass is padding."""
        batch: list[int] = []
        for place in sorted(range(len(sequences)), key=lambda place: len(sequences[place])):
            if batch and (len(batch) + 1) * len(sequences[place]) > BATCH_TOKENS:
                yield batch
                batch = []
            batch.append(place)
        if batch:
            yield batch

    def _forward(self, sequences: Sequence[Sequence[int]]) -> Floats:
        longest = max(map(len, sequences))
        ids = np.zeros((len(sequences), longest), np.int64)
        mask = np.zeros((len(sequences), longest), np.float32)
        for row, tokens in enumerate(sequences):
            ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1.0
        hidden = self._embed(ids) * mask[:, :, None]
        positions = self._positions()
        distances = self._distances(longest)
        hidden_by_mask = (mask - 1)[:, None, None, :] * np.float32(1e9)
        for layer in range(self._layers):
            hidden = self._layer(hidden, hidden_by_mask, positions, distances, f"deberta.encoder.layer.{layer}")
        first = gelu(self._linear(hidden[:, 0], "pooler.dense"))
        return self._linear(first, "classifier")

    def _embed(self, ids: npt.NDArray[np.int64]) -> Floats:
        hidden = self._of("deberta.embeddings.word_embeddings.weight")[ids]
        if self.config.get("position_biased_input", True):
            hidden = hidden + self._of("deberta.embeddings.position_embeddings.weight")[: ids.shape[1]]
        if self.config.get("type_vocab_size", 0):
            hidden = hidden + self._of("deberta.embeddings.token_type_embeddings.weight")[0]
        if "deberta.embeddings.embed_proj.weight" in self._weights:
            hidden = hidden @ self._of("deberta.embeddings.embed_proj.weight").T
        return self._norm(hidden, "deberta.embeddings.LayerNorm")

    def _positions(self) -> Floats | None:
        """Return a vector for each bucket of distances."""
        if not self.config.get("relative_attention", False):
            return None
        vectors = self._of("deberta.encoder.rel_embeddings.weight")
        if "layer_norm" in str(self.config.get("norm_rel_ebd", "none")):
            vectors = self._norm(vectors, "deberta.encoder.LayerNorm")
        return vectors[: 2 * self._span]

    def _distances(self, length: int) -> npt.NDArray[np.int64]:
        """Return the bucket of the distance from each token to each other."""
        places = np.arange(length)
        distances = places[:, None] - places[None, :]
        return bucketed(distances, self._buckets, self._farthest) if self._buckets > 0 else distances

    def _layer(
        self, hidden: Floats, mask: Floats, positions: Floats | None, distances: npt.NDArray[np.int64], at: str
    ) -> Floats:
        rows, length, width = hidden.shape

        def heads(values: Floats, part: str) -> Floats:
            found = self._linear(values, f"{at}.attention.self.{part}")
            return found.reshape(*values.shape[:-1], self._heads, -1).swapaxes(-3, -2)

        query, key, value = heads(hidden, "query_proj"), heads(hidden, "key_proj"), heads(hidden, "value_proj")
        kinds = self._kinds if positions is not None else ()
        scale = np.float32(1 / math.sqrt(width / self._heads * (1 + ("c2p" in kinds) + ("p2c" in kinds))))
        scores = query @ key.swapaxes(-1, -2) * scale
        if positions is not None:
            far = 2 * self._span - 1
            if "c2p" in kinds:
                towards = heads(positions, "key_proj" if self._shared_keys else "pos_key_proj")
                places = np.clip(distances + self._span, 0, far)
                scores += _gather(query @ towards.swapaxes(-1, -2), places) * scale
            if "p2c" in kinds:
                origin = heads(positions, "query_proj" if self._shared_keys else "pos_query_proj")
                places = np.clip(self._span - distances, 0, far)
                scores += _gather(key @ origin.swapaxes(-1, -2), places).swapaxes(-1, -2) * scale
        scores += mask
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        attended = (scores @ value).swapaxes(1, 2).reshape(rows, length, width)
        attended = self._linear(attended, f"{at}.attention.output.dense")
        hidden = self._norm(hidden + attended, f"{at}.attention.output.LayerNorm")
        wide = gelu(self._linear(hidden, f"{at}.intermediate.dense"))
        return self._norm(hidden + self._linear(wide, f"{at}.output.dense"), f"{at}.output.LayerNorm")

    def _linear(self, values: Floats, at: str) -> Floats:
        result: Floats = values @ self._of(f"{at}.weight").T
        return result + self._of(f"{at}.bias") if f"{at}.bias" in self._weights else result

    def _norm(self, values: Floats, at: str) -> Floats:
        centred = values - values.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        result: Floats = centred / np.sqrt(variance + self._epsilon) * self._of(f"{at}.weight") + self._of(f"{at}.bias")
        return result

    def _of(self, name: str) -> Floats:
        return self._weights[name]


def bucketed(distances: npt.NDArray[np.int64], buckets: int, farthest: int) -> npt.NDArray[np.int64]:
    """Return distances as they are up to half of the buckets, then in logarithmic steps up to the farthest."""
    middle = buckets // 2
    far = np.abs(distances)
    near = far < middle
    safe = np.where(near, middle, far)  # no logarithm of 0
    steps = np.ceil(np.log(safe / middle) / math.log((farthest - 1) / middle) * (middle - 1)) + middle
    result: npt.NDArray[np.int64] = np.where(far <= middle, distances, steps * np.sign(distances)).astype(np.int64)
    return result


def _gather(scores: Floats, places: npt.NDArray[np.int64]) -> Floats:
    """Return, for each pair of tokens, the score of the bucket that their distance is in."""
    index = np.broadcast_to(places, (*scores.shape[:2], *places.shape))
    return np.take_along_axis(scores, index, axis=-1)


def _problems(config: Mapping[str, Any]) -> Iterator[str]:
    if config.get("model_type") != MODEL_TYPE:
        yield f"it is a {config.get('model_type')} model, not {MODEL_TYPE}. {GET_ONE}"
        return
    for name in ("hidden_size", "num_attention_heads", "num_hidden_layers"):
        if not isinstance(config.get(name), int):
            yield f"config.json has no {name}. {GET_ONE}"
    if config.get("conv_kernel_size", 0):
        yield "it has a convolution, which is not supported: xlarge and xxlarge of version 2 have it. Take version 3"
    for name in ("hidden_act", "pooler_hidden_act"):
        if config.get(name, "gelu") != "gelu":
            yield f"{name} is {config[name]}; only gelu is supported. {GET_ONE}"
    if not any(is_entailment(str(label)) for label in (config.get("id2label") or {}).values()):
        yield f"it has no label entailment: it was not made for zero-shot classification. {GET_ONE}"


def is_entailment(label: str) -> bool:
    return label.casefold().startswith("entail")


def _bad(folder: Path, problems: Sequence[str]) -> rm.errors.DeclarationError:
    return rm.errors.DeclarationError(str(folder), problems, "model")
