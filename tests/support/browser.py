"""A page of a real Chromium, or a skip that says why there is none.

async with browser_page(find_chromium()) as page:
    await page.goto(...)
"""

import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
from playwright.async_api import Browser, ConsoleMessage, Error, Page, async_playwright, expect

NAMES = ("chromium", "chromium-browser", "google-chrome")
START_SECONDS = 80.0
"""Seconds to wait for Chromium on a busy machine. Less than a whole test may take."""
EXPECT_SECONDS = 30.0
REFUSED = re.compile(r"status of (409|422) ")
_broken: dict[str, str] = {}
"""Why a Chromium did not start. Each is tried once per run, since the wait is long."""


def find_chromium() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@asynccontextmanager
async def browser_page(executable: str | None, seconds: float = START_SECONDS) -> AsyncIterator[Page]:
    """Open a page that must not report any error but a refusal. Skips the test if this Chromium does not start."""
    if executable is None:
        pytest.skip(f"there is no Chromium on the PATH ({', '.join(NAMES)})")
    if executable in _broken:
        pytest.skip(_broken[executable])
    expect.set_options(timeout=EXPECT_SECONDS * 1000)
    async with async_playwright() as driver:
        launch = partial(driver.chromium.launch, executable_path=executable, args=["--no-sandbox"])
        try:
            browser: Browser = await launch(timeout=seconds * 1000)
            opened = await browser.new_page()
        except Error as error:
            _broken[executable] = f"{executable} does not start: {_reason(error)}"
            pytest.skip(_broken[executable])
        problems: list[str] = []

        def listen(said: ConsoleMessage) -> None:
            if said.type == "error":
                problems.append(said.text)

        opened.on("pageerror", lambda error: problems.append(str(error)))
        opened.on("console", listen)
        try:
            yield opened
            unexpected = [one for one in problems if not REFUSED.search(one)]
            assert not unexpected, unexpected
        finally:
            await browser.close()


def _reason(error: Error) -> str:
    """Return what the browser itself printed, or else the driver's message."""
    lines = error.message.splitlines() or [type(error).__name__]
    said = [line.split("[err]", 1)[1].strip() for line in lines if "[err]" in line]
    return (said or lines)[0]
