"""The demo: a server of feeds, a sync, an API that is measured meanwhile, a killed worker, and checks."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

import httpx2
import sqlalchemy as sa

from demos.articles.feed_server import FeedServer, MadeFeed, many_feeds, odd_feeds
from demos.crew import Crew, crew_in
from demos.performing import OnProgress
from rowmill_systems.articles.feeds.opml import ListedFeed, write_opml
from rowmill_systems.articles.models import Content, FeedSource

LONGEST = 300.0
HOSTS = 12
LOOK_SECONDS = 0.5
IDLE_CALLS = 200
SHOWN = 5
FOLLOWED = ("technology.ai", "science.space")
SOURCE_TOPICS = ("technology.ai", "business.markets", "science.space", "sport.football")
"""Topics of the feeds as a whole, in turn. They stand in until their articles are classified."""
FAILS_WITH = {
    "gone": "http_410", "limited": "http_429", "busy": "http_503", "error": "http_500", "missing": "http_404",
    "drip": "timed_out", "hang": "timed_out", "gzip_bomb": "too_large", "huge": "too_large", "html": "not_a_feed",
}  # fmt: skip
"""The code of each way to misbehave that has only one."""


@dataclass
class Result:
    feeds: int = 0
    articles: int = 0
    sync_seconds: float = 0.0
    classify_seconds: float = 0.0
    failures: dict[str, int] = field(default_factory=dict)
    """Feeds by the code of their last failure."""
    retired: int = 0
    requests: int = 0
    most_per_host: int = 0
    out_of_turn: int = 0
    idle_ms: dict[str, float] = field(default_factory=dict)
    """How long the API took to answer, with nothing else to do."""
    sync_ms: dict[str, float] = field(default_factory=dict)
    busy_ms: dict[str, float] = field(default_factory=dict)
    queue: dict[str, int] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    without_topic: int = 0
    feed_before: list[str] = field(default_factory=list)
    feed_after: list[str] = field(default_factory=list)
    killed: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"holds": self.holds}


def run(folder: Path, *, feeds: int, articles: int, database_url: str | None, on_progress: OnProgress) -> Result:
    """Run the demo in this folder. `on_progress` is called with the current step, the amount done, and the total."""
    began, result = time.monotonic(), Result()
    good = many_feeds(feeds, HOSTS, -(-articles // feeds))
    odd = odd_feeds(HOSTS)
    result.feeds = len(good) + len(odd)
    url = database_url or f"sqlite:///{folder / 'articles.db'}"
    variables = {
        "ARTICLES_DATABASE_URL": url,
        "ARTICLES_ALLOW_PRIVATE_ADDRESSES": "true",
        "ARTICLES_FETCH_SECONDS": "4",
        "ARTICLES_LEASE_SECONDS": "10",
        "ML_ENABLED": "false",  # the workers are processes of their own, so that one can be killed
    }
    engine = sa.create_engine(sync_url(url))
    with served_feeds([*good, *odd], HOSTS) as server, crew_in("articles", folder, variables) as crew:
        crew.migrate()
        outlines = folder / "feeds.opml"
        listed = [ListedFeed(server.url(each.path), each.path) for each in [*good, *odd]]
        outlines.write_bytes(write_opml(listed, title="Feeds of the demo", now=server.now))
        crew.run("add", str(outlines))
        give_topics(engine)
        address = crew.serve()
        with httpx2.Client(base_url=address, trust_env=False, timeout=30) as client:
            for topic in FOLLOWED:
                client.put(f"/following/topics/{topic}").raise_for_status()
            result.idle_ms = percentiles([call(client) for _ in range(IDLE_CALLS)])
            on_progress("feeds are synced", 0, result.feeds)
            with measured(address) as times:
                result.sync_seconds = sync(crew)
            result.sync_ms = percentiles(times)
            result.feed_before = first_page(client)
            before = pages_of_feed(client)
            classify(client, crew, address, result, on_progress)
            after = pages_of_feed(client)
            result.feed_after = first_page(client)
            result.queue = client.get("/admin/queue-stats").raise_for_status().json()
        saved, codes = look(engine, result)
    engine.dispose()
    counts = server.counts
    result.requests, result.most_per_host = counts.requests.total(), counts.most_per_host
    result.out_of_turn = counts.out_of_turn
    judge(result, saved, {"before": before, "after": after})
    judge_feeds(result, codes, [*good, *odd])
    result.seconds = round(time.monotonic() - began, 1)
    return result


def sync_url(url: str) -> str:
    """Return the address of the same database for an engine without an event loop."""
    return url.replace("postgresql://", "postgresql+psycopg://")


@contextmanager
def served_feeds(feeds: Sequence[MadeFeed], hosts: int) -> Iterator[FeedServer]:
    """Serve the feeds from a thread of this process."""
    loop, server = asyncio.new_event_loop(), FeedServer(feeds, hosts)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result()
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def give_topics(engine: sa.Engine) -> None:
    """Give each feed topics of its own, as a person would."""
    with engine.begin() as connection:
        for place, key in enumerate(connection.scalars(sa.select(FeedSource.id).order_by(FeedSource.url)).all()):
            topics = [SOURCE_TOPICS[place % len(SOURCE_TOPICS)]]
            connection.execute(sa.update(FeedSource).where(FeedSource.id == key).values(granular_topics=topics))


def sync(crew: Crew) -> float:
    """Fetch all feeds once, by the command. Return the seconds."""
    began = time.monotonic()
    crew.run("sync", accept=(0, 5))  # 5: there are feeds that fail, as there have to be
    return round(time.monotonic() - began, 1)


def call(client: httpx2.Client) -> float:
    """Ask the API for a page of articles. Return the milliseconds."""
    began = time.perf_counter()
    client.get("/articles", params={"limit": 20}).raise_for_status()
    return (time.perf_counter() - began) * 1000


@contextmanager
def measured(address: str) -> Iterator[list[float]]:
    """Call the API again and again during the block, as readers do. Yields the list of milliseconds."""
    times: list[float] = []
    stop = threading.Event()

    def keep_calling() -> None:
        with httpx2.Client(base_url=address, trust_env=False, timeout=30) as client:
            while not stop.wait(0.02):
                times.append(call(client))

    thread = threading.Thread(target=keep_calling)
    thread.start()
    try:
        yield times
    finally:
        stop.set()
        thread.join()


def percentiles(times: list[float]) -> dict[str, float]:
    cuts = quantiles(times, n=100) if len(times) > 1 else [0.0] * 99
    return {"p50": round(cuts[49], 1), "p99": round(cuts[98], 1)}


def first_page(client: httpx2.Client) -> list[str]:
    """Return the first articles of the feed, each with its topics and the reasons for its place."""
    found = client.get("/feed", params={"limit": SHOWN}).raise_for_status().json()["articles"]
    lines = []
    for each in found:
        topics = ", ".join(each["topics"] or ()) or ("not classified" if each["topics"] is None else "no topic")
        lines.append(f"{each['title']} ({topics}): {'. '.join(reason['text'] for reason in each['why'])}")
    return lines


def pages_of_feed(client: httpx2.Client) -> list[str]:
    """Page through the feed to its end. Return the ids of its articles."""
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = client.get("/feed", params={"limit": 100, "after": after}).raise_for_status().json()
        found += [each["id"] for each in page["articles"]]
        after = page["next"] or None
    return found


def classify(client: httpx2.Client, crew: Crew, address: str, result: Result, on_progress: OnProgress) -> None:
    """Let two workers classify the articles, and kill one half-way."""
    began = time.monotonic()
    with measured(address) as times:
        for _ in range(2):
            crew.work()
        while time.monotonic() - began < LONGEST:
            counts = client.get("/admin/queue-stats").raise_for_status().json()
            left = counts["pending"] + counts["processing"]
            on_progress("articles are classified", counts["total"] - left, counts["total"])
            if not result.killed and counts["completed"] >= counts["total"] / 3:
                crew.kill_a_worker()
                result.killed += 1
            if not left:
                break
            time.sleep(LOOK_SECONDS)
        else:
            result.problems.append(f"not all articles were classified within {LONGEST:.0f} s")
    result.classify_seconds = round(time.monotonic() - began, 1)
    result.busy_ms = percentiles(times)


def look(engine: sa.Engine, result: Result) -> tuple[set[str], dict[str, tuple[str, str | None]]]:
    """Read what was saved. Return the ids of all articles, and the status and last code of each feed by its path."""
    topics = Counter[str]()
    saved = set()
    with engine.connect() as connection:
        for row in connection.execute(sa.select(Content.id, Content.topics)):
            saved.add(str(row.id))
            topics.update(row.topics or ())
            result.without_topic += not row.topics
            if row.topics is None:
                result.problems.append(f"article {row.id} was not classified")
        sources = connection.execute(
            sa.select(FeedSource.title, FeedSource.status, FeedSource.last_code, FeedSource.failures)
        ).all()
    result.articles, result.topics = len(saved), dict(topics.most_common())
    result.failures = dict(Counter(row.last_code for row in sources if row.failures))
    result.retired = sum(row.status == "retired" for row in sources)
    return saved, {row.title: (row.status, row.last_code) for row in sources}


def judge(result: Result, saved: set[str], feeds: dict[str, list[str]]) -> None:
    """Note what is not as it has to be."""
    if {status for status, number in result.queue.items() if number} - {"completed", "total"}:
        result.problems.append(f"the queue is not done: {result.queue}")
    if not result.killed:
        result.problems.append("no worker was killed: there were too few articles")
    if result.most_per_host > 1:
        result.problems.append(f"{result.most_per_host} requests at once to one host")
    if result.out_of_turn:
        result.problems.append(f"{result.out_of_turn} requests before the end of a Retry-After")
    for when, found in feeds.items():
        if len(found) != len(set(found)):
            result.problems.append(f"{len(found) - len(set(found))} articles came twice in the feed {when}")
        if left := saved - set(found):
            result.problems.append(f"{len(left)} articles are not in the feed {when}")


def judge_feeds(result: Result, found: dict[str, tuple[str, str | None]], feeds: list[MadeFeed]) -> None:
    """Hold each feed against what has to become of it."""
    for feed in feeds:
        status, code = found[feed.path]
        wanted = FAILS_WITH.get(feed.behaviour)
        if wanted is not None and code != wanted:
            result.problems.append(f"{feed.path} has the code {code}, not {wanted}")
        if not feed.behaviour and (status, code) != ("idle", None):
            result.problems.append(f"{feed.path} behaves, and is {status} with the code {code}")
        if (status == "retired") != (feed.behaviour == "gone"):
            result.problems.append(f"{feed.path} is {status}")
