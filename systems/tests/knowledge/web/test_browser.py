"""The pages in a real browser, where one is installed: log in, upload, watch, confirm; on a phone; without a script."""

from pathlib import Path
from uuid import UUID

from playwright.async_api import FilePayload, Page, expect

from rowmill_systems.knowledge.names import collection_of
from rowmill_systems.knowledge.web.comparing import job_of
from systems.tests.knowledge.harness import drain, sql
from systems.tests.knowledge.web.served import ADMINISTRATOR, PASSWORD, ServedKnowledge, served

LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerk" * 3
PAPER = b"# Cranes\n\nA crane lifts heavy loads.\n"


async def log_in(harness: ServedKnowledge, page: Page, to: str = "/") -> None:
    await harness.login(ADMINISTRATOR)
    await page.goto(f"{harness.client.base_url}{to}")
    await page.get_by_label("Email").fill("administrator@example.org")
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Log in").click()


async def test_a_base_is_created_filled_watched_and_deleted(sqlite_url: str, tmp_path: Path, page: Page) -> None:
    async with served(sqlite_url, tmp_path, on_network=True) as harness:
        await log_in(harness, page)
        await page.get_by_role("button", name="New knowledge base").focus()
        await page.keyboard.press("Space")
        await page.locator("dialog[open]").get_by_label("Name").fill("Papers")
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/bases/*")
        given = {"a.md": PAPER, "b.md": PAPER, "c.md": b""}
        files: list[FilePayload] = [
            {"name": name, "mimeType": "text/plain", "buffer": content} for name, content in given.items()
        ]
        await page.set_input_files("input[type=file]", files)
        await page.get_by_role("button", name="Upload").click()
        await expect(page.locator("[data-uploads] .error")).to_have_text("c.md: there is nothing in the file")
        await expect(page.locator("table.list .chip")).to_have_text(["pending", "pending"])
        await drain(harness.knowledge)
        await expect(page.locator("table.list .chip")).to_have_text(["ready", "ready"])
        await page.get_by_role("button", name="Delete").click()
        confirm = page.locator("dialog[open]")
        await confirm.get_by_role("textbox").fill("papers")
        await confirm.get_by_role("button", name="Delete it all").click()
        await expect(confirm).to_be_visible()
        await confirm.get_by_role("textbox").fill("Papers")
        await confirm.get_by_role("button", name="Delete it all").click()
        await expect(page.get_by_role("heading", name="No knowledge bases yet")).to_be_visible()


async def test_the_stores_are_mended_after_a_preview(sqlite_url: str, tmp_path: Path, page: Page) -> None:
    async with served(sqlite_url, tmp_path, on_network=True, grace_seconds=0) as harness:
        kb_id = await harness.kb()
        id = await harness.document(kb_id, PAPER, "lost.md")
        await harness.knowledge.vectors.delete(collection_of(UUID(kb_id)), UUID(id))
        await log_in(harness, page, "/consistency")
        await page.get_by_role("button", name="Check now").click()
        await job_of(harness.app).finished()
        await expect(page.locator(".plan")).to_contain_text("lost.md")
        await page.get_by_role("button", name="Mend…").click()
        await expect(page.locator("dialog[open]")).to_contain_text("1 × Ready without vectors")
        await page.locator("dialog[open]").get_by_role("button", name="Mend").click()
        await expect(page.locator("#live")).to_contain_text("1 event written to mend what was found")


async def test_pages_fit_a_phone(sqlite_url: str, tmp_path: Path, page: Page) -> None:
    async with served(sqlite_url, tmp_path, on_network=True) as harness:
        kb_id = await harness.kb(LONG)
        id = await harness.document(kb_id, f"# {LONG}\n\n{LONG}\n".encode(), f"{LONG}.md")
        change = "UPDATE documents SET last_error = :text, error_code = 'timeout', title = :text"
        await sql(harness.knowledge, change, text=LONG)
        await sql(harness.knowledge, "UPDATE outbox SET state = 'dead', attempts = 5, last_error = :text", text=LONG)
        await page.set_viewport_size({"width": 390, "height": 800})
        await log_in(harness, page)
        paths = ("/", f"/bases/{kb_id}", f"/documents/{id}?look=1", f"/search?q={LONG}", "/consistency", "/outbox",
                 "/outbox/1", "/people", "/account", "/docs")  # fmt: skip
        for path in paths:
            await page.goto(f"{harness.client.base_url}{path}")
            assert await page.evaluate("document.documentElement.scrollWidth") <= 390, path


async def test_a_dialog_opens_without_a_script(sqlite_url: str, tmp_path: Path, page: Page) -> None:
    async with served(sqlite_url, tmp_path, on_network=True) as harness:
        browser = page.context.browser
        assert browser is not None
        plain = await (await browser.new_context(java_script_enabled=False)).new_page()
        await log_in(harness, plain)
        await plain.get_by_role("button", name="New knowledge base").click()
        await plain.locator("dialog").get_by_label("Name").fill("Papers")
        await plain.locator("dialog").get_by_role("button", name="Create").click()
        await plain.set_input_files("input[type=file]", {"name": "a.md", "mimeType": "text/plain", "buffer": PAPER})
        await plain.get_by_role("button", name="Upload").click()
        await expect(plain.locator("table.list .chip")).to_have_text("pending")
