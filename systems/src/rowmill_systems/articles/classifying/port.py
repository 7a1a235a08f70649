"""What finds the topics of articles."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rowmill_systems.articles.settings import THRESHOLD, TOP_K


@dataclass(frozen=True, slots=True)
class TopicScore:
    topic: str
    """The key of a topic in the taxonomy, as `technology.ai`."""
    score: float
    """How likely it is that the topic fits, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class ArticleText:
    """What a classifier reads of an article. Plain text."""

    title: str
    description: str = ""
    language: str | None = None


Topics = tuple[TopicScore, ...]
"""The best first. Empty: no topic fits."""


class Classifier(Protocol):
    """A model that finds topics. Safe to share among tasks and threads."""

    name: str
    """Names the model, its version and its topics."""

    def classify(
        self, *, title: str, description: str = "", top_k: int = TOP_K, threshold: float = THRESHOLD
    ) -> Topics:
        """Return the topics of one article. Blocks; raises WorkError."""

    async def classify_batch(
        self, articles: Sequence[ArticleText], *, top_k: int = TOP_K, threshold: float = THRESHOLD
    ) -> list[Topics | Exception]:
        """Return the topics of each article, in their order, by one call of the model, off the event loop.

        An article that the model can't take has an exception in its place; the others are not affected by it. Raises
        if no article could be classified, as when a service is down.
        """

    async def close(self) -> None:
        """Release what the model holds. Idempotent."""
