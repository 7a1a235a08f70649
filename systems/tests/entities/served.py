"""Entities over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from rowmill_systems.entities.sources.port import Source
from rowmill_systems.entities.web.app import create_app
from systems.tests.entities.harness import EntitiesHarness, entities_on
from tests.support.web import client_of


class Served(EntitiesHarness):
    """A harness with a client of its server."""

    def __init__(self, harness: EntitiesHarness, client: httpx2.AsyncClient) -> None:
        super().__init__(harness.entities)
        self.client = client

    async def get(self, path: str, **parameters: Any) -> Any:
        answer = await self.client.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def served(url: str, *sources: Source, **more: Any) -> AsyncIterator[Served]:
    async with entities_on(url, *sources, **more) as harness, client_of(create_app(harness.entities)) as client:
        yield Served(harness, client)
