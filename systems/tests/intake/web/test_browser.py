"""The pages in a real browser, where one is installed: upload, watch, review."""

from pathlib import Path

from playwright.async_api import Page, expect

from rowmill.testing import QUICK
from systems.tests.intake.served import Served, served

PAPER = b"Invoice number: 4711\nInvoice date: 2026-03-31\nWarehouse: north\n"


async def upload(house: Served, page: Page) -> None:
    await page.goto(f"{house.client.base_url}/review/1/1")
    await page.set_input_files("input[type=file]", {"name": "a.txt", "mimeType": "text/plain", "buffer": PAPER})
    await page.get_by_role("button", name="Upload").click()
    await expect(page.locator("table.list .state")).to_have_text("queued")


async def test_a_file_is_uploaded_watched_and_reviewed(sqlite_url: str, tmp_path: Path, page: Page) -> None:
    async with served(sqlite_url, tmp_path) as house:
        await upload(house, page)
        await house.mill.drain(settings=QUICK)
        await expect(page.locator("table.list .state")).to_have_text("completed")
        await page.get_by_role("link", name="a.txt").click()
        number = page.locator("li", has_text="Invoice number")
        await number.click()
        await expect(page.locator("pre mark")).to_have_text("4711")
        await number.get_by_role("button", name="Apply").click()
        await expect(page.locator("li.applied")).to_have_count(1)
        assert ("invoice_number", "4711", "applied") in await house.suggestions(1)


async def test_who_comes_second_is_told(sqlite_url: str, tmp_path: Path, page: Page) -> None:
    async with served(sqlite_url, tmp_path) as house:
        await upload(house, page)
        await house.mill.drain(settings=QUICK)
        await page.goto(f"{house.client.base_url}/review/1/1/files/1")
        number = page.locator("li", has_text="Invoice number")
        await expect(number).to_be_visible()
        [first, *_] = await house.suggestion_ids(1)
        await house.client.post(f"/organizations/1/projects/1/files/1/suggestions/{first}/reject")
        await number.get_by_role("button", name="Apply").click()
        await expect(page.locator("#said")).to_contain_text("rejected by now")
        await expect(page.locator("li.rejected")).to_have_count(1)
