"""Companies over HTTP, with what people find there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import sqlalchemy as sa

from rowmill_systems.companies.providers.port import CompanyCandidate
from rowmill_systems.companies.web.app import create_app
from systems.tests.companies.command_line import open_review
from systems.tests.companies.harness import CompaniesHarness, companies_on
from tests.support.html import read_page
from tests.support.web import client_of

HOSTILE = """<script>alert(1)</script>"'><img src=x onerror=alert(1)>{{ 7 * 7 }}"""


class ServedCompanies(CompaniesHarness):
    """A harness with a client of its server."""

    def __init__(self, harness: CompaniesHarness, client: httpx2.AsyncClient) -> None:
        super().__init__(harness.companies, harness.provider)
        self.client = client

    async def get(self, path: str, **parameters: Any) -> Any:
        answer = await self.client.get(path, params=parameters or None)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, given: Any, code: int = 200) -> Any:
        answer = await self.client.post(path, json=given)
        assert answer.status_code == code, answer.text
        return answer.json()

    async def page(self, path: str, code: int = 200, **parameters: Any) -> str:
        """Return a page that is well formed, runs nothing inline and loads nothing from elsewhere."""
        answer = await self.client.get(path, params=parameters or None, headers={"accept": "text/html"})
        return checked(answer, code)

    async def send(self, path: str, code: int = 303, **fields: str) -> str:
        """Send a form. Return the page, or where the browser is sent to."""
        answer = await self.client.post(path, data=fields, headers={"accept": "text/html"})
        if answer.status_code == code == 303:
            return str(answer.headers["location"])
        return checked(answer, code)

    async def review(self, name: str, *candidates: CompanyCandidate) -> int:
        found: int = await self.mill.run(lambda connection: open_review(connection, self.companies, name, *candidates))
        return found

    async def put(self, name: str, status: str = "pending", **values: Any) -> int:
        """Add a request with this status, and return its id."""
        await self.enqueue(name)
        row = (await self.rows())[name]
        change = sa.update(self.requests).where(self.requests.c.id == row.id).values(status=status, **values)
        await self.mill.run(lambda connection: connection.execute(change).close())
        return int(row.id)


def checked(answer: httpx2.Response, code: int) -> str:
    assert answer.status_code == code, answer.text
    assert answer.headers["content-type"].startswith("text/html")
    read_page(answer.text)
    return str(answer.text)


@asynccontextmanager
async def served(url: str, answers: Any = None, **more: Any) -> AsyncIterator[ServedCompanies]:
    async with companies_on(url, answers, **more) as harness, client_of(create_app(harness.companies)) as client:
        yield ServedCompanies(harness, client)
