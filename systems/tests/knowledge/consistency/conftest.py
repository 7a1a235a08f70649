"""A knowledge base with two documents that are ready, and nothing in flight."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from systems.tests.knowledge.consistency.damage import Library, library_on


@pytest.fixture
async def library(database_url: str, tmp_path: Path) -> AsyncIterator[Library]:
    async with library_on(database_url, tmp_path) as opened:
        yield opened
