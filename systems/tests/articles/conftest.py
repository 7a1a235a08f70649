"""Databases with the tables of articles."""

import asyncio

import pytest

from rowmill_systems.articles.articles import Articles
from systems.tests.articles.harness import settings_for
from tests.support.databases import Prepare


def install(url: str) -> None:
    """Create the tables of Rowmill and of articles."""
    asyncio.run(Articles(settings_for(url)).migrate())


@pytest.fixture(scope="session")
def prepare() -> Prepare:
    return install
