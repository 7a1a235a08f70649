"""The system: its mill, queues, classifier and fetcher."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import rowmill as rm
from rowmill import systems
from rowmill.worker import WorkerSettings
from rowmill_systems.articles import processing, queue, sync
from rowmill_systems.articles.classifying.port import Classifier
from rowmill_systems.articles.feeds.fetching import FeedFetcher
from rowmill_systems.articles.migrations import revisions
from rowmill_systems.articles.models import ClassificationRequest, FeedSource
from rowmill_systems.articles.settings import ArticlesSettings


class Articles:
    """A database of feeds and articles, what fetches them, and what classifies them.

    `classifier` and `fetcher` replace those of the settings. Both are opened at their first use, and closed when the
    last `opened()` block ends; those that were given stay open.
    """

    revisions = revisions

    def __init__(
        self, settings: ArticlesSettings, *, classifier: Classifier | None = None, fetcher: FeedFetcher | None = None
    ) -> None:
        self.settings = settings
        self.mill = rm.Mill(settings.database_url, settings=worker_settings(settings))
        self.sources: rm.Queue[FeedSource] = queue.declare_sources(self.mill, settings)
        self.requests: rm.Queue[ClassificationRequest] = queue.declare_requests(self.mill, settings)
        self._given = classifier, fetcher
        self._classifier, self._fetcher = self._given
        self._opening = asyncio.Lock()
        self._users = 0
        processing.handle(self)
        sync.handle_sources(self)

    @property
    def classifier(self) -> Classifier:
        """The model, opened at the first use, which may take a second. In an event loop, use `open_classifier`."""
        if self._classifier is None:
            from rowmill_systems.articles.classifying.open import open_classifier  # numpy, only where it is used

            self._classifier = open_classifier(self.settings, self.mill)
        return self._classifier

    async def open_classifier(self) -> Classifier:
        """Return the model, and read its files in a thread if it is not open yet."""
        async with self._opening:
            if self._classifier is None and self.settings.classifier != "endpoint":
                await asyncio.to_thread(lambda: self.classifier)
            return self.classifier

    @property
    def fetcher(self) -> FeedFetcher:
        """What fetches feeds, opened at the first use."""
        if self._fetcher is None:
            self._fetcher = FeedFetcher(self.settings)
        return self._fetcher

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Connect; at the end, close the classifier and the fetcher.

        It may be entered several times, as by a server and the worker beside it; the last one to leave closes it.
        """
        async with self.mill.opened():
            self._users += 1
            try:
                yield
            finally:
                self._users -= 1
                if not self._users:
                    await self._close()

    async def _close(self) -> None:
        ours = [
            each
            for each, given in zip((self._classifier, self._fetcher), self._given, strict=True)
            if each is not None and given is None
        ]
        self._classifier, self._fetcher = self._given
        for each in ours:
            await each.close()

    async def migrate(self) -> None:
        """Bring the tables to this version."""
        await systems.migrate(self)


def worker_settings(settings: ArticlesSettings) -> WorkerSettings:
    """Return how workers of articles behave: an idle one looks every `poll_seconds`, and is woken by new rows."""
    usual = WorkerSettings()
    return WorkerSettings(poll_base=min(usual.poll_base, settings.poll_seconds), poll_max=settings.poll_seconds)
