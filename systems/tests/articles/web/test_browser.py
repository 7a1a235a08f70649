"""The pages in a real browser, where one is installed: read, mark, follow, add a list, watch the queue."""

import sqlalchemy as sa
from playwright.async_api import Page, expect

from rowmill_systems.articles.models import ClassificationRequest, Content, ReadMark
from rowmill_systems.articles.readers import interests_of
from systems.tests.articles.shelf import put_request
from systems.tests.articles.web.served import ServedArticles, served

LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerk" * 3


async def marks(harness: ServedArticles) -> int:
    return await harness.do(lambda c: c.scalar(sa.select(sa.func.count()).select_from(ReadMark)) or 0)


async def test_marking_an_article_changes_it_alone_and_reading_it_marks_it(sqlite_url: str, page: Page) -> None:
    async with served(sqlite_url) as harness:
        source = await harness.source("Source", topics=["technology.ai"])
        for number in range(3):
            await harness.article(source, f"Number {number}", hours=number)
        await page.goto(str(harness.client.base_url))
        first = page.locator(".article").first
        await first.get_by_text("Why am I seeing this?").click()
        await expect(first.locator(".why li").first).to_be_visible()
        await first.get_by_role("button", name="Mark read").click()
        await expect(first.get_by_role("button", name="Mark unread")).to_be_visible()
        await expect(first).to_contain_text("Number 0")
        assert await marks(harness) == 1
        await page.get_by_role("link", name="Number 1").click()
        button = page.locator("#mark button")
        await expect(button).to_have_text("Mark unread")
        assert await marks(harness) == 2
        await button.click()
        await expect(button).to_have_text("Mark read")
        assert await marks(harness) == 1


async def test_a_topic_is_followed_by_the_keyboard(sqlite_url: str, page: Page) -> None:
    async with served(sqlite_url) as harness:
        await page.goto(f"{harness.client.base_url}/interests")
        follow = page.get_by_role("button", name="Follow Artificial intelligence")
        await follow.focus()
        await page.keyboard.press("Enter")
        await expect(follow).to_have_attribute("aria-pressed", "true")
        assert (await harness.do(interests_of)).topics == {"technology.ai": 1.0}
        await page.goto(f"{harness.client.base_url}/browse")
        await page.keyboard.press("/")
        await expect(page.get_by_role("searchbox")).to_be_focused()


async def test_a_list_is_uploaded_and_a_source_paused(sqlite_url: str, page: Page) -> None:
    async with served(sqlite_url) as harness:
        await page.goto(f"{harness.client.base_url}/subscriptions")
        listed = b'<opml><body><outline text="First" xmlUrl="https://a.example/f"/></body></opml>'
        await page.locator("input[type=file]").set_input_files(
            {"name": "feeds.opml", "mimeType": "text/xml", "buffer": listed}
        )
        await page.get_by_role("button", name="Add all of the list").click()
        await expect(page.get_by_role("status").first).to_contain_text("1 added")
        await page.get_by_role("link", name="First", exact=True).click()
        await page.get_by_role("button", name="Pause").click()
        await expect(page.locator(".panel .chip").first).to_have_text("paused")
        await page.get_by_role("button", name="Resume").click()
        await expect(page.locator(".facts dd").first).to_have_text("due")


async def test_the_queue_is_watched(sqlite_url: str, page: Page) -> None:
    async with served(sqlite_url) as harness:
        article = await harness.article(await harness.source())
        await harness.do(lambda c: put_request(c, article))
        await page.goto(f"{harness.client.base_url}/queue")
        pending = page.locator(".figure", has_text="Pending").locator("dd")
        await expect(pending).to_have_text("1")
        await harness.do(lambda c: c.execute(sa.update(ClassificationRequest).values(status="completed")).close())
        await expect(pending).to_have_text("0")


async def test_pages_fit_a_phone(sqlite_url: str, page: Page) -> None:
    async with served(sqlite_url) as harness:
        source = await harness.source(LONG, topics=[LONG], failures=1, last_code="http_503", last_status=503)
        html = f"<p>{LONG}</p><pre>{LONG}</pre><table><tr><td>{LONG}</td></tr></table>"
        article = await harness.article(source, LONG, text=LONG, author=LONG, topics=[LONG], description=html)
        await harness.do(lambda c: put_request(c, article, "failed", error_message=LONG))
        await page.set_viewport_size({"width": 390, "height": 800})
        paths = (
            "/",
            "/browse",
            f"/read/{article}",
            "/interests",
            "/subscriptions",
            f"/subscriptions/{source}",
            "/queue",
        )
        for path in (*paths, "/docs"):
            await page.goto(f"{harness.client.base_url}{path}")
            assert await page.evaluate("document.documentElement.scrollWidth") <= 390, path


async def test_images_of_an_article_are_not_asked_for_unless_wanted(sqlite_url: str, page: Page) -> None:
    async with served(sqlite_url) as harness:
        article = await harness.article(
            await harness.source(), description='<p>Text</p><img src="https://t.example/i.png">'
        )
        asked: list[str] = []
        await page.route(
            "https://t.example/**", lambda route: route.fulfill(status=200, body=b"", content_type="image/png")
        )
        page.on("request", lambda request: asked.append(request.url) if "t.example" in request.url else None)
        await page.goto(f"{harness.client.base_url}/read/{article}")
        await expect(page.locator(".prose")).to_contain_text("Text")
        assert asked == []
        await page.get_by_role("link", name="Show images").click()
        await expect(page.locator(".prose img")).to_have_count(1)
        await page.wait_for_load_state("networkidle")  # the read mark too: a server that stops before is an error
        assert asked == ["https://t.example/i.png"]
        assert await harness.do(lambda c: c.scalar(sa.select(sa.func.count()).select_from(Content))) == 1
