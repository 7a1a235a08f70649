"""Intake over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from rowmill_systems.intake.web.app import create_app
from systems.tests.intake.harness import IntakeHarness, intake_on
from tests.support.web import client_of

FILES = "/organizations/1/projects/1/files"


class Served(IntakeHarness):
    """A harness with a client of its server."""

    def __init__(self, harness: IntakeHarness, client: httpx2.AsyncClient) -> None:
        super().__init__(harness.intake)
        self.client = client

    async def upload(self, content: bytes | str, name: str = "a.txt", **form: str) -> httpx2.Response:
        data = content.encode() if isinstance(content, str) else content
        return await self.client.post(FILES, files={"file": (name, data, "text/plain")}, data=form)

    async def get(self, path: str, **parameters: Any) -> Any:
        answer = await self.client.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def served(url: str, folder: Path, analyzer: Any = None, **more: Any) -> AsyncIterator[Served]:
    async with intake_on(url, folder, analyzer, **more) as harness, client_of(create_app(harness.intake)) as client:
        yield Served(harness, client)
