"""The small model and our topics, opened once."""

from pathlib import Path

import pytest

from rowmill_systems.articles.classifying.embedding import EmbeddingClassifier
from rowmill_systems.articles.classifying.taxonomy import load_taxonomy
from rowmill_systems.parts.embeddings import Embedder, open_embedder

FOLDER = Path(__file__).parent


@pytest.fixture(scope="session")
def embedder() -> Embedder:
    return open_embedder("wordllama")


@pytest.fixture(scope="session")
def classifier(embedder: Embedder) -> EmbeddingClassifier:
    return EmbeddingClassifier(embedder, load_taxonomy())
