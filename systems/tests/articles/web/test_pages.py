"""A10: the pages: the feed, all articles, one article, topics, sources, the queue."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill_systems.articles.models import Content, FeedSource, ReadMark
from rowmill_systems.articles.readers import interests_of
from rowmill_systems.articles.web.shown import sanitised
from systems.tests.articles.shelf import NOW, article_row, put_request
from systems.tests.articles.web.served import HOSTILE, served
from tests.support.html import ReadPage


def titles(page: ReadPage) -> list[str]:
    return [tag.text.strip() for tag in page.all("h2")]


async def test_the_feed_shows_articles_with_topics_and_reasons(database_url: str) -> None:
    """A7, A10."""
    async with served(database_url) as harness:
        assert "No sources yet" in titles(await harness.page("/"))
        source = await harness.source("The Source", topics=["technology.ai"])
        assert "No articles yet" in titles(await harness.page("/"))
        article = await harness.article(source, "Waiting", hours=1)
        await harness.article(source, "Classified", hours=3, topics=["sport.football"])
        await harness.send("PUT", "/following/topics/sport.football")
        page = await harness.page("/")
        assert titles(page) == ["Classified (unread)", "Waiting (unread)"]
        chips = {
            tag.text: tag.attributes["class"] for tag in page.all("a") if "chip" in tag.attributes.get("class", "")
        }
        assert chips == {"Football (soccer)": "chip info", "Artificial intelligence": "chip plain stands-in"}
        reasons = [tag.text for tag in page.all("details", class_="why")]
        assert "You follow Football (soccer) (fits to 90%)" in reasons[0]
        assert "those of its source stand in" in reasons[1]
        await harness.send("PUT", f"/articles/{article}/read")
        assert titles(await harness.page("/", show="unread")) == ["Classified (unread)"]
        assert titles(await harness.page("/")) == ["Classified (unread)", "Waiting"]


async def test_pages_of_the_feed_follow_each_other(database_url: str) -> None:
    async with served(database_url) as harness:
        source = await harness.source()
        rows = [article_row(source, f"t{n}", hours=n) for n in range(50)]
        await harness.do(lambda connection: connection.execute(sa.insert(Content), rows).close())
        found, path = list[str](), "/"
        for _ in range(5):
            page = await harness.page(path)
            found += titles(page)
            following = page.all("a", rel="next")
            if not following:
                break
            path = following[0].attributes["href"]
        assert sorted(found) == sorted(f"{row['title']} (unread)" for row in rows)


async def test_an_article_is_marked_with_and_without_a_script(database_url: str) -> None:
    async with served(database_url) as harness:
        article = await harness.article(await harness.source())
        path = f"/read/{article}/mark"
        assert await harness.form(path, read="true", back="/?show=unread") == "/?show=unread"
        assert await harness.do(lambda connection: connection.scalar(sa.select(ReadMark.content_id))) == article
        page = await harness.form(path, 200, htmx=True, read="false", back="/")
        assert f'id="a-{article.hex}" class="panel article"' in page
        assert "Mark read" in page
        for elsewhere in ("https://evil.example", "//evil.example", "/\\evil.example", ""):
            assert await harness.form(path, read="true", back=elsewhere) == "/"
        await harness.form(f"/read/{uuid.uuid4()}/mark", 404, read="true")


async def test_an_article_is_shown_without_what_could_do_harm(database_url: str) -> None:
    html = (
        '<p onclick="x()">Text <a href="javascript:x()">link</a> <a href="https://ok.example">ok</a></p>'
        '<img src="https://tracker.example/p.gif" alt="A picture"><script>x()</script><style>p{}</style>'
        '<form action="https://evil.example"><input></form><p style="x" id="main" class="skip">More</p>'
    )
    async with served(database_url) as harness:
        source = await harness.source("Source")
        article = await harness.article(source, "Title", topics=["science.space"], description=html)
        page = await harness.page(f"/read/{article}")
        assert [tag.attributes["alt"] for tag in page.all("img")] == [""], "that of the head alone"
        assert [tag.attributes.get("href") for tag in page.all("a") if tag.text in ("link", "ok")] == [
            None,
            "https://ok.example",
        ]
        assert page.all("h1")[0].text == "Title"
        assert any("Space" in tag.text and "90 %" in tag.text for tag in page.all("a"))
        answer = await harness.client.get(f"/read/{article}", headers={"accept": "text/html"})
        assert "img-src 'self';" in answer.headers["content-security-policy"]
        asked = await harness.client.get(f"/read/{article}?images=true", headers={"accept": "text/html"})
        assert 'src="https://tracker.example/p.gif"' in asked.text
        assert "img-src 'self' https:;" in asked.headers["content-security-policy"]
        assert "script-src 'self';" in asked.headers["content-security-policy"]
        assert asked.headers["referrer-policy"] == "same-origin"
        assert "<script>x" not in asked.text
        await harness.page(f"/read/{uuid.uuid4()}", 404)
        await harness.form(f"/read/{article}/delete")
        await harness.page(f"/read/{article}", 404)


@pytest.mark.parametrize("html", ["<p>open", "</div></main>", "<table><tr><td>", "a < b & c", "<!-- x --><b>y", "\x00"])
def test_sanitised_html_closes_what_it_opens(html: str) -> None:
    found = str(sanitised(html))
    assert "</main>" not in found
    assert found.count("<p>") == found.count("</p>")
    assert found.count("<td>") == found.count("</td>")


async def test_all_articles_are_filtered(database_url: str) -> None:
    async with served(database_url) as harness:
        source, other = await harness.source("One"), await harness.source("Other")
        await harness.article(source, "Chips", topics=["technology.ai"])
        await harness.article(other, "Goals", hours=100)
        browse: Any = lambda **given: harness.page("/browse", **given)  # noqa: E731
        assert titles(await browse()) == ["Chips (unread)", "Goals (unread)"]
        assert titles(await browse(topic="technology.ai")) == ["Chips (unread)"]
        assert titles(await browse(topic="technology")) == ["Chips (unread)"], "a group has the articles of its topics"
        assert titles(await browse(q="goals")) == ["Goals (unread)"]
        assert titles(await browse(source=str(other))) == ["Goals (unread)"]
        assert titles(await browse(classified="no")) == ["Goals (unread)"]
        today = (NOW - timedelta(days=1)).date().isoformat()
        assert titles(await browse(since=today)) == ["Chips (unread)"]
        assert titles(await browse(until=today, since="nonsense")) == ["Goals (unread)"]
        assert titles(await browse(q="nothing like it")) == ["No such article"]
        await harness.page("/browse", 404, source="nonsense")
        await harness.page("/browse", 404, after="nonsense")


async def test_topics_are_followed_on_their_page(database_url: str) -> None:
    async with served(database_url) as harness:
        await harness.article(await harness.source(), topics=["made up"])
        page = await harness.page("/interests")
        assert "Made up" in " ".join(titles(page))
        assert await harness.form("/interests", topic="technology", choice="follow") == "/interests"
        assert await harness.form("/interests", topic="sport", choice="less", back="/browse?topic=sport")
        found = await harness.do(interests_of)
        assert found.topics == {"technology": 1.0, "sport": -1.0}
        pressed = [
            tag.attributes["aria-label"]
            for tag in (await harness.page("/interests")).all("button", aria_pressed="true")
        ]
        assert pressed == ["Follow Technology", "Less of Sport"]
        await harness.form("/interests", topic="technology", choice="neither")
        assert (await harness.do(interests_of)).topics == {"sport": -1.0}
        assert "Not done" in await harness.form("/interests", 422, topic=" ", choice="follow")


async def test_sources_and_their_health(database_url: str) -> None:
    async with served(database_url) as harness:
        assert "No sources yet" in titles(await harness.page("/subscriptions"))
        source = await harness.source("Bad one", failures=2, last_code="http_404", last_status=404)
        fresh = {"last_success_at": NOW, "last_new_at": NOW}
        await harness.source("Good one", **fresh)
        page = await harness.page("/subscriptions")
        text = " ".join(tag.text for tag in page.all("td"))
        assert "Twice in a row: there is no feed at this address (404)" in text
        assert {tag.text for tag in page.all("span") if tag.attributes.get("class", "").startswith("chip")} == {
            "failing", "ok",
        }  # fmt: skip
        failing = await harness.page("/subscriptions", show="failing")
        assert [tag.text for tag in failing.all("a") if tag.text.endswith(" one")] == ["Bad one"]
        path = f"/subscriptions/{source}"
        await harness.page(path)
        assert await harness.form(path, choice="save", title="Better", topics="a, b,", minutes="30") == path
        row = await harness.get(f"/sources/{source}")
        assert (row["title"], row["granular_topics"], row["fixed_interval_seconds"]) == ("Better", ["a", "b"], 1800)
        assert "number of minutes" in await harness.form(path, 422, choice="save", minutes="often")
        await harness.form(path, choice="pause")
        assert (await harness.get(f"/sources/{source}"))["status"] == "paused"
        await harness.form(path, choice="fetch")
        assert (await harness.get(f"/sources/{source}"))["status"] == "due"
        await harness.form(path, choice="more")
        assert (await harness.do(interests_of)).sources == {str(source): 1.0}
        await harness.do(lambda c: c.execute(sa.update(FeedSource).values(status="fetching")).close())
        assert "being fetched" in await harness.form(path, 409, choice="pause")
        assert "no such choice" in await harness.form(path, 422, choice="sell")
        await harness.do(lambda c: c.execute(sa.update(FeedSource).values(status="idle")).close())
        assert await harness.form(path, choice="delete") == "/subscriptions"
        await harness.page(path, 404)
        await harness.form(path, 404, choice="pause")


async def test_an_address_that_is_none_and_a_list(sqlite_url: str) -> None:
    async with served(sqlite_url) as harness:
        assert "Not added" in await harness.form("/subscriptions", 422, address="ftp://x")
        assert "Not added: write an address" in await harness.form("/subscriptions", 422, address=" ")
        listed = b'<opml><body><outline text="A" xmlUrl="https://a.example/f"/></body></opml>'
        answer = await harness.client.post("/subscriptions/opml", files={"file": ("feeds.opml", listed)})
        assert answer.headers["location"] == "/subscriptions?added=1+added"
        assert "https://a.example/f" in " ".join(tag.text for tag in (await harness.page("/subscriptions")).all("td"))
        bad = await harness.client.post(
            "/subscriptions/opml", files={"file": ("x", b"no")}, headers={"accept": "text/html"}
        )
        assert bad.status_code == 422
        assert "Not added" in bad.text


async def test_the_queue_is_shown_and_requeued(database_url: str) -> None:
    async with served(database_url) as harness:
        source = await harness.source()
        failed = await harness.article(source, "Failed one")
        request = await harness.do(lambda c: put_request(c, failed, "failed", error_message="too_long: it is too long"))
        waiting = await harness.article(source, "Waiting one")
        await harness.do(lambda c: put_request(c, waiting))
        page = await harness.page("/queue")
        assert [tag.text for tag in page.all("dd")] == ["1", "0", "0", "1", "0"]
        assert "too_long" in " ".join(tag.text for tag in page.all("td"))
        assert page.all("div", id="live")[0].attributes["hx-trigger"] == "every 2s"
        assert await harness.form(f"/queue/{request}/requeue") == "/queue"
        assert "Waiting one" in " ".join(tag.text for tag in (await harness.page("/queue", status="pending")).all("a"))
        await harness.form("/queue/requeue")
        assert (await harness.get("/admin/queue-stats"))["pending"] == 2
        await harness.form(f"/queue/{uuid.uuid4()}/requeue", 409)
        await harness.page("/queue", 404, status="nonsense")


async def test_hostile_words_stay_words_on_every_page(sqlite_url: str) -> None:
    async with served(sqlite_url) as harness:
        source = await harness.source(HOSTILE, topics=[HOSTILE], failures=1, last_code=HOSTILE[:60])
        article = await harness.article(
            source, HOSTILE, author=HOSTILE, text=HOSTILE, topics=[HOSTILE], description=HOSTILE,
            url="javascript:alert(1)",
        )  # fmt: skip
        await harness.do(lambda c: put_request(c, article, "failed", error_message=HOSTILE))
        for path in (
            "/",
            "/browse",
            f"/read/{article}",
            "/interests",
            "/subscriptions",
            f"/subscriptions/{source}",
            "/queue",
        ):
            await harness.page(path)
        await harness.page("/browse", q=HOSTILE, topic=HOSTILE, since=HOSTILE)
        await harness.page("/subscriptions", added=HOSTILE)


@pytest.mark.parametrize("value", ["no json", '["\\ud800 half"]', '["a\\u0000b"]', "[NaN]", '{"a": 1}', '"text"', "[["])
async def test_one_bad_value_of_another_program_breaks_no_page(sqlite_url: str, value: str) -> None:
    """SQLite checks no JSON."""
    async with served(sqlite_url) as harness:
        source = await harness.source("Source", topics=["technology.ai"])
        article = await harness.article(source, "Bad", hours=2)
        await harness.article(source, "Good", hours=1, topics=["technology.ai"])
        change = sa.text("UPDATE contents SET topics = :value, topic_scores = :value WHERE title = 'Bad'")
        await harness.do(lambda connection: connection.execute(change, {"value": value}).close())
        for path in ("/", "/browse", f"/read/{article}", "/interests", "/subscriptions"):
            await harness.page(path)
        assert len((await harness.get("/feed"))["articles"]) == 2
        assert len((await harness.get("/articles"))["articles"]) == 2
        assert [each["title"] for each in (await harness.get("/articles", topic="technology.ai"))["articles"]] == [
            "Good"
        ]
        assert (await harness.get(f"/articles/{article}/why"))["why"]
        found = {each["topic"]: each["articles"] for each in (await harness.get("/topics"))["topics"]}
        assert found["technology.ai"] == 1
        await harness.page("/browse", topic="technology.ai")
