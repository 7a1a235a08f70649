"""Databases with the tables of intake."""

import asyncio

import pytest

from rowmill_systems.intake.intake import Intake
from rowmill_systems.intake.settings import IntakeSettings
from tests.support.databases import Prepare


def install(url: str) -> None:
    """Create the tables of Rowmill and of intake."""
    asyncio.run(Intake(IntakeSettings(database_url=url)).migrate())


@pytest.fixture(scope="session")
def prepare() -> Prepare:
    return install
