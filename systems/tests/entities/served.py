"""Entities over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from rowmill_systems.entities.sources.port import Source
from rowmill_systems.entities.web.app import create_app
from systems.tests.entities.house import House, house_on
from tests.support.web import client_of


class Served(House):
    """A house with a door."""

    def __init__(self, house: House, client: httpx2.AsyncClient) -> None:
        super().__init__(house.entities)
        self.client = client

    async def get(self, path: str, **parameters: Any) -> Any:
        answer = await self.client.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def served(url: str, *sources: Source, **more: Any) -> AsyncIterator[Served]:
    async with house_on(url, *sources, **more) as house, client_of(create_app(house.entities)) as client:
        yield Served(house, client)
