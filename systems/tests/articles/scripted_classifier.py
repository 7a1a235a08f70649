"""A classifier that does as it is told."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rowmill_systems.articles.classifying.port import ArticleText, Topics, TopicScore


class ScriptedClassifier:
    """Answers with the topics of a script, by title: topics with scores, or an exception. Otherwise `news`."""

    name = "scripted"

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        self.answers = dict(answers or {})
        self.calls: list[list[str]] = []
        self.seen: list[ArticleText] = []
        self.before_answer: Callable[[], Any] = lambda: None
        """Called in each call, after the articles were handed over."""
        self.broken_by: str | None = None
        """A title that makes the whole call break."""
        self.closed = 0

    def classify(self, *, title: str, description: str = "", top_k: int = 3, threshold: float = 0.3) -> Topics:
        answer = self._answer(ArticleText(title, description))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def classify_batch(
        self, articles: Sequence[ArticleText], *, top_k: int = 3, threshold: float = 0.3
    ) -> list[Topics | Exception]:
        self.calls.append([each.title for each in articles])
        self.seen += articles
        waited = self.before_answer()
        if asyncio.iscoroutine(waited):
            await waited
        if self.broken_by in self.calls[-1]:
            raise ValueError(f"words of an article: {self.broken_by}")
        return [self._answer(each) for each in articles]

    def _answer(self, article: ArticleText) -> Topics | Exception:
        answer = self.answers.get(article.title, {"news": 0.9})
        if isinstance(answer, Exception):
            return answer
        return tuple(TopicScore(topic, score) for topic, score in answer.items())

    async def close(self) -> None:
        self.closed += 1
