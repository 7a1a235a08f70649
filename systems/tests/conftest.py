"""Fixtures of all systems and parts."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Page

from demos.entities.server import Server, serving
from demos.entities.world import World, make_world
from tests.support.browser import browser_page, find_chromium


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    """A page of a real browser, where one is installed."""
    async with browser_page(find_chromium()) as opened:
        yield opened


@pytest.fixture(scope="session")
def world() -> World:
    """A made-up world of 120 things."""
    return make_world(120, seed=3)


@pytest.fixture
async def server(world: World) -> AsyncIterator[Server]:
    """A server of knowledge about that world, which misbehaves on demand."""
    async with serving(world) as server:
        yield server
