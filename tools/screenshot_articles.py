"""Articles of all kinds for the pictures of pages: read and unread, with topics and without, sources that fail."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.models import ClassificationRequest, Content, FeedSource
from rowmill_systems.articles.readers import follow_topic, mark_read, prefer_source
from rowmill_systems.articles.settings import ArticlesSettings

NOW = datetime.now(UTC)
LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
TEXT = (
    "The harbour office said on Tuesday that the new timetable holds from March on. Ferries leave every half hour, and "
    "the last one at a quarter past eleven. Passengers had asked for later crossings for years; a trial last summer "
    "carried more people than expected. The price of a ticket stays as it is until the end of the year."
)
HTML = f"""<p>{TEXT}</p><h2>What changes</h2><ul><li>Later crossings on all days</li><li>A second ship in summer</li>
</ul><blockquote><p>“We should have done this earlier.”</p></blockquote>
<p>The <a href="https://example.org/plan">plan</a> has the details.</p><pre><code>07:00 07:30 08:00</code></pre>
<table><tr><th>Line</th><th>Passengers</th></tr><tr><td>North</td><td>12,400</td></tr></table>
<img src="https://images.example.org/ferry.jpg" alt="A ferry"><p>{LONG}</p>"""
SOURCES: list[dict[str, Any]] = [
    {"title": "The Harbour Post", "url": "https://harbour.example/feed.xml", "granular_topics": ["technology.ai"],
     "last_success_at": NOW, "last_new_at": NOW, "next_sync_at": NOW + timedelta(minutes=22), "interval_seconds": 1800},
    {"title": "Field Notes", "url": "https://fieldnotes.example/atom.xml", "last_success_at": NOW - timedelta(hours=5),
     "last_new_at": NOW - timedelta(days=50), "created_at": NOW - timedelta(days=90),
     "next_sync_at": NOW + timedelta(hours=19)},
    {"title": "Broken Weekly", "url": "https://broken.example/rss", "failures": 7, "last_code": "http_503",
     "last_status": 503, "last_success_at": NOW - timedelta(days=3), "next_sync_at": NOW + timedelta(hours=4)},
    {"title": LONG, "url": f"https://{'long.' * 9}example/feeds/{LONG}.xml", "status": "paused"},
    {"title": "", "url": "https://new.example/feed.json", "status": "due"},
    {"title": "The Old Gazette", "url": "https://gazette.example/rss", "status": "retired",
     "last_success_at": NOW - timedelta(days=400), "last_status": 410},
]  # fmt: skip
ARTICLES: list[tuple[str, int, float, list[str] | None]] = [
    ("Ferries cross until midnight from March on", 0, 0.4, None),
    ("A language model reads ships' logs of two centuries", 0, 2, ["technology.ai", "science"]),
    ("Why heat pumps hum, and what helps", 1, 5, ["science"]),
    ("Town council votes on the new bridge on Thursday", 1, 7, None),
    (f"{LONG} feiert Jubiläum", 3, 9, ["business"]),
    ("Cup final goes to penalties after two hours", 2, 11, ["sport.football"]),
    ("Chips grow smaller, factories larger", 0, 20, ["technology", "business"]),
    ("A recipe for rye bread that needs no kneading", 1, 30, []),
    ("Lighthouse keepers wanted", 2, 50, ["world"]),
]


def fill(connection: sa.Connection) -> None:
    sources = []
    for given in SOURCES:
        row = {"id": uuid.uuid4(), "host": given["url"].split("/")[2], "status": "idle"} | given
        connection.execute(sa.insert(FeedSource).values(row))
        sources.append(row["id"])
    ids = []
    for title, source, hours, topics in ARTICLES:
        id, at = uuid.uuid4(), NOW - timedelta(hours=hours)
        ids.append(id)
        scores = None if topics is None else {topic: 0.87 - 0.2 * n for n, topic in enumerate(topics)}
        row = {
            "id": id, "source_id": sources[source], "identity": id.hex, "url": f"https://example.org/{id.hex}",
            "title": title, "author": "Ines Marek" if source == 0 else None, "description": HTML, "text": TEXT,
            "text_hash": id.hex, "published_at": at, "shown_at": at, "topics": topics, "topic_scores": scores,
        }  # fmt: skip
        connection.execute(sa.insert(Content).values(row))
        status = "pending" if topics is None else "completed"
        request: dict[str, Any] = {"id": uuid.uuid4(), "content_id": id, "status": status, "priority": 10}
        if title.startswith("Lighthouse"):
            request |= {"status": "failed", "retry_count": 3, "error_message": "provider_down: it does not answer"}
        connection.execute(sa.insert(ClassificationRequest).values(request))
    follow_topic(connection, "technology.ai")
    follow_topic(connection, "science")
    follow_topic(connection, "sport", -1.0)
    prefer_source(connection, sources[1], 1.0)
    mark_read(connection, [ids[6], ids[8]])


@asynccontextmanager
async def articles_with_rows(folder: Path) -> AsyncIterator[Articles]:
    settings = ArticlesSettings(database_url=f"sqlite:///{folder / 'articles.db'}", ml_enabled=False)
    articles = Articles(settings)
    await articles.migrate()
    async with articles.opened():
        await articles.mill.run(fill)
        yield articles


async def article_pages(articles: Articles, under: str) -> dict[str, str]:
    """Return the pages of articles by name, mounted at this path."""

    def ids(connection: sa.Connection) -> tuple[Any, Any, Any]:
        newest = sa.select(Content.id).order_by(Content.shown_at.desc())
        failing = sa.select(FeedSource.id).where(FeedSource.failures > 0)
        return connection.scalar(newest), connection.scalar(newest.offset(1)), connection.scalar(failing)

    waiting, classified, failing = await articles.mill.run(ids, write=False)
    return {
        "articles-feed": f"{under}/",
        "articles-feed-unread": f"{under}/?show=unread",
        "articles-browse": f"{under}/browse",
        "articles-browse-topic": f"{under}/browse?topic=science",
        "articles-browse-none": f"{under}/browse?q=nothing+like+it",
        "articles-article": f"{under}/read/{classified}",
        "articles-article-waiting": f"{under}/read/{waiting}",
        "articles-topics": f"{under}/interests",
        "articles-sources": f"{under}/subscriptions",
        "articles-source": f"{under}/subscriptions/{failing}",
        "articles-queue": f"{under}/queue",
        "articles-docs": f"{under}/docs",
    }
