"""The pages in a real browser, where one is installed: watch, decide, queue again."""

from playwright.async_api import Page, expect

from systems.tests.entities.house import Sage
from systems.tests.entities.served import served


def sage() -> Sage:
    found = Sage()
    found.learn("Ada Lovelace", "Q7259", birth_date="1815-12-10")
    return found


ADA = {"name": "Ada Lovelace", "entity_type": "person", "properties": {"birth_date": "1816"}}


async def test_the_pipeline_is_watched_and_a_conflict_decided(sqlite_url: str, page: Page) -> None:
    async with served(sqlite_url, sage()) as house:
        [id] = await house.put_all(ADA)
        await page.goto(str(house.client.base_url))
        await expect(page.locator(".stages li li", has_text="pending").locator(".number")).to_have_text("1")
        await house.drain()
        await expect(page.locator(".stages li li", has_text="complete").locator(".number")).to_have_text("1")
        await page.get_by_role("link", name="Open conflicts").click()
        await page.get_by_role("link", name="Ada Lovelace").click()
        await page.get_by_placeholder("1815-12-10").fill("1815-12")
        await page.get_by_role("button", name="Take this").click()
        await expect(page.locator("li.decided")).to_contain_text("1815-12")
        assert await house.merged(id) == {"birth_date": ["1815-12"]}
        await page.get_by_role("button", name="Link and enrich again").click()
        await expect(page.locator(".meta .chip")).to_have_text("pending")


async def test_who_comes_second_is_told_and_sees_what_was_decided(sqlite_url: str, page: Page) -> None:
    async with served(sqlite_url, sage()) as house:
        [id] = await house.put_all(ADA)
        await house.drain()
        await page.goto(f"{house.client.base_url}/browse/{id}")
        [conflict] = await house.conflicts(id)
        await house.client.post(f"/conflicts/{conflict.id}/decide", json={"choice": "other"})
        await page.get_by_role("button", name="Keep 1816").click()
        await expect(page.locator("#toasts")).to_contain_text("it is decided by now")
        await expect(page.locator("li.decided")).to_contain_text("1815-12-10")
