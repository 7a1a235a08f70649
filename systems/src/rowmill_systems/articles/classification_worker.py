"""The classification worker under the method names that callers already use, and as part of a web application.

worker = ClassificationWorker(articles)
running = asyncio.create_task(worker.start())
...
await worker.stop()
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from rowmill.integrations.fastapi import AppWorker
from rowmill.worker import Worker
from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.logs import log_event
from rowmill_systems.articles.processing import BATCH_DONE

QUEUE = "classification_queue"


class ClassificationWorker:
    """Classifies the articles that wait."""

    def __init__(self, articles: Articles) -> None:
        self._articles = articles
        self._worker: Worker | None = None
        self._stopping = False
        self._ended = asyncio.Event()
        self._ended.set()

    async def start(self) -> None:
        """Work until `stop` is called: ten articles at a time, woken by new ones. Raises what ends the worker early."""
        self._ended.clear()
        try:
            async with self._articles.opened(), self._articles.mill.worker([QUEUE]) as self._worker:
                log_event("started")
                if not self._stopping:
                    await self._worker.run()
        except Exception as error:
            log_event("error", code=type(error).__name__)
            raise
        finally:
            self._worker, self._stopping = None, False
            self._ended.set()
            log_event("stopped")

    async def process_batch(self) -> int:
        """Classify one batch, and return how many articles it had. 0 if none was ready."""
        mill, batch = self._articles.mill, OneBatch()
        settings = replace(mill.settings, grace=0.0)  # what was claimed besides is given back at once
        chosen = BATCH_DONE.set(batch.done)
        try:
            async with self._articles.opened():
                await mill.drain([QUEUE], settings=settings, begun=batch.begun)
        finally:
            BATCH_DONE.reset(chosen)
        return batch.articles

    def stop(self) -> "Ending":
        """Take no more articles, and finish what is begun. Await the result to wait for the end. Idempotent."""
        if not self._ended.is_set():
            self._stopping = True
            if self._worker is not None:
                self._worker.stop()
        return Ending(self._ended)


class Ending:
    """Awaited, it waits for the end of a worker. It need not be awaited."""

    def __init__(self, ended: asyncio.Event) -> None:
        self._ended = ended

    def __await__(self) -> Generator[Any, None, None]:
        yield from self._ended.wait().__await__()


class OneBatch:
    """Stops a worker after its first batch."""

    def __init__(self) -> None:
        self.articles = 0
        self._began = False
        self._stop: Callable[[], object] = lambda: None

    def begun(self, worker: Worker) -> None:
        self._stop = worker.stop

    def done(self, articles: int) -> bool:
        """Note that a batch begins (0) or ends. Return whether it may begin."""
        if not articles:
            may_begin, self._began = not self._began, True
            return may_begin
        self.articles += articles
        self._stop()
        return True


@asynccontextmanager
async def running_in_app(articles: Articles, app: Any) -> AsyncIterator[AppWorker | None]:
    """Run a classification worker inside a web application for the time of the block, if ML_ENABLED.

    For the lifespan of the application. `app.state.rowmill` is the worker then, which the health endpoint asks.
    """
    async with articles.opened():
        if not articles.settings.ml_enabled:
            yield None
            return
        await articles.open_classifier()  # an application with a wrong setting does not start: no article is tried
        async with AppWorker(articles.mill, [QUEUE]).running(app) as worker:
            log_event("started_on_startup")
            try:
                yield worker
            finally:
                await worker.stop()
                log_event("stopped_on_shutdown")
