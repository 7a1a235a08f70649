"""A model's server, a mill with a limit, and a mapper between them."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic import SecretStr

import rowmill as rm
from rowmill_systems.intake.fields.model import ModelMapper, ModelSettings
from systems.tests.model_server import ModelServer, model_server

SECRET = "sk-planted-0815"
Maker = Callable[..., ModelMapper]


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with model_server() as server:
        yield server


@pytest.fixture
async def mill(sqlite_url: str) -> AsyncIterator[rm.Mill]:
    mill = rm.Mill(sqlite_url)
    async with mill.opened():
        await mill.migrate(tables=True)
        yield mill


@pytest.fixture
async def limit(mill: rm.Mill) -> rm.limits.Limit:
    return mill.limit("intake-model", concurrent=4, budget=rm.limits.Budget(1_000_000, per="day"))


@pytest.fixture
async def mapper(server: ModelServer, limit: rm.limits.Limit) -> AsyncIterator[Maker]:
    """Makes mappers; `limit=` and settings may be other ones."""
    made: list[ModelMapper] = []

    def make(**options: Any) -> ModelMapper:
        within = options.pop("limit", limit)
        given: dict[str, Any] = {"base_url": server.url, "model": "m", "api_key": SecretStr(SECRET), "timeout": 20.0}
        made.append(ModelMapper(ModelSettings(**(given | options)), within))
        return made[-1]

    yield make
    for each in made:
        await each.close()
