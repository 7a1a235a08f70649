"""What classifiers have in common whose model runs in this process."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from rowmill_systems.articles.classifying.batches import in_halves, run_blocking
from rowmill_systems.articles.classifying.calibration import Numbers
from rowmill_systems.articles.classifying.port import ArticleText, Topics, TopicScore
from rowmill_systems.articles.classifying.texts import readable
from rowmill_systems.articles.settings import THRESHOLD, TOP_K

LAST_PLACE = 4
"""Decimal places of a score."""
BLAME = (ValueError, TypeError, OverflowError)
"""What a tokenizer raises for a text that it can't take."""


class LocalClassifier(ABC):
    """A Classifier, but for the model: a subclass says how likely each topic is."""

    name: str

    @abstractmethod
    async def open_topics(self) -> Sequence[str]:
        """Load what the model needs, once. Return the keys of its topics."""

    @abstractmethod
    async def chances(self, texts: Sequence[str], articles: Sequence[ArticleText]) -> Numbers:
        """Return how likely it is that a topic fits: a row for each text, a column for each topic.

        `texts` are what the model reads of the articles.
        """

    def classify(
        self, *, title: str, description: str = "", top_k: int = TOP_K, threshold: float = THRESHOLD
    ) -> Topics:
        (found,) = run_blocking(
            lambda: self.classify_batch([ArticleText(title, description)], top_k=top_k, threshold=threshold)
        )
        if isinstance(found, Exception):
            raise found
        return found

    async def classify_batch(
        self, articles: Sequence[ArticleText], *, top_k: int = TOP_K, threshold: float = THRESHOLD
    ) -> list[Topics | Exception]:
        texts = readable(articles)
        places = [place for place, text in enumerate(texts) if isinstance(text, str)]
        keys = await self.open_topics()

        async def find(some: Sequence[int]) -> list[Topics]:
            read = [str(texts[place]) for place in some]
            chances = await self.chances(read, [articles[place] for place in some])
            return best_topics(chances, keys, top_k=top_k, threshold=threshold)

        found = await in_halves(places, find, blame=BLAME)
        answers = dict(zip(places, found, strict=True))
        return [answers[place] if isinstance(text, str) else text for place, text in enumerate(texts)]

    async def close(self) -> None:  # noqa: B027 - a model that holds something overrides it
        """Nothing to close: embedders are shared in the process, and files are mapped into memory."""


def best_topics(chances: Numbers, keys: Sequence[str], *, top_k: int, threshold: float) -> list[Topics]:
    """Return the best topics of each row, with a score of `threshold` at least."""
    order = np.argsort(-chances, axis=1, kind="stable")[:, :top_k]
    scores = np.take_along_axis(chances, order, axis=1)
    return [
        tuple(
            TopicScore(keys[place], round(float(score), LAST_PLACE))
            for place, score in zip(row, found, strict=True)
            if score >= threshold
        )
        for row, found in zip(order, scores, strict=True)
    ]
