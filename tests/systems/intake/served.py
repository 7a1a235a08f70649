"""Intake behind a real HTTP server on the loopback, and a client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from rowmill.systems.intake.web.app import create_app
from tests.systems.intake.house import House, house_on

FILES = "/organizations/1/projects/1/files"


class Served(House):
    """A house with a door."""

    def __init__(self, house: House, client: httpx.AsyncClient) -> None:
        super().__init__(house.intake)
        self.client = client

    async def upload(self, content: bytes | str, name: str = "a.txt", **form: str) -> httpx.Response:
        data = content.encode() if isinstance(content, str) else content
        return await self.client.post(FILES, files={"file": (name, data, "text/plain")}, data=form)

    async def get(self, path: str, **parameters: Any) -> Any:
        answer = await self.client.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def served(url: str, folder: Path, scribe: Any = None, **more: Any) -> AsyncIterator[Served]:
    async with house_on(url, folder, scribe, **more) as house:
        config = uvicorn.Config(create_app(house.intake), host="127.0.0.1", port=0, log_config=None, lifespan="on")
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve())
        while not server.started:
            assert not running.done(), "the server did not start"
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30) as client:
                yield Served(house, client)
        finally:
            server.should_exit = True
            await running
