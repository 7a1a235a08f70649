"""The pages in a real browser, where one is installed: upload, watch, review."""

from pathlib import Path

from playwright.async_api import Page, expect

from rowmill.testing import QUICK
from systems.tests.intake.served import Served, served

PAPER = b"Invoice number: 4711\nInvoice date: 2026-03-31\nWarehouse: north\n"


async def upload(harness: Served, page: Page) -> None:
    await page.goto(f"{harness.client.base_url}/review/1/1")
    await page.set_input_files("input[type=file]", {"name": "a.txt", "mimeType": "text/plain", "buffer": PAPER})
    await page.get_by_role("button", name="Upload").click()
    await expect(page.locator("table.list .chip")).to_have_text("queued")


async def test_a_file_is_uploaded_watched_and_reviewed(sqlite_url: str, tmp_path: Path, page: Page) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        await upload(harness, page)
        await harness.mill.drain(settings=QUICK)
        await expect(page.locator("table.list .chip")).to_have_text("completed")
        await page.get_by_role("link", name="a.txt").click()
        number = page.locator("li.suggestion", has_text="Invoice number")
        await number.click()
        await expect(page.locator("pre mark")).to_have_text("4711")
        await number.get_by_role("button", name="Apply", exact=True).click()
        await expect(page.locator("li.applied")).to_have_count(1)
        await expect(page.locator("pre mark")).to_have_text("4711")
        assert ("invoice_number", "4711", "applied") in await harness.suggestions(1)


async def test_who_comes_second_is_told(sqlite_url: str, tmp_path: Path, page: Page) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        await upload(harness, page)
        await harness.mill.drain(settings=QUICK)
        await page.goto(f"{harness.client.base_url}/review/1/1/files/1")
        number = page.locator("li.suggestion", has_text="Invoice number")
        await expect(number).to_be_visible()
        [first, *_] = await harness.suggestion_ids(1)
        await harness.client.post(f"/organizations/1/projects/1/files/1/suggestions/{first}/reject")
        await number.get_by_role("button", name="Apply", exact=True).click()
        await expect(page.locator("#toasts")).to_contain_text("rejected by now")
        await expect(page.locator("li.rejected")).to_have_count(1)


async def test_a_value_is_edited_and_the_decision_undone(sqlite_url: str, tmp_path: Path, page: Page) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        await upload(harness, page)
        await harness.mill.drain(settings=QUICK)
        await page.goto(f"{harness.client.base_url}/review/1/1/files/1")
        number = page.locator("li.suggestion", has_text="Invoice number")
        await number.get_by_text("Edit").click()
        await number.get_by_label("Value").fill("4712")
        await number.get_by_role("button", name="Apply this").click()
        await expect(page.locator("li.applied .found")).to_have_text("4712")
        await page.get_by_role("link", name="All fields of the project").click()
        await expect(page.locator("td strong")).to_have_text("4712")
        await page.get_by_role("button", name="Undo").click()
        await expect(page.get_by_text("Nothing applied yet")).to_be_visible()
        assert ("invoice_number", "4711", "pending") in await harness.suggestions(1)


async def test_pages_fit_a_phone_and_keep_the_theme_that_was_chosen(
    sqlite_url: str, tmp_path: Path, page: Page
) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        await harness.put(PAPER, name=f"{'long' * 40}.txt")
        await harness.mill.drain(settings=QUICK)
        await page.set_viewport_size({"width": 390, "height": 800})
        for path in ("/", "/review/1/1", "/review/1/1/files/1", "/review/1/1/fields", "/looked-for", "/docs"):
            await page.goto(f"{harness.client.base_url}{path}")
            assert await page.evaluate("document.documentElement.scrollWidth") <= 390, path
        await page.get_by_role("button", name="Switch between light and dark").click()
        await page.goto(f"{harness.client.base_url}/")
        assert await page.evaluate("document.documentElement.dataset.theme") == "dark"


async def test_the_keyboard_searches_and_moves_through_a_list(sqlite_url: str, tmp_path: Path, page: Page) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        for name in ("first.txt", "second.txt"):
            await harness.put(PAPER, name=name)
        await page.goto(f"{harness.client.base_url}/review/1/1")
        await page.keyboard.press("j")
        await expect(page.get_by_role("link", name="second.txt")).to_be_focused()
        await page.keyboard.press("/")
        await page.keyboard.type("FIRST")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/review/1/1?q=FIRST")
        await expect(page.locator("td.main a")).to_have_text(["first.txt"])
