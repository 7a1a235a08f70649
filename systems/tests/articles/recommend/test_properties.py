"""Properties of scoring, variety, the cursor and the pages, whatever the articles are."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import groupby
from random import Random
from typing import Any

import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rowmill_systems.articles.models import Content
from rowmill_systems.articles.recommend.cursor import FeedCursor, Position, decode, remember
from rowmill_systems.articles.recommend.explaining import explain
from rowmill_systems.articles.recommend.feed import read_feed
from rowmill_systems.articles.recommend.scoring import FeedCandidate, ReaderTaste, ScoredArticle, score
from rowmill_systems.articles.recommend.variety import SOURCES_IN_A_ROW, TOPICS_IN_A_ROW, FeedPlace, arranged, place_of
from systems.tests.articles.shelf import ME, NOW, article_row, connected, follow, mark_read, put_source

TOPICS = ["a", "a.b", "a.b.c", "d", "e"]
SOURCES = [uuid.UUID(int=n) for n in range(4)]
weights = st.floats(-5, 5) | st.sampled_from([0.0, 1.0, -1.0])
tastes = st.builds(
    ReaderTaste,
    st.dictionaries(st.sampled_from(TOPICS), weights),
    st.dictionaries(st.sampled_from([str(id) for id in SOURCES]), weights),
)
candidates = st.builds(
    FeedCandidate,
    id=st.uuids(),
    source_id=st.sampled_from(SOURCES),
    shown_at=st.floats(-100, 100_000).map(lambda hours: NOW - timedelta(hours=hours)),
    topics=st.none() | st.lists(st.sampled_from(TOPICS), max_size=3, unique=True),
    topic_scores=st.dictionaries(st.sampled_from(TOPICS), st.floats(0, 1)),
    source_topics=st.lists(st.sampled_from(TOPICS), max_size=2, unique=True),
    is_read=st.booleans(),
)
many = st.lists(candidates, max_size=40, unique_by=lambda each: each.id)


@given(candidates, tastes)
def test_every_article_has_a_finite_score_with_reasons_that_add_up_to_it(
    each: FeedCandidate, taste: ReaderTaste
) -> None:
    found = score(each, taste, NOW)
    reasons = explain(found, NOW, source="S")
    assert -20 < found.total < 20
    assert abs(sum(reason.value for reason in reasons) - found.total) < 0.01
    assert all(reason.text for reason in reasons)


@given(many, tastes, st.lists(st.sampled_from(TOPICS), max_size=5), st.randoms())
def test_an_order_has_every_article_once_and_depends_on_nothing_else(
    articles: list[FeedCandidate], taste: ReaderTaste, before: list[str], random: Random
) -> None:
    scored = [score(each, taste, NOW) for each in articles]
    last = [FeedPlace(topic, topic) for topic in before]
    found = arranged(scored, last)
    assert sorted(each.candidate.id for each in found) == sorted(each.id for each in articles)
    random.shuffle(scored)
    assert arranged(scored, last) == found
    assert arranged(scored, last, 5) == found[:5]


@given(many, tastes)
def test_runs_are_longer_than_allowed_only_where_nothing_else_is_left(
    articles: list[FeedCandidate], taste: ReaderTaste
) -> None:
    found = arranged([score(each, taste, NOW) for each in articles])
    places = [place_of(each) for each in found]
    for at in range(len(places)):
        run = places[max(at - SOURCES_IN_A_ROW, 0) : at + 1]
        if len(run) > SOURCES_IN_A_ROW and len({place.source for place in run}) == 1:
            assert {place.source for place in places[at:]} == {run[0].source}
        allowed = [place for place in places[at:] if not too_long(places[:at], place.source)]
        run = places[max(at - TOPICS_IN_A_ROW, 0) : at + 1]
        if len(run) > TOPICS_IN_A_ROW and len({place.topic for place in run}) == 1 and run[0].topic:
            assert {place.topic for place in allowed or places[at:]} == {run[0].topic}


def too_long(before: Sequence[FeedPlace], source: str) -> bool:
    last = before[-SOURCES_IN_A_ROW:]
    return len(last) == SOURCES_IN_A_ROW and all(place.source == source for place in last)


@given(tastes, candidates, candidates)
def test_following_a_topic_never_puts_an_article_about_it_lower(
    taste: ReaderTaste, one: FeedCandidate, other: FeedCandidate
) -> None:
    more = ReaderTaste({**taste.topics, "e": 1.0}, taste.sources)
    less = ReaderTaste({**taste.topics, "e": 0.0}, taste.sources)
    fits = FeedCandidate(one.id, one.source_id, one.shown_at, ["e"], {"e": 0.9}, one.source_topics, one.is_read)
    assert score(fits, more, NOW).total > score(fits, less, NOW).total


@given(st.lists(st.uuids(), unique=True, max_size=300), st.data())
def test_a_cursor_remembers_exactly_what_was_shown(ids: list[uuid.UUID], data: st.DataObject) -> None:
    shown = set(data.draw(st.lists(st.sampled_from(ids), unique=True))) if ids else set()
    seed, hashes = remember(ids, shown)
    top = Position("2026-01-01 00:00:00.000000", uuid.uuid4())
    at = datetime(2026, 1, 1, 1, 2, 3, 999_999, tzinfo=UTC)
    cursor = FeedCursor(at, top, top, seed, hashes, (FeedPlace("x", ""),))
    again = decode(cursor.encode())
    assert again == cursor
    assert {id for id in ids if again.has_shown(id)} == shown


actions = st.lists(st.sampled_from(["come", "delete", "classify", "follow", "read", "unfollow"]), max_size=3)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(st.integers(0, 20), max_size=60),
    st.integers(1, 9),
    st.integers(1, 25),
    st.lists(actions, max_size=80),
    st.randoms(use_true_random=False),
)
def test_pages_have_each_article_of_the_beginning_once(
    sqlite_url: str, hours: list[int], limit: int, window: int, happens: list[list[str]], random: Random
) -> None:
    """On SQLite, for speed; test_feed.py proves the same once on both databases."""
    with rolled_back(sqlite_url) as connection:
        sources = [put_source(connection, topics=["a"]), put_source(connection)]
        rows = [article_row(sources[n % 2], hours=at) for n, at in enumerate(hours)]
        if rows:
            connection.execute(sa.insert(Content), rows)
        follow(connection, {})
        there, gone, seen = {row["id"] for row in rows}, set[uuid.UUID](), list[uuid.UUID]()
        after, turn = "", iter(happens)
        for _ in range(500):
            page = read_feed(connection, ME, after=after, limit=limit, window=window)
            assert len(page.items) <= limit
            seen += [item.row["id"] for item in page.items]
            if page.next is None:
                break
            after = page.next
            for what in next(turn, ()):
                happen(connection, what, sources, sorted(there - gone), gone, random)
        else:
            raise AssertionError("the feed does not end")
    assert len(seen) == len(set(seen)), "an article is there twice"
    assert there - gone <= set(seen) <= there


@contextmanager
def rolled_back(url: str) -> Iterator[sa.Connection]:
    with connected(url) as connection, connection.begin_nested() as everything:
        yield connection
        everything.rollback()


def happen(
    connection: sa.Connection, what: str, sources: list[uuid.UUID], ids: list[uuid.UUID], gone: set[uuid.UUID],
    random: Random,
) -> None:  # fmt: skip
    one = random.choice(ids) if ids else None
    match what:
        case "come":
            late: dict[str, Any] = {"created_at": NOW + timedelta(days=1)}
            hours = random.choice([-1, 0, 3, 7, 30])
            connection.execute(sa.insert(Content).values(article_row(sources[0], "late", hours=hours, **late)))
        case "delete" if one:
            connection.execute(sa.delete(Content).where(Content.id == one))
            gone.add(one)
        case "classify" if one:
            connection.execute(sa.update(Content).where(Content.id == one).values(topics=["d"], topic_scores={"d": 1}))
        case "read" if one:
            if not is_read(connection, one):
                mark_read(connection, one)
        case "follow":
            follow(connection, {"d": 1.0, "a": -1.0})
        case "unfollow":
            follow(connection, {})


def is_read(connection: sa.Connection, id: uuid.UUID) -> bool:
    found = connection.exec_driver_sql("SELECT count(*) FROM read_marks WHERE content_id = ?", (id.hex,)).scalar()
    return bool(found)


def longest_run(values: Sequence[str]) -> int:
    return max((len(list(run)) for _, run in groupby(values)), default=0)


def test_a_source_that_publishes_much_does_not_fill_the_page() -> None:
    loud = [FeedCandidate(uuid.UUID(int=n), SOURCES[0], NOW, ["a"]) for n in range(1, 50)]
    quiet = [
        FeedCandidate(uuid.UUID(int=n), SOURCES[1 + n % 3], NOW - timedelta(hours=20), ["d"]) for n in range(50, 80)
    ]
    found: list[ScoredArticle] = arranged(
        [score(each, ReaderTaste({"a": 1.0}), NOW) for each in loud + quiet], limit=20
    )
    assert longest_run([str(each.candidate.source_id) for each in found]) <= SOURCES_IN_A_ROW
    assert {each.candidate.source_id for each in found} >= set(SOURCES[:2])
