"""A model's server, a mill with a limit and a cache, and clients of them."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

import rowmill as rm
from rowmill_systems.parts.models import ModelClient, ModelEndpoint
from rowmill_systems.parts.services.cache import AnswerCache, answers_table
from systems.tests.model_server import ModelServer, model_server

SECRET = "sk-planted-0815"
answers = answers_table("model_answers", sa.MetaData())
ClientMaker = Callable[..., ModelClient]


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with model_server() as server:
        yield server


@pytest.fixture
async def mill(sqlite_url: str) -> AsyncIterator[rm.Mill]:
    mill = rm.Mill(sqlite_url)
    async with mill.opened():
        await mill.migrate()
        await mill.run(answers.create)
        yield mill


@pytest.fixture
def limit(mill: rm.Mill) -> rm.limits.Limit:
    return mill.limit("model", concurrent=4, budget=rm.limits.Budget(1_000_000, per="day"))


@pytest.fixture
def cache(mill: rm.Mill) -> AnswerCache:
    return AnswerCache(mill, answers)


@pytest.fixture
async def client(server: ModelServer, limit: rm.limits.Limit) -> AsyncIterator[ClientMaker]:
    """Make clients; `limit=`, `cache=` and fields of the endpoint may be others."""
    made: list[ModelClient] = []

    def make(**options: Any) -> ModelClient:
        within, cache = options.pop("limit", limit), options.pop("cache", None)
        given: dict[str, Any] = {"base_url": server.url, "model": "m", "api_key": SecretStr(SECRET), "timeout": 20.0}
        made.append(ModelClient(ModelEndpoint(**(given | options)), within, cache=cache))
        return made[-1]

    yield make
    for each in made:
        await each.close()
