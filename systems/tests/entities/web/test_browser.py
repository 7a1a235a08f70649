"""The pages in a real browser, where one is installed: watch, decide, queue again."""

from playwright.async_api import Page, expect

from systems.tests.entities.harness import FakeSource
from systems.tests.entities.served import served


def fake_source() -> FakeSource:
    found = FakeSource()
    found.learn("Ada Lovelace", "Q7259", birth_date="1815-12-10")
    return found


ADA = {"name": "Ada Lovelace", "entity_type": "person", "properties": {"birth_date": "1816"}}


async def test_the_pipeline_is_watched_and_a_conflict_decided(sqlite_url: str, page: Page) -> None:
    async with served(sqlite_url, fake_source()) as harness:
        [id] = await harness.put_all(ADA)
        await page.goto(str(harness.client.base_url))
        await expect(page.locator(".stages li li", has_text="pending").locator(".number")).to_have_text("1")
        await harness.drain()
        await expect(page.locator(".stages li li", has_text="complete").locator(".number")).to_have_text("1")
        await page.get_by_role("link", name="Open conflicts").click()
        await page.get_by_role("link", name="Ada Lovelace").click()
        await page.get_by_placeholder("1815-12-10").fill("1815-12")
        await page.get_by_role("button", name="Take this").click()
        await expect(page.locator("li.decided")).to_contain_text("1815-12")
        assert await harness.merged(id) == {"birth_date": ["1815-12"]}
        await page.get_by_role("button", name="Link and enrich again").click()
        await expect(page.locator(".meta .chip")).to_have_text("pending")


async def test_who_comes_second_is_told_and_sees_what_was_decided(sqlite_url: str, page: Page) -> None:
    async with served(sqlite_url, fake_source()) as harness:
        [id] = await harness.put_all(ADA)
        await harness.drain()
        await page.goto(f"{harness.client.base_url}/browse/{id}")
        [conflict] = await harness.conflicts(id)
        await harness.client.post(f"/conflicts/{conflict.id}/decide", json={"choice": "other"})
        await page.get_by_role("button", name="Keep 1816").click()
        await expect(page.locator("#toasts")).to_contain_text("it is decided by now")
        await expect(page.locator("li.decided")).to_contain_text("1815-12-10")


POLL = """() => new Promise((answer) => {
  document.addEventListener("htmx:before:request", (event) => answer(event.defaultPrevented), { once: true });
  document.getElementById("live").dispatchEvent(new CustomEvent("every"));
})"""
"""Ask for the live part as a timer does. Answers whether it was left alone."""


async def test_a_page_that_somebody_writes_in_is_left_alone_and_then_goes_on(sqlite_url: str, page: Page) -> None:
    async with served(sqlite_url, fake_source()) as harness:
        [id] = await harness.put_all(ADA)
        await page.goto(f"{harness.client.base_url}/browse/{id}")
        field = page.get_by_placeholder("Q42")
        await field.fill("Q7259")
        assert await page.evaluate(POLL) is True
        await harness.drain()
        await expect(page.locator(".meta .chip")).to_have_text("pending")
        await field.blur()
        assert await page.evaluate(POLL) is True  # it was not sent yet
        await field.clear()
        await field.blur()
        await expect(page.locator(".meta .chip")).to_have_text("complete")
        assert await page.locator("#live").get_attribute("hx-trigger") is None


async def test_pages_fit_a_phone(sqlite_url: str, page: Page) -> None:
    async with served(sqlite_url, fake_source()) as harness:
        long = {"name": "Donaudampfschifffahrtselektrizitätenhauptbetriebswerk" * 3, "context": "x" * 300}
        [id, other] = await harness.put_all(ADA, long)
        await harness.drain()
        await page.set_viewport_size({"width": 390, "height": 800})
        for path in ("/", "/browse", f"/browse/{id}", f"/browse/{other}", "/review-conflicts", "/docs"):
            await page.goto(f"{harness.client.base_url}{path}")
            assert await page.evaluate("document.documentElement.scrollWidth") <= 390, path


async def test_a_dialog_adds_an_entity(sqlite_url: str, page: Page) -> None:
    async with served(sqlite_url, fake_source()) as harness:
        await page.goto(f"{harness.client.base_url}/browse")
        await page.get_by_role("button", name="Add an entity").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Name").fill("Grace Hopper")
        await dialog.get_by_role("button", name="Add", exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Grace Hopper")
