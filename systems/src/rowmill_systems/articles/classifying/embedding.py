"""Find topics with a small embedding model: descriptions of topics are compared with articles."""

import asyncio
from collections.abc import Sequence

from rowmill_systems.articles.classifying.calibration import Numbers
from rowmill_systems.articles.classifying.local import LocalClassifier
from rowmill_systems.articles.classifying.port import ArticleText
from rowmill_systems.articles.classifying.taxonomy import Taxonomy
from rowmill_systems.articles.classifying.topic_model import TopicModel, open_topic_model
from rowmill_systems.parts.embeddings import Embedder


class EmbeddingClassifier(LocalClassifier):
    """A Classifier on an Embedder and the topics of a taxonomy. Needs no labels."""

    def __init__(self, embedder: Embedder, taxonomy: Taxonomy) -> None:
        self.name = f"{embedder.name}/{taxonomy.digest}"
        self.taxonomy = taxonomy
        self._embedder = embedder
        self._model: TopicModel | None = None

    async def open_topics(self) -> Sequence[str]:
        return (await self.topic_model()).keys

    async def chances(self, texts: Sequence[str], articles: Sequence[ArticleText]) -> Numbers:
        model, vectors = await self.topic_model(), await self._embedder.embed(texts)
        languages = [article.language for article in articles]
        return await asyncio.to_thread(model.probabilities, vectors, texts, languages)

    async def topic_model(self) -> TopicModel:
        """Return the topics as the model sees them. They are embedded once, when they are first needed."""
        if self._model is None:
            self._model = await open_topic_model(self._embedder, self.taxonomy)
        return self._model
