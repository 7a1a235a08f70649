"""Fixtures of all systems."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Page

from tests.support.browser import browser_page, find_chromium


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    """A page of a real browser, where one is installed."""
    async with browser_page(find_chromium()) as opened:
        yield opened
