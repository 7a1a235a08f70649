"""A mill whose tables exist, and an instance of Dagster in memory."""

import asyncio
from collections.abc import Iterator

import dagster as dg
import pytest

import rowmill as rm
from tests.integrations.parcels import SIZES, make_mill


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "integrations/dagster" in item.path.as_posix():
            item.add_marker(pytest.mark.xdist_group("dagster"))
            # Dagster warns of a parameter of its own that it passes itself.
            item.add_marker(pytest.mark.filterwarnings("default:Parameter .owners. of initializer .SensorDefinition"))


@pytest.fixture(autouse=True)
def _no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_DISABLE_TELEMETRY", "1")


@pytest.fixture
def mill(database_url: str) -> rm.Mill:
    mill = make_mill(database_url)
    asyncio.run(mill.migrate(tables=True))
    SIZES.clear()
    return mill


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as instance:
        yield instance
