"""The worker under the names that callers know, and inside a web application: A4+, A8."""

import asyncio
import logging
import sys
from types import ModuleType
from typing import Any

import pytest
from fastapi import FastAPI

from rowmill.integrations.fastapi import workers_of
from rowmill.testing import QUICK
from rowmill.worker import Worker
from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.classification_worker import ClassificationWorker, OneBatch, running_in_app
from systems.tests.articles.harness import articles_on, entry, settings_for
from systems.tests.articles.scripted_classifier import ScriptedClassifier

LOG = "rowmill.systems.articles"


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The events of the log, without their common beginning."""
    ours = [vars(record)["event"] for record in caplog.records if record.name == LOG]
    return [event.removeprefix("classification_worker.") for event in ours]


async def test_it_works_until_it_is_stopped(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A4+: with its events in the log."""
    async with articles_on(database_url, {"bad": ValueError("words")}) as harness:
        classified = asyncio.Event()
        harness.classifier.before_answer = classified.set
        await harness.save("a", "bad")
        worker = ClassificationWorker(harness.articles)
        with caplog.at_level(logging.INFO, LOG):
            running = asyncio.create_task(worker.start())
            await classified.wait()
            await worker.stop()
            await running
        assert await harness.states() == {"a": "completed", "bad": "pending"}
        found = events(caplog)
        assert (found[:2], found[-1]) == (["started", "processing"], "stopped")
        assert sorted(found[2:-1]) == ["item_failed", "success"]
        assert "words" not in caplog.text
        running = asyncio.create_task(worker.start())  # once more
        await harness.save("c")
        classified.clear()
        await classified.wait()
        worker.stop()  # awaited or not
        await running
        assert (await harness.states())["c"] == "completed"


async def test_stopped_before_it_began(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        worker = ClassificationWorker(harness.articles)
        await worker.stop()
        await harness.save("a")
        running = asyncio.create_task(worker.start())
        await asyncio.sleep(0)
        await worker.stop()
        await running
        assert await harness.states() == {"a": "pending"}


async def test_what_ends_it_is_logged_and_raised(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with articles_on(database_url) as harness:
        await harness.sql("DROP TABLE classification_queue")
        with caplog.at_level(logging.INFO, LOG), pytest.raises(Exception, match="classification_queue"):
            await ClassificationWorker(harness.articles).start()
        assert events(caplog) == ["error", "stopped"]


async def test_one_batch_and_no_more(database_url: str) -> None:
    """A4+: it answers how many; what was claimed besides is given back, at no cost."""
    async with articles_on(database_url, batch_size=2) as harness:
        await harness.save(*(entry(f"e{n}") for n in range(5)))
        worker = ClassificationWorker(harness.articles)
        assert [await worker.process_batch() for _ in range(4)] == [2, 2, 1, 0]
        assert {(row.status, row.retry_count) for row in (await harness.requests()).values()} == {("completed", 0)}
        assert [len(call) for call in harness.classifier.calls] == [2, 2, 1]


async def test_no_second_batch_begins_before_the_worker_stops(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop_late(self: OneBatch, worker: Worker) -> None:
        self._stop = lambda: asyncio.get_running_loop().call_later(0.3, worker.stop)

    monkeypatch.setattr(OneBatch, "begun", stop_late)
    async with articles_on(database_url, batch_size=2) as harness:
        await harness.save(*(entry(f"e{n}") for n in range(4)))
        assert await ClassificationWorker(harness.articles).process_batch() == 2
        rows = sorted((row.status, row.retry_count) for row in (await harness.requests()).values())
        assert rows == [("completed", 0)] * 2 + [("pending", 0)] * 2


async def test_a_batch_beside_a_running_worker(database_url: str) -> None:
    async with articles_on(database_url) as harness:
        worker = ClassificationWorker(harness.articles)
        running = asyncio.create_task(worker.start())
        await harness.save("a", "b", "c")
        while set((await harness.states()).values()) != {"completed"}:
            await worker.process_batch()
        await worker.stop()
        await running
        assert sum(map(len, harness.classifier.calls)) == 3


async def test_it_starts_and_stops_with_the_application(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A8."""
    async with articles_on(database_url) as harness:
        harness.mill.settings = QUICK
        classified, app = asyncio.Event(), FastAPI()
        harness.classifier.before_answer = classified.set
        with caplog.at_level(logging.INFO, LOG):
            async with running_in_app(harness.articles, app):
                await harness.save("a")
                await classified.wait()
                assert len(workers_of(app)) == 1
        assert await harness.states() == {"a": "completed"}
        assert workers_of(app) == []
        assert events(caplog) == ["started_on_startup", "processing", "success", "stopped_on_shutdown"]


async def test_without_ml_enabled_nothing_is_classified(
    database_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A8: by the environment."""
    monkeypatch.setenv("ML_ENABLED", "false")
    async with articles_on(database_url) as harness:
        app = FastAPI()
        with caplog.at_level(logging.INFO, LOG):
            async with running_in_app(harness.articles, app) as worker:
                assert worker is None
                assert workers_of(app) == []
        assert events(caplog) == []


async def test_the_classifier_is_opened_once_and_closed_at_the_end(database_url: str, monkeypatch: Any) -> None:
    made: list[ScriptedClassifier] = []

    def open_classifier(settings: Any, mill: Any) -> ScriptedClassifier:
        made.append(ScriptedClassifier())
        return made[-1]

    opening = ModuleType("opening")
    vars(opening)["open_classifier"] = open_classifier
    monkeypatch.setitem(sys.modules, "rowmill_systems.articles.classifying.open", opening)
    articles = Articles(settings_for(database_url))
    for times in (1, 2):
        async with articles.opened():
            assert len(made) == times - 1, "at its first use"
            async with articles.opened():
                await asyncio.gather(*(articles.open_classifier() for _ in range(5)))
            assert (len(made), made[-1].closed) == (times, 0)
        assert made[-1].closed == 1
    given = ScriptedClassifier()
    async with Articles(settings_for(database_url), classifier=given).opened():
        pass
    assert given.closed == 0, "it is the caller's"
