"""A sync and the API never wait for a model."""

import asyncio

import sqlalchemy as sa

from demos.articles.feed_server import MadeFeed, serving
from rowmill.testing import QUICK
from rowmill_systems.articles.adding import add_source
from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.models import ClassificationRequest
from rowmill_systems.articles.sync import sync_now
from rowmill_systems.articles.web.app import create_app
from systems.tests.articles.harness import settings_for
from systems.tests.articles.scripted_classifier import ScriptedClassifier
from tests.support.web import client_of


async def test_articles_are_saved_and_the_api_answers_while_a_model_works(database_url: str) -> None:
    """A1: the classifier has not answered once when all articles are there, and the feed has every one of them."""
    classifier, asked, release = ScriptedClassifier(), asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        asked.set()
        await release.wait()

    classifier.before_answer = hold
    articles = Articles(settings_for(database_url, allow_private_addresses=True), classifier=classifier)
    articles.mill.settings = QUICK
    async with articles.opened(), serving([MadeFeed("/feed", entries=100)]) as server:
        await articles.mill.run(lambda connection: add_source(connection, server.url("/feed")))
        async with client_of(create_app(articles)) as client:
            async with asyncio.timeout(60):  # for ever, if it waited for the model
                assert (await sync_now(articles)).new == 100
                await asked.wait()
            counts = (await client.get("/admin/queue-stats")).json()
            assert (counts["completed"], counts["total"]) == (0, 100)
            page = (await client.get("/feed", params={"limit": 100})).json()
            assert [each["topics"] for each in page["articles"]] == [None] * 100
            release.set()
            wanted = sa.select(sa.func.count()).where(ClassificationRequest.status == "completed")
            while await articles.mill.run(lambda connection: connection.scalar(wanted)) != 100:
                await asyncio.sleep(0.02)
        assert max(map(len, classifier.calls)) == 10
