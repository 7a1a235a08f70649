"""A7, A8, A10: the API of articles."""

import uuid
from datetime import timedelta, timezone
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill_systems.articles import reads
from rowmill_systems.articles.models import ClassificationRequest, Content, FeedSource
from rowmill_systems.articles.recommend.explaining import topic_name
from systems.tests.articles.shelf import NOW, article_row, follow, put_request
from systems.tests.articles.web.served import HOSTILE, ServedArticles, served


async def test_queue_stats_are_counts_per_status(database_url: str) -> None:
    """A8."""
    async with served(database_url) as harness:
        empty = {"pending": 0, "processing": 0, "completed": 0, "failed": 0, "cancelled": 0}
        assert await harness.get("/admin/queue-stats") == {**empty, "total": 0}
        source = await harness.source()
        for number, status in enumerate(["pending", "pending", "completed", "failed", "cancelled"]):
            article = await harness.article(source, f"t{number}")
            await harness.do(lambda c, article=article, status=status: put_request(c, article, status))  # type: ignore[misc]
        expected = {**empty, "pending": 2, "completed": 1, "failed": 1, "cancelled": 1, "total": 5}
        assert await harness.get("/admin/queue-stats") == expected
        assert await harness.send("POST", "/admin/requeue-failed") == {"requeued": 1}
        found = await harness.get("/stats")
        assert found["queue"]["pending"] == 3
        assert found["exact"] is True
        assert found["sources"] == {"idle": 1, "failing": 0}


async def test_the_worker_starts_and_stops_with_the_application(database_url: str) -> None:
    """A8."""
    async with served(database_url, ml_enabled=True) as harness:
        source = await harness.source()
        article = await harness.article(source, "Chips")
        await harness.do(lambda connection: put_request(connection, article))
        wanted = sa.select(ClassificationRequest.status)
        for _ in range(600):
            if await harness.do(lambda c: c.scalar(wanted)) == "completed":
                break
            await harness.client.get("/health")
        found = await harness.get(f"/articles/{article}")
        assert (found["topics"], found["classification"]) == (["news"], "completed")
        assert (await harness.get("/health/worker"))["status"] == "ok"
    async with served(database_url, ml_enabled=False) as harness:
        assert await harness.get("/health/worker") == {"status": "ok", "workers": []}


async def test_the_feed_over_http(database_url: str) -> None:
    """A7, A10."""
    async with served(database_url) as harness:
        tech = await harness.source("Tech", topics=["technology.ai"])
        rows = [article_row(tech, f"t{n}", hours=n) for n in range(30)]
        await harness.do(lambda connection: connection.execute(sa.insert(Content), rows).close())
        other = await harness.source("Other")
        last = await harness.article(other, "Robots", hours=40, topics=["technology.ai"])
        assert (await harness.send("PUT", "/following/topics/technology"))["topics"] == {"technology": 1.0}
        first = await harness.get("/feed", limit=25)
        assert first["articles"][0]["topics"] is None
        reasons = {reason["kind"]: reason["text"] for reason in first["articles"][0]["why"]}
        assert reasons["source_topic"] == (
            "You follow Artificial intelligence, which belongs to Technology, a topic of Tech"
        )
        assert reasons["freshness"].startswith("It is ")
        second = await harness.get("/feed", limit=25, after=first["next"])
        found = [each["id"] for each in first["articles"] + second["articles"]]
        assert sorted(found) == sorted(str(id) for id in [*(row["id"] for row in rows), last])
        assert second["next"] is None
        assert (await harness.get("/feed", 404, after="nonsense"))["code"] == "no_such_page"
        why = await harness.get(f"/articles/{last}/why")
        assert sum(reason["value"] for reason in why["why"]) == pytest.approx(why["score"], abs=0.01)


def names(answer: Any) -> list[str]:
    return [each["title"] for each in answer["articles"]]


async def test_articles_are_listed_read_marked_and_deleted(database_url: str) -> None:
    """A10."""
    async with served(database_url) as harness:
        source = await harness.source()
        one = await harness.article(source, "One", topics=["a"])
        await harness.article(source, "Two", hours=2)
        assert names(await harness.get("/articles")) == ["One", "Two"]
        assert names(await harness.get("/articles", topic=["a", "b"])) == ["One"]
        assert names(await harness.get("/articles", q="TWO")) == ["Two"]
        assert names(await harness.get("/articles", classified="false", source=str(source))) == ["Two"]
        assert names(await harness.get("/articles", since=(NOW - timedelta(hours=1.5)).isoformat())) == ["One"]
        page = await harness.get("/articles", limit=1)
        assert names(await harness.get("/articles", limit=1, after=page["next"])) == ["Two"]
        assert await harness.send("PUT", f"/articles/{one}/read") == {"id": str(one), "is_read": True}
        assert names(await harness.get("/articles", unread="true")) == ["Two"]
        assert (await harness.get(f"/articles/{one}", reader="somebody"))["is_read"] is False
        assert (await harness.send("DELETE", f"/articles/{one}/read"))["is_read"] is False
        assert (await harness.get(f"/articles/{one}"))["description"] == "<p>One.</p>"
        await harness.send("DELETE", f"/articles/{one}", code=204)
        for method, path in [("DELETE", ""), ("GET", ""), ("GET", "/why"), ("PUT", "/read")]:
            assert (await harness.send(method, f"/articles/{one}{path}", code=404))["code"] == "no_such_article"


async def test_html_that_others_wrote_is_sanitised(database_url: str) -> None:
    async with served(database_url) as harness:
        bad = "<p onclick='x()'>kept <img src='https://a.example/i.png' onerror='x()'></p><script>alert(1)</script>"
        article = await harness.article(await harness.source(), description=bad)
        found = await harness.get(f"/articles/{article}")
        assert found["description"] == '<p>kept <img src="https://a.example/i.png"></p>'


async def test_topics_and_what_is_followed(database_url: str) -> None:
    async with served(database_url) as harness:
        source = await harness.source()
        await harness.article(source, topics=["sport.football", "made up"])
        await harness.article(source)
        await harness.send("PUT", "/following/topics/technology.ai", {"weight": -1})
        found = await harness.get("/topics")
        assert {each["topic"]: (each["articles"], each["weight"]) for each in found["topics"]} == {
            "sport.football": (1, None), "made up": (1, None), "technology.ai": (0, -1.0),
        }  # fmt: skip
        assert (found["counted"], found["unclassified"]) == (2, 1)
        assert await harness.send("PUT", f"/following/sources/{source}", {"weight": 1}) == {
            "topics": {"technology.ai": -1.0}, "sources": {str(source): 1.0},
        }  # fmt: skip
        await harness.send("DELETE", "/following/topics/technology.ai")
        assert (await harness.get("/following"))["topics"] == {}
        assert (await harness.get("/following", reader="somebody"))["sources"] == {}
        for path, weight in [("topics/x", 99), ("topics/x", 0), (f"sources/{source}", 99)]:
            assert (await harness.send("PUT", f"/following/{path}", {"weight": weight}, 422))["code"] == "invalid"
        await harness.send("PUT", f"/following/sources/{uuid.uuid4()}", {"weight": 1}, 404)


async def test_sources_are_changed_paused_and_deleted(database_url: str) -> None:
    async with served(database_url) as harness:
        later = NOW + timedelta(days=1)
        source = await harness.source("Feed", failures=3, last_code="timed_out", next_sync_at=later)
        article = await harness.article(source)
        [found] = (await harness.get("/sources"))["sources"]
        assert (found["health"], found["reason"]) == ("failing", "3 times in a row: it took longer than a fetch may")
        assert (found["articles_per_day"], found["failures"]) == (0.14, 3)
        path = f"/sources/{source}"
        change = {"title": "New", "topics": [" a ", "b", "a", ""], "interval_seconds": 600, "paused": True}
        found = await harness.send("PATCH", path, change)
        assert (found["title"], found["granular_topics"], found["health"]) == ("New", ["a", "b"], "paused")
        assert found["fixed_interval_seconds"] == 600
        assert found["next_sync_at"] < later.isoformat()
        assert (await harness.send("PATCH", path, {"paused": False}))["status"] == "due"
        assert (await harness.send("PATCH", path, {"interval_seconds": 0}))["fixed_interval_seconds"] is None
        for bad in ({"interval_seconds": 5}, {"topics": ["x" * 201]}, {"title": "\x00"}, {"interval_seconds": 10**9}):
            await harness.send("PATCH", path, bad, 422)
        assert (await harness.send("POST", f"{path}/sync", code=202))["status"] == "due"
        await harness.do(lambda c: c.execute(sa.update(FeedSource).values(status="fetching")).close())
        assert (await harness.send("PATCH", path, {"paused": True, "title": "No"}, 409))["code"] == "source_busy"
        assert (await harness.get(path))["title"] == "New", "nothing is changed by halves"
        await harness.send("DELETE", path, code=409)
        await harness.do(lambda c: c.execute(sa.update(FeedSource).values(status="retired")).close())
        await harness.send("DELETE", path, code=204)
        await harness.get(f"/articles/{article}", 404)
        for method in ("GET", "PATCH", "DELETE"):
            assert (await harness.send(method, path, {} if method == "PATCH" else None, 404))[
                "code"
            ] == "no_such_source"
        await harness.send("POST", f"{path}/sync", code=404)


async def test_a_source_with_many_articles_is_deleted_some_at_a_time(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rowmill_systems.articles import managing

    monkeypatch.setattr(managing, "DELETED_AT_ONCE", 2)
    async with served(database_url) as harness:
        source = await harness.source()
        for _ in range(5):
            await harness.article(source)
        await harness.send("DELETE", f"/sources/{source}", code=204)
        assert (await harness.get("/articles"))["articles"] == []


async def test_sources_are_added_by_address_and_by_list(database_url: str) -> None:
    async with served(database_url) as harness:
        given = {"url": "feeds.example/rss", "topics": ["a"], "discover": False}
        [added] = await harness.send("POST", "/sources", given, 201)
        assert (added["url"], added["created"]) == ("https://feeds.example/rss", True)
        [again] = await harness.send("POST", "/sources", given, 200)
        assert (again["id"], again["created"]) == (added["id"], False)
        assert (await harness.send("POST", "/sources", {"url": "ftp://x"}, 422))["code"] == "bad_address"
        long = {"url": "http://example.org/" + "ü" * 400}  # six bytes each, as it is sent
        assert (await harness.send("POST", "/sources", long, 422))["code"] == "address_too_long"
        listed = '<opml version="2.0"><body><outline text="A" xmlUrl="https://a.example/f"/><outline text="B" xmlUrl="https://feeds.example/rss"/></body></opml>'
        answer = await harness.client.post("/opml", content=listed)
        assert answer.json() == {"created": 1, "there_already": 1, "refused": {}}
        assert (await harness.client.post("/opml", content="no list")).json()["code"] == "bad_opml"
        exported = await harness.client.get("/opml")
        assert "https://a.example/f" in exported.text
        assert "feeds.opml" in exported.headers["content-disposition"]


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/articles", {"q": "x" * 201}), ("/articles", {"limit": 0}), ("/articles", {"source": "x"}),
        ("/articles", {"topic": "\x00"}), ("/feed", {"limit": 101}), ("/feed", {"reader": ""}),
        ("/feed", {"reader": "\x00"}), ("/articles/x", {}), ("/articles", {"since": "yesterday"}),
    ],
)  # fmt: skip
async def test_values_that_can_not_be(sqlite_url: str, path: str, parameters: dict[str, Any]) -> None:
    async with served(sqlite_url) as harness:
        assert (await harness.get(path, 422, **parameters))["code"] == "invalid"


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
async def test_times_at_the_edge_of_time(database_url: str, moment: str) -> None:
    async with served(database_url) as harness:
        for name in ("since", "until"):
            given: dict[str, Any] = {name: moment}
            assert (await harness.get("/articles", 422, **given))["code"] == "invalid"
        assert names(await harness.get("/articles", since=moment[:19], until=moment[:19])) == []


async def test_times_are_compared_in_their_zone(database_url: str) -> None:
    async with served(database_url) as harness:
        await harness.article(await harness.source(), hours=1)
        east = timezone(timedelta(hours=5))
        for hours, expected in ((2, 1), (0, 0)):
            since = (NOW - timedelta(hours=hours)).astimezone(east).isoformat()
            assert len((await harness.get("/articles", since=since))["articles"]) == expected


async def test_an_address_that_is_too_long_is_refused(database_url: str) -> None:
    long = "https://a.example/" + "".join(uuid.uuid4().hex for _ in range(110))  # no database compresses it
    async with served(database_url) as harness:
        answer = await harness.send("POST", "/sources", {"url": long, "discover": False}, 422)
        assert "2000" in str(answer)
        assert "at most 2,000 characters" in await harness.form("/subscriptions", 422, address=long)
        await harness.send("POST", "/sources", {"url": long[:2000], "discover": False}, 201)


async def test_hostile_words_stay_words(database_url: str) -> None:
    async with served(database_url) as harness:
        source = await harness.source(HOSTILE)
        article = await harness.article(source, HOSTILE, topics=[HOSTILE])
        await harness.do(lambda connection: follow(connection, {HOSTILE: 1.0}))
        assert (await harness.get("/articles", q=HOSTILE))["articles"][0]["title"] == HOSTILE
        assert (await harness.get("/articles", topic=HOSTILE))["articles"][0]["id"] == str(article)
        assert (await harness.get("/topics"))["topics"][0]["label"] == topic_name(HOSTILE)


async def answer_of(harness: ServedArticles) -> dict[str, Any]:
    found: dict[str, Any] = await harness.get("/openapi.json")
    return found


async def test_every_operation_is_described(sqlite_url: str) -> None:
    async with served(sqlite_url) as harness:
        paths = (await answer_of(harness))["paths"]
        assert {"/feed", "/articles", "/sources", "/topics", "/opml", "/admin/queue-stats"} <= set(paths)
        for path, methods in paths.items():
            for method, operation in methods.items():
                assert operation.get("description") or operation.get("summary"), f"{method} {path}"
        await harness.page("/docs")
    assert reads.STATUSES == ("pending", "processing", "completed", "failed", "cancelled")
