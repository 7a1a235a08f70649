"""Databases with the tables of companies."""

import asyncio

import pytest

from rowmill_systems.companies.companies import Companies
from systems.tests.companies.harness import settings_for
from tests.support.databases import Prepare


def install(url: str) -> None:
    """Create the tables of Rowmill and of companies."""
    asyncio.run(Companies(settings_for(url)).migrate())


@pytest.fixture(scope="session")
def prepare() -> Prepare:
    return install
