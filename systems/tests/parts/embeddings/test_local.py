"""Models that run in this process."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from rowmill_systems.parts.embeddings import open_embedder
from rowmill_systems.parts.embeddings.local import TokenAverage, Transformer
from rowmill_systems.parts.embeddings.weights import ModelMissing, package_file, read_safetensors

pytestmark = pytest.mark.xdist_group("embeddings")

WIDTH, HEADS, LAYERS, WIDE = 8, 2, 2, 16
VOCABULARY = {word: number for number, word in enumerate(["[UNK]", "the", "cat", "sat", "on", "a", "mat"])}


def write_safetensors(file: Path, tensors: dict[str, np.ndarray]) -> None:
    header, data = {"__metadata__": {"made": "here"}}, b""
    for name, tensor in tensors.items():
        end = len(data) + tensor.nbytes
        about: Any = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), end]}
        header[name], data = about, data + tensor.astype(np.float32).tobytes()
    encoded = json.dumps(header).encode()
    file.write_bytes(len(encoded).to_bytes(8, "little") + encoded + data)


def write_tokenizer(file: Path) -> None:
    tokenizer = Tokenizer(WordLevel(VOCABULARY, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(file))


def tiny_weights() -> dict[str, np.ndarray]:
    """Random, and the same in every run."""
    chance = np.random.default_rng(7)

    def some(*shape: int) -> np.ndarray:
        return chance.normal(0, 0.5, shape).astype(np.float32)

    tensors = {
        "embeddings.word_embeddings.weight": some(len(VOCABULARY), WIDTH),
        "embeddings.position_embeddings.weight": some(12, WIDTH),
        "embeddings.token_type_embeddings.weight": some(2, WIDTH),
        "embeddings.LayerNorm.weight": some(WIDTH), "embeddings.LayerNorm.bias": some(WIDTH),
    }  # fmt: skip
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        for part, out, into in (
            ("attention.self.query", WIDTH, WIDTH), ("attention.self.key", WIDTH, WIDTH),
            ("attention.self.value", WIDTH, WIDTH), ("attention.output.dense", WIDTH, WIDTH),
            ("intermediate.dense", WIDE, WIDTH), ("output.dense", WIDTH, WIDE),
        ):  # fmt: skip
            tensors |= {f"{at}.{part}.weight": some(out, into), f"{at}.{part}.bias": some(out)}
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            tensors |= {f"{at}.{part}.weight": some(WIDTH), f"{at}.{part}.bias": some(WIDTH)}
    return tensors


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Transformer:
    folder = tmp_path_factory.mktemp("tiny")
    config = {
        "hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS, "layer_norm_eps": 1e-12,
        "max_position_embeddings": 12,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", tiny_weights())
    write_tokenizer(folder / "tokenizer.json")
    return Transformer("tiny", folder)


def expected(words: list[str]) -> list[float]:
    """The same model, number by number, as its paper describes it."""
    weights = {name: tensor.astype(float).tolist() for name, tensor in tiny_weights().items()}

    def linear(at: str, x: list[float]) -> list[float]:
        return [
            sum(w * v for w, v in zip(row, x, strict=True)) + bias
            for row, bias in zip(weights[f"{at}.weight"], weights[f"{at}.bias"], strict=True)
        ]

    def norm(at: str, x: list[float]) -> list[float]:
        mean = sum(x) / len(x)
        deviation = math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + 1e-12)
        return [
            (v - mean) / deviation * g + b
            for v, g, b in zip(x, weights[f"{at}.weight"], weights[f"{at}.bias"], strict=True)
        ]

    def plus(x: list[float], y: list[float]) -> list[float]:
        return [a + b for a, b in zip(x, y, strict=True)]

    states = []
    for place, word in enumerate(words):
        summed = plus(
            weights["embeddings.word_embeddings.weight"][VOCABULARY[word]],
            weights["embeddings.position_embeddings.weight"][place],
        )
        states.append(norm("embeddings.LayerNorm", plus(summed, weights["embeddings.token_type_embeddings.weight"][0])))
    for layer in range(LAYERS):
        at, size = f"encoder.layer.{layer}", WIDTH // HEADS
        queries, keys, values = (
            [linear(f"{at}.attention.self.{part}", x) for x in states] for part in ("query", "key", "value")
        )
        following = []
        for place, state in enumerate(states):
            attended: list[float] = []
            for head in range(HEADS):
                own = slice(head * size, (head + 1) * size)
                scores = [
                    math.exp(sum(q * k for q, k in zip(queries[place][own], key[own], strict=True)) / math.sqrt(size))
                    for key in keys
                ]
                attended += [
                    sum(score * value[own][part] for score, value in zip(scores, values, strict=True)) / sum(scores)
                    for part in range(size)
                ]
            kept = norm(
                f"{at}.attention.output.LayerNorm", plus(state, linear(f"{at}.attention.output.dense", attended))
            )
            wide = [v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in linear(f"{at}.intermediate.dense", kept)]
            following.append(norm(f"{at}.output.LayerNorm", plus(kept, linear(f"{at}.output.dense", wide))))
        states = following
    pooled = [sum(state[part] for state in states) / len(states) for part in range(WIDTH)]
    length = math.sqrt(sum(v * v for v in pooled))
    return [v / length for v in pooled]


async def test_a_transformer_computes_what_its_paper_says(tiny: Transformer) -> None:
    texts = ["the cat sat", "a mat", "the cat sat on a mat"]

    vectors = await tiny.embed(texts)

    for text, vector in zip(texts, vectors, strict=True):
        assert vector == pytest.approx(expected(text.split()), abs=2e-5)


async def test_a_vector_does_not_depend_on_the_other_texts(tiny: Transformer, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["the cat sat on a mat", "the", "", "a mat a mat a mat"]
    together = await tiny.embed(texts)

    monkeypatch.setattr(Transformer, "BATCH_TOKENS", 1)  # each alone

    assert np.allclose(await tiny.embed(texts), together, atol=1e-5)


async def test_a_text_that_is_too_long_is_cut(tiny: Transformer) -> None:
    longest = " ".join(["cat"] * 12)

    first, second = await tiny.embed([longest, f"{longest} the mat"])

    assert np.allclose(first, second)


async def test_the_average_of_its_tokens(tmp_path: Path) -> None:
    table = np.arange(len(VOCABULARY) * 2, dtype=np.float32).reshape(-1, 2)
    write_safetensors(tmp_path / "weights", {"embedding.weight": table})
    write_tokenizer(tmp_path / "tokenizer")
    model = TokenAverage("averages", tmp_path / "weights", tmp_path / "tokenizer")

    vectors = await model.embed(["cat mat", "", "mat cat"])

    mean = (table[VOCABULARY["cat"]] + table[VOCABULARY["mat"]]) / 2
    assert vectors[0] == pytest.approx(mean / np.linalg.norm(mean))
    assert vectors[1].tolist() == [0.0, 0.0]
    assert np.array_equal(vectors[0], vectors[2])


async def test_wordllama_as_it_ships() -> None:
    model = open_embedder("wordllama")

    cat, kitten, markets, nothing, half = await model.embed(
        ["A cat sat on a mat.", "The kitten rests on a rug.", "Stock markets fell sharply.", "", "\ud83d of a sign"]
    )

    assert model.dimensions == len(cat) == 256
    assert cat[:4] == pytest.approx([-0.048145, 0.014775, -0.066527, 0.078308], abs=1e-5)  # as the library has it
    assert cat @ kitten > 0.3 > cat @ markets
    assert not nothing.any()
    assert np.linalg.norm(half) == pytest.approx(1.0)
    assert open_embedder("wordllama") is model


async def test_minilm_where_it_is_installed() -> None:
    try:
        model = open_embedder("minilm")
    except ModelMissing as missing:
        pytest.skip(str(missing))

    (vector,) = await model.embed(["This is an example sentence"])

    assert vector[:5] == pytest.approx([0.0676569, 0.0634960, 0.0487131, 0.0793050, 0.0374481], abs=1e-6)


def test_a_model_that_is_not_there() -> None:
    with pytest.raises(LookupError, match="wordllama, minilm"):
        open_embedder("gigantic")
    with pytest.raises(ModelMissing, match="Run: pip install it"):
        package_file("no_such_package", "weights", install="pip install it")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"PK\x03\x04 a zip, and not tensors")
    with pytest.raises(ValueError, match="not a safetensors file"):
        read_safetensors(tmp_path / "weights")
