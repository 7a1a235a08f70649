"""Articles, each part beside what it is held against.

    python -m bench.articles [--only saving,classifying,parsing,syncing] [--articles 100000] [--feeds 500]

saving: feeds of 100 new articles are synced while a classifier in the web application computes 200 ms for each article;
the API is called all the time, and beforehand with nothing else going on.
classifying: articles through the queue by one process, beside the same model called with one article at a time.
parsing: entries a second, beside feedparser, and fastfeedparser where it is installed.
syncing: feeds on 400 hosts, the first time and when nothing has changed.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx2
import numpy as np
import sqlalchemy as sa

from bench.server import bench_server
from demos.articles.feed_server import FeedServer, MadeFeed, many_feeds
from demos.articles.feed_texts import article
from demos.articles.run import served_feeds
from rowmill_systems.articles.adding import add_sources
from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.classifying.port import ArticleText, Topics, TopicScore
from rowmill_systems.articles.feeds.entries import FeedEntry, ParsedFeed
from rowmill_systems.articles.feeds.opml import ListedFeed
from rowmill_systems.articles.feeds.parsing import parse_feed
from rowmill_systems.articles.saving import save_entries
from rowmill_systems.articles.settings import ArticlesSettings
from rowmill_systems.articles.sync import sync_now

SAVE_SECONDS, P99_MS = 2.0, 100.0
SLOW_SECONDS = 0.2
ROUNDS = 5
IDLE_CALLS = 500
ONE_BY_ONE = 5_000
PARSED_FEEDS, PARSED_ENTRIES = 12, 500
HOSTS = 400


class SlowClassifier:
    """Computes for 200 ms an article, in a thread, as a large model does."""

    name = "slow"

    def classify(self, *, title: str, description: str = "", top_k: int = 3, threshold: float = 0.3) -> Topics:
        began, numbers = time.perf_counter(), np.ones((400, 400))
        while time.perf_counter() - began < SLOW_SECONDS:
            numbers @ numbers
        return (TopicScore("technology.ai", 0.9),)

    async def classify_batch(
        self, articles: Sequence[ArticleText], *, top_k: int = 3, threshold: float = 0.3
    ) -> list[Topics | Exception]:
        return await asyncio.to_thread(lambda: [self.classify(title=each.title) for each in articles])

    async def close(self) -> None:
        pass


def settings(url: str, **more: Any) -> ArticlesSettings:
    values: dict[str, Any] = {"database_url": url, "allow_private_addresses": True}
    return ArticlesSettings(**values | more)


def measure_saving(url: str) -> list[dict[str, Any]]:
    """Sync 100 new articles, again and again, while the web application classifies slowly."""
    feeds = [MadeFeed(f"/new/{number}", host=0, entries=100) for number in range(ROUNDS)]
    with served_feeds(feeds, 1) as server, web_application(url) as address:
        idle = list(calls(address, IDLE_CALLS))
        busy: list[float] = []
        stop = threading.Event()
        thread = threading.Thread(target=lambda: busy.extend(calls(address, None, stop)))
        thread.start()
        seconds = asyncio.run(save_rounds(url, server, feeds))
        time.sleep(5)  # the classifier has seconds of work left: the API is called meanwhile
        stop.set()
        thread.join()
    before, during = percentiles(idle), percentiles(busy)
    return [
        reached("100 new articles saved, seconds", round(max(seconds), 2), most=SAVE_SECONDS),
        reached("API p99 meanwhile, ms", during["p99"], most=P99_MS)
        | {"p50": during["p50"], "idle": before, "calls": len(busy)}
        | {"p50 ratio": round(during["p50"] / before["p50"], 2), "p99 ratio": round(during["p99"] / before["p99"], 2)},
    ]


async def save_rounds(url: str, server: FeedServer, feeds: Sequence[MadeFeed]) -> list[float]:
    """Add and sync one feed after the other. Return the seconds of each sync."""
    articles, times = Articles(settings(url)), []
    async with articles.opened():
        for feed in feeds:
            added = await articles.mill.run(partial(add_sources, feeds=[ListedFeed(server.url(feed.path))]))
            report = await sync_now(articles, [each.id for each in added.added])
            if report.new != feed.entries:
                raise SystemExit(f"saved {report.new} articles of {feed.entries}: {dict(report.failed)}")
            times.append(report.seconds)
    return times


@contextmanager
def web_application(url: str) -> Iterator[str]:
    """Serve the web application with a slow classifier from its own process. Yield its address."""
    command = [sys.executable, "-m", "bench.articles", "--serve", url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
    finally:
        process.kill()
        process.wait()


async def serve(url: str) -> None:
    from rowmill.web.serve import serve_until_stopped
    from rowmill_systems.articles.web.app import create_app

    articles = Articles(settings(url, ml_enabled=True), classifier=SlowClassifier())
    app = create_app(articles)
    await serve_until_stopped(app, "127.0.0.1", 0, grace=1, announce=lambda text: print(text, flush=True))


def calls(address: str, number: int | None, stop: threading.Event | None = None) -> Iterator[float]:
    """Ask for a page of articles again and again. Yield the milliseconds of each answer."""
    done = 0
    with httpx2.Client(base_url=address, trust_env=False, timeout=60) as client:
        while (number is None or done < number) and not (stop is not None and stop.wait(0.01)):
            began = time.perf_counter()
            client.get("/articles", params={"limit": 20}).raise_for_status()
            yield (time.perf_counter() - began) * 1000
            done += 1


async def measure_classifying(url: str, number: int, batch: int) -> dict[str, Any]:
    """Classify articles through the queue, and a part of them by calls of the model with one article."""
    articles = Articles(settings(url, batch_size=batch))
    async with articles.opened():
        await articles.mill.run(lambda connection: fill(connection, number))
        classifier = await articles.open_classifier()
        await classifier.classify_batch([ArticleText("to begin with")])
        texts = [text_of(place) for place in range(ONE_BY_ONE)]
        alone = time.process_time()
        for text in texts:
            await classifier.classify_batch([text])
        alone = time.process_time() - alone
        began, cpu = time.perf_counter(), time.process_time()
        report = await articles.mill.drain([articles.requests.name])
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    if report.done != number:
        raise SystemExit(f"classified {report.done} of {number}")
    one_by_one = ONE_BY_ONE / alone
    return {
        "measure": f"articles classified a second, batches of {batch}", "articles": number,
        "reached": round(number / seconds), "per core second of the worker": round(number / cpu),
        "the model one by one, per core second": round(one_by_one), "ratio": round(number / cpu / one_by_one, 2),
    }  # fmt: skip


def fill(connection: sa.Connection, number: int) -> None:
    """Save articles of one feed, all in the queue."""
    added = add_sources(connection, [ListedFeed(f"https://example.org/{time.time_ns()}")]).added[0]
    now = datetime.now(UTC)
    for start in range(0, number, 5000):
        entries = []
        for place in range(start, min(start + 5000, number)):
            text = text_of(place)
            entries.append(
                FeedEntry(str(place), None, text.title, "", text.description, published_at=now - timedelta(hours=1))
            )
        save_entries(connection, added.id, entries)


def text_of(place: int) -> ArticleText:
    made = article(f"/feed/{place % 50}", place, datetime.now(UTC))
    return ArticleText(made.title, made.text, "en")


def measure_parsing() -> list[dict[str, Any]]:
    """Parse the same feeds by each parser, in this process."""
    feeds = many_feeds(PARSED_FEEDS, 1, PARSED_ENTRIES)
    made = FeedServer(feeds, 1)
    made.ports = [80]
    bodies = [(feed, made.body(feed)) for feed in feeds if feed.format != "json"]
    entries = sum(feed.entries for feed, _ in bodies)
    found = {"ours, all fields sanitised": rate(entries, lambda: [parse(feed, body) for feed, body in bodies])}
    feedparser = import_module("feedparser")
    found["feedparser"] = rate(entries, lambda: [feedparser.parse(body) for _, body in bodies])
    quick = {"sanitize_html": False, "resolve_relative_uris": False}
    found["feedparser, nothing sanitised"] = rate(
        entries, lambda: [feedparser.parse(body, **quick) for _, body in bodies]
    )
    try:
        fast = import_module("fastfeedparser")
    except ImportError:
        pass
    else:
        found["fastfeedparser, nothing sanitised"] = rate(entries, lambda: [fast.parse(body) for _, body in bodies])
    return [
        {"measure": f"entries parsed a second: {name}", "reached": round(value),
         "ours / this": round(found["ours, all fields sanitised"] / value, 2)}
        for name, value in found.items()
    ]  # fmt: skip


def parse(feed: MadeFeed, body: bytes) -> ParsedFeed:
    parsed = parse_feed(body, url="http://127.0.0.1/feed", content_type=None, max_entries=1000, now=datetime.now(UTC))
    if len(parsed.entries) != feed.entries:
        raise SystemExit(f"parsed {len(parsed.entries)} entries of {feed.entries}")
    return parsed


def rate(entries: int, work: Callable[[], object]) -> float:
    """Return entries per second of processor time: the median of three rounds."""
    times = []
    for _ in range(3):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return entries / median(times)


async def measure_syncing(url: str, number: int) -> dict[str, Any]:
    """Sync feeds for the first time, and again when nothing has changed."""
    feeds = many_feeds(number, HOSTS)
    with served_feeds(feeds, HOSTS) as server:
        articles = Articles(settings(url))
        async with articles.opened():
            listed = [ListedFeed(address) for address in server.urls]
            await articles.mill.run(lambda connection: add_sources(connection, listed))
            first = await sync_now(articles)
            again = await sync_now(articles)
    if first.failed or first.fetched != number or again.not_modified != number:
        raise SystemExit(f"fetched {first.fetched} feeds of {number}, {again.not_modified} not modified")
    return {
        "measure": f"{number} feeds synced, seconds", "reached": round(first.seconds, 1), "articles": first.new,
        "not modified": round(again.seconds, 1), "most at once per host": server.counts.most_per_host,
    }  # fmt: skip


def percentiles(times: list[float]) -> dict[str, float]:
    cuts = quantiles(times, n=100)
    return {"p50": round(cuts[49], 1), "p99": round(cuts[98], 1)}


def reached(measure: str, value: float, *, most: float) -> dict[str, Any]:
    return {"measure": measure, "goal": most, "reached": value, "met": value <= most}


@contextmanager
def database(store: str) -> Iterator[str]:
    """Yield the URL of an empty database with the tables of articles."""
    if store == "postgres":
        with bench_server() as server:
            asyncio.run(Articles(settings(server.url)).migrate())
            yield server.url
    else:
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{Path(folder) / 'articles.db'}"
            asyncio.run(Articles(settings(url)).migrate())
            yield url


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--articles", type=int, default=100_000)
    parser.add_argument("--feeds", type=int, default=500)
    parser.add_argument("--only", default="saving,classifying,parsing,syncing")
    parser.add_argument("--stores", default="postgres,sqlite")
    parser.add_argument("--serve", metavar="URL", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given.serve))
        return 0
    only, met = given.only.split(","), True

    def tell(found: dict[str, Any]) -> None:
        nonlocal met
        met &= found.get("met", True)
        print(json.dumps(found), flush=True)

    if "parsing" in only:
        for one in measure_parsing():
            tell(one)
    for store in given.stores.split(","):
        if "saving" in only:
            with database(store) as url:
                for one in measure_saving(url):
                    tell({"store": store, **one})
        if "classifying" in only:
            for batch in (10, 100):
                with database(store) as url:
                    tell({"store": store, **asyncio.run(measure_classifying(url, given.articles, batch))})
        if "syncing" in only:
            with database(store) as url:
                tell({"store": store, **asyncio.run(measure_syncing(url, given.feeds))})
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
