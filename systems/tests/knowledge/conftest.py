"""Databases with the tables of knowledge, and a system on each."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from rowmill_systems.knowledge.knowledge import Knowledge
from systems.tests.knowledge.harness import HashEmbedder, knowledge_on, settings_for
from tests.support.databases import Prepare


def install(url: str) -> None:
    """Create the tables of Rowmill and of knowledge."""
    with TemporaryDirectory() as folder:
        asyncio.run(Knowledge(settings_for(url, Path(folder)), embedder=HashEmbedder()).migrate())


@pytest.fixture(scope="session")
def prepare() -> Prepare:
    return install


@pytest.fixture
async def knowledge(database_url: str, tmp_path: Path) -> AsyncIterator[Knowledge]:
    """The system on a database with its tables, with stores in a folder and a model of the tests."""
    async with knowledge_on(database_url, tmp_path) as opened:
        yield opened
