"""Titles, texts, addresses and keys are planted: none reaches a log, a message of a command, or an error of the API."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from rowmill.cli.main import run
from rowmill.testing import QUICK
from rowmill_systems.articles.adding import add_sources
from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.feeds.opml import ListedFeed
from rowmill_systems.articles.models import ClassificationRequest, FeedSource
from rowmill_systems.articles.sync import sync_now
from rowmill_systems.articles.web.app import create_app
from systems.tests.articles.harness import settings_for
from systems.tests.model_server import ModelServer, Reply, model_server
from tests.support.web import client_of

TITLE, WORDS, PASSWORD, KEY = "Plantedtitle", "plantedwords", "planted-password", "planted-key-4711"
PLANTED = (TITLE, WORDS, PASSWORD, KEY)
ITEMS = "".join(
    f"<item><guid>{TITLE}-{number}</guid><title>{TITLE} {number}</title><description>{WORDS}</description></item>"
    for number in range(3)
)
BODIES = {
    "/feed": f'<rss version="2.0"><channel><title>{TITLE}</title>{ITEMS}</channel></rss>',
    "/broken": f'<rss version="2.0"><channel><title>{TITLE}</title>{ITEMS}<item><{WORDS}',
    "/page": f"<html><head><title>{TITLE}</title></head><body>{WORDS}</body></html>",
    "/json": f'{{"{TITLE}": ["{WORDS}"',
}


def nothing_planted(text: str) -> None:
    assert [each for each in PLANTED if each.lower() in text.lower()] == [], text[:3000]


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """All that was logged, but by the test's own client and server, and by the driver, which tells every statement."""
    ours = [each for each in caplog.records if not each.name.startswith(("httpx", "uvicorn.access", "aiosqlite"))]
    assert ours
    return "\n".join(f"{each.getMessage()} {vars(each)} {each.exc_text or ''}" for each in ours)


@asynccontextmanager
async def planted_feeds() -> AsyncIterator[list[str]]:
    """Serve the feeds; their addresses hold a password."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        body = BODIES[asked.split()[1]].encode()
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield [f"http://reader:{PASSWORD}@127.0.0.1:{port}{path}" for path in BODIES]


async def test_a_sync_and_a_model_that_break_log_none_of_them(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    def reply(asked: Any, number: int) -> Reply:
        if number == 1:
            return Reply(status=400, body=f'{{"error": {{"message": "{TITLE} {KEY}"}}}}'.encode())
        return Reply(body=f"{WORDS} {TITLE}".encode())

    server: ModelServer
    async with planted_feeds() as urls, model_server() as server:
        server.reply = reply
        settings = settings_for(
            database_url, allow_private_addresses=True, classifier="endpoint", endpoint_url=server.url,
            endpoint_model="m", endpoint_key=SecretStr(KEY),
        )  # fmt: skip
        nothing_planted(repr(settings))
        articles = Articles(settings)
        articles.mill.settings = QUICK
        async with articles.opened():
            await articles.mill.run(lambda connection: add_sources(connection, [ListedFeed(url) for url in urls]))
            report = await sync_now(articles)
            assert report.new >= 3, "the planted articles are there"
            assert set(report.failed) == {"not_a_feed"}
            await articles.mill.drain(["classification_queue"])
            assert server.asked, "the model was given the planted articles"
            kept = sa.select(ClassificationRequest.error_message, ClassificationRequest.status)
            rows = await articles.mill.run(lambda connection: connection.execute(kept).all())
            nothing_planted(str(rows))
            # And one that breaks while it has articles in its hands: the statement fails, with all of them in it.
            await articles.mill.run(
                lambda connection: connection.exec_driver_sql(
                    "ALTER TABLE contents RENAME COLUMN image_url TO i"
                ).close()
            )
            await articles.mill.run(
                lambda connection: connection.execute(sa.text("DELETE FROM contents")).close(), write=True
            )
            await sync_now(articles)
            errors = await articles.mill.run(lambda connection: connection.scalars(sa.select(FeedSource.error)).all())
            assert any(errors), "it broke"
            nothing_planted(str(errors))
    nothing_planted(logged(caplog))


async def test_the_api_logs_none_of_them_and_its_errors_show_none(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    articles = Articles(settings_for(database_url, ml_enabled=False, allow_private_addresses=True))
    articles.mill.settings = QUICK
    async with planted_feeds() as urls, articles.opened(), client_of(create_app(articles)) as client:
        assert (await client.post("/sources", json={"url": urls[0]})).status_code == 201
        refused = await client.post("/sources", json={"url": f"ftp://reader:{PASSWORD}@host.example/{WORDS}"})
        assert refused.status_code == 422
        nothing_planted(refused.text)
        await sync_now(articles)
        found = await client.get("/articles", params={"q": WORDS})
        assert TITLE in found.text
        await articles.mill.run(
            lambda connection: connection.exec_driver_sql("ALTER TABLE contents RENAME COLUMN text TO t").close()
        )
        for path in ("/articles", "/browse"):
            broken = await client.get(path, params={"q": WORDS}, headers={"accept": "application/json"})
            assert broken.status_code >= 500
            nothing_planted(broken.text)
    nothing_planted(logged(caplog))


def test_commands_say_and_log_none_of_them(
    database_url: str,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("ARTICLES_ENDPOINT_KEY", KEY)
    monkeypatch.setenv("ROWMILL_LOG_LEVEL", "debug")

    def called(*words: str) -> int:
        return run(["systems", "articles", *words, "--database-url", database_url])

    assert called("add", f"https://reader:{PASSWORD}@host.invalid/feed", "--no-discover", "--json") == 0
    capsys.readouterr()  # what it added, by its address
    assert called("sync", "--json") == 5
    assert called("stats") == 0
    assert called("requeue", "--failed") == 0
    shown = capsys.readouterr()
    nothing_planted(shown.out + shown.err)
    nothing_planted(logged(caplog))
