"""The pages in a real browser, where one is installed: watch, decide, queue again."""

import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Page, async_playwright, expect

from tests.systems.entities.house import Sage
from tests.systems.entities.served import served

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no chromium on the PATH")
LONG = 30_000
"""Milliseconds: a busy machine takes its time."""


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    expect.set_options(timeout=LONG)
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        try:
            opened = await browser.new_page()
            problems: list[str] = []
            opened.on("pageerror", lambda error: problems.append(str(error)))
            opened.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
            yield opened
            assert [one for one in problems if "409" not in one] == []
        finally:
            await browser.close()


def sage() -> Sage:
    found = Sage()
    found.learn("Ada Lovelace", "Q7259", birth_date="1815-12-10")
    return found


ADA = {"name": "Ada Lovelace", "entity_type": "person", "properties": {"birth_date": "1816"}}


async def test_the_pipeline_is_watched_and_a_conflict_decided(sqlite_url: str, page: Page) -> None:
    async with served(sqlite_url, sage()) as house:
        [id] = await house.put_all(ADA)
        await page.goto(str(house.client.base_url))
        await expect(page.locator("p", has_text="PENDING").locator(".number")).to_have_text("1")
        await house.drain()
        await expect(page.locator("p", has_text="COMPLETE").locator(".number")).to_have_text("1")
        await page.get_by_role("link", name="open conflicts").click()
        await page.get_by_role("link", name="Ada Lovelace").click()
        await page.get_by_placeholder("1815-12-10").fill("1815-12")
        await page.get_by_role("button", name="Take this").click()
        await expect(page.locator("li.decided")).to_contain_text("1815-12")
        assert await house.merged(id) == {"birth_date": ["1815-12"]}
        await page.get_by_role("button", name="Link and enrich again").click()
        await expect(page.locator(".state").first).to_have_text("PENDING")


async def test_who_comes_second_is_told_and_sees_what_was_decided(sqlite_url: str, page: Page) -> None:
    async with served(sqlite_url, sage()) as house:
        [id] = await house.put_all(ADA)
        await house.drain()
        await page.goto(f"{house.client.base_url}/browse/{id}")
        [conflict] = await house.conflicts(id)
        await house.client.post(f"/conflicts/{conflict.id}/decide", json={"choice": "other"})
        await page.get_by_role("button", name="Keep 1816").click()
        await expect(page.locator("#said")).to_contain_text("it is decided by now")
        await expect(page.locator("li.decided")).to_contain_text("1815-12-10")
