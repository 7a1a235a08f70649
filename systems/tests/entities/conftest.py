"""Databases with the tables of entities."""

import asyncio

import pytest

from rowmill_systems.entities.entities import Entities
from rowmill_systems.entities.settings import EntitiesSettings
from tests.support.databases import Prepare


def install(url: str) -> None:
    """Create the tables of Rowmill and of entities."""
    asyncio.run(Entities(EntitiesSettings(database_url=url)).migrate())


@pytest.fixture(scope="session")
def prepare() -> Prepare:
    return install
