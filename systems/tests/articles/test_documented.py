"""docs/systems/articles.md says what the code does."""

import re
from pathlib import Path
from typing import get_args

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession

from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.feeds.parser import ParsingFailed
from rowmill_systems.articles.feeds.parsing import BROKEN, NotAFeed
from rowmill_systems.articles.logs import WorkerEvent
from rowmill_systems.articles.settings import ArticlesSettings
from rowmill_systems.articles.sync import TOO_MANY_ENTRIES
from rowmill_systems.articles.web.app import create_app
from rowmill_systems.parts.fetching.errors import MESSAGES
from systems.tests.articles.harness import articles_on
from tests.docs.pages import block_of, run_page
from tests.support.web import client_of

NAME = "docs/systems/articles.md"
TEXT = (Path(__file__).parents[3] / NAME).read_text("utf-8")


def test_the_page_names_every_code_of_a_fetch() -> None:
    parser = {NotAFeed.code, ParsingFailed.code, "parsing_timed_out", BROKEN, TOO_MANY_ENTRIES}
    assert {code for code in {*MESSAGES, *parser} if f"`{code}`" not in TEXT} == set()


def test_the_page_names_every_event_of_the_log() -> None:
    section = TEXT.split("## Log")[1].split("\n## ")[0]
    assert {event for event in get_args(WorkerEvent) if f".{event}`" not in section} == set()


def test_the_page_names_every_path() -> None:
    section = TEXT.split("## Over HTTP")[1].split("\n## ")[0]
    app = create_app(Articles(ArticlesSettings()))
    paths = {re.sub(r"{\w+_id}", "{id}", path) for path in app.openapi()["paths"]}
    assert paths
    short = section.replace("…/why", "/articles/{id}/why")
    assert {path for path in paths if path not in short} == set()
    pages = TEXT.split("## Pages")[1].split("\n## ")[0]
    for path in ("/", "/browse", "/read/{id}", "/interests", "/subscriptions", "/queue"):
        assert f"`{path}`" in pages


async def test_plain_sql_of_operators_works(database_url: str) -> None:
    """A2: rows that failed go back by an UPDATE, and articles without a row get one by an INSERT."""
    *read, back, insert, due, delete = [each for each in block_of(NAME, "sql").split(";\n") if each.strip()]
    async with articles_on(database_url, {"bad": ValueError()}) as harness:
        await harness.save("a", "bad", "lost")
        await harness.sql("DELETE FROM classification_queue WHERE content_id IN "
                          "(SELECT id FROM contents WHERE title = 'lost')")  # fmt: skip
        await harness.sql("UPDATE classification_queue SET status = 'failed', retry_count = 3 WHERE content_id IN "
                          "(SELECT id FROM contents WHERE title = 'bad')")  # fmt: skip
        for statement in read:
            await harness.read(sa.text(statement))
        assert await harness.sql(back) == 1
        assert await harness.sql(insert) == 1
        await harness.bench.drain()
        assert await harness.states() == {"a": "completed", "bad": "pending", "lost": "completed"}
        assert (await harness.requests())["bad"].retry_count == 1
        assert await harness.sql(due) == 1
        await harness.sql("UPDATE contents SET shown_at = '2025-01-01 00:00:00' WHERE title = 'a'")
        assert await harness.sql(delete) == 1
        assert set(await harness.states()) == {"bad", "lost"}


async def test_the_snippets_of_the_page_classify_articles(database_url: str) -> None:
    """A4: by the service and by the worker, under the names that callers use."""
    page = run_page(NAME)
    async with articles_on(database_url, {}) as harness:
        await harness.save(*"abc")

        async def find_topics(content_id: object) -> list[str]:
            if content_id == bad:
                raise ValueError("words of an article")
            return ["sport.tennis"]

        bad = (await harness.contents())["a"].id
        async with AsyncSession(harness.mill.store.engine) as session:
            assert await page["classify_some"](session, find_topics) == 3
        found = await harness.requests()
        assert {key: row.status for key, row in found.items()} == {"a": "pending", "b": "completed", "c": "completed"}
        assert found["a"].error_message == "ValueError"
        assert (await harness.contents())["b"].topics == ["sport.tennis"]

        page["articles"] = harness.articles
        await harness.save("d")
        assert await page["classify_one_batch"]() == 1
        assert (await harness.states())["d"] == "completed"


async def test_the_application_of_the_page_starts(database_url: str) -> None:
    """A8: with the worker inside it."""
    page = run_page(NAME)
    async with articles_on(database_url) as harness:
        page["articles"] = harness.articles
        async with client_of(page["app"]) as client:
            (worker,) = (await client.get("/health/worker")).json()["workers"]
            assert "classification_queue" in str(worker)
