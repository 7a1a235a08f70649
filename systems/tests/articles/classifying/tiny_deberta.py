"""A tiny DeBERTa model with random weights, which are the same in every run."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from systems.tests.parts.embeddings.test_local import write_safetensors

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", ".", *[f"word{number}" for number in range(50)], "rocket", "tennis"]
CONFIG: dict[str, Any] = {
    "model_type": "deberta-v2", "vocab_size": len(WORDS), "hidden_size": 16, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 24, "max_position_embeddings": 64, "relative_attention": True,
    "position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": "p2c|c2p",
    "type_vocab_size": 0, "position_biased_input": False, "layer_norm_eps": 1e-7, "hidden_act": "gelu",
    "pooler_hidden_act": "gelu", "pooler_hidden_size": 16, "max_relative_positions": -1,
    "id2label": {"0": "entailment", "1": "neutral", "2": "contradiction"},
}  # fmt: skip


def tiny_weights(config: dict[str, Any] = CONFIG) -> dict[str, np.ndarray]:
    chance = np.random.default_rng(11)
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    spread = config["position_buckets"] if config["position_buckets"] > 0 else config["max_position_embeddings"]
    shapes: dict[str, tuple[int, ...]] = {
        "deberta.embeddings.word_embeddings.weight": (config["vocab_size"], hidden),
        "deberta.embeddings.LayerNorm": (hidden,),
        "deberta.encoder.rel_embeddings.weight": (2 * spread, hidden),
        "deberta.encoder.LayerNorm": (hidden,),
        "pooler.dense": (hidden, hidden),
        "classifier": (len(config["id2label"]), hidden),
    }
    if config["position_biased_input"]:
        shapes["deberta.embeddings.position_embeddings.weight"] = (config["max_position_embeddings"], hidden)
    if config["type_vocab_size"]:
        shapes["deberta.embeddings.token_type_embeddings.weight"] = (config["type_vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        at = f"deberta.encoder.layer.{layer}"
        for part in ("query_proj", "key_proj", "value_proj"):
            shapes[f"{at}.attention.self.{part}"] = (hidden, hidden)
        if not config["share_att_key"]:
            shapes[f"{at}.attention.self.pos_key_proj"] = (hidden, hidden)
            shapes[f"{at}.attention.self.pos_query_proj"] = (hidden, hidden)
        shapes |= {
            f"{at}.attention.output.dense": (hidden, hidden), f"{at}.attention.output.LayerNorm": (hidden,),
            f"{at}.intermediate.dense": (wide, hidden), f"{at}.output.dense": (hidden, wide),
            f"{at}.output.LayerNorm": (hidden,),
        }  # fmt: skip
    tensors: dict[str, np.ndarray] = {}
    for name, shape in sorted(shapes.items()):
        value = chance.normal(0, 0.4, shape).astype(np.float32)
        if name.endswith(".weight"):
            tensors[name] = value
        else:
            tensors[f"{name}.weight"] = value + (1 if len(shape) == 1 else 0)
            tensors[f"{name}.bias"] = chance.normal(0, 0.2, shape[:1]).astype(np.float32)
    return tensors


def write_tiny(folder: Path, config: dict[str, Any] = CONFIG) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", tiny_weights(config))
    tokenizer = Tokenizer(WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
