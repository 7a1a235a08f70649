"""Articles over HTTP, with rows that tests put there."""

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx2
import sqlalchemy as sa

from rowmill.testing import QUICK
from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.web.app import create_app
from systems.tests.articles.harness import settings_for
from systems.tests.articles.scripted_classifier import ScriptedClassifier
from systems.tests.articles.shelf import put_article, put_source
from tests.support.html import ReadPage, read_page
from tests.support.web import client_of

T = TypeVar("T")
HOSTILE = """<script>alert(1)</script>"'><img src=x onerror=alert(1)>{{ 7 * 7 }}"""


class ServedArticles:
    """The system, and a client of its server."""

    def __init__(self, articles: Articles, client: httpx2.AsyncClient) -> None:
        self.articles, self.client = articles, client

    async def do(self, work: Callable[[sa.Connection], T]) -> T:
        return await self.articles.mill.run(work)

    async def source(self, title: str = "A feed", **more: Any) -> uuid.UUID:
        return await self.do(lambda connection: put_source(connection, title, **more))

    async def article(self, source: uuid.UUID, title: str = "An article", **more: Any) -> uuid.UUID:
        return await self.do(lambda connection: put_article(connection, source, title, **more))

    async def get(self, path: str, code: int = 200, **parameters: Any) -> Any:
        answer = await self.client.get(path, params=parameters or None)
        assert answer.status_code == code, answer.text
        return answer.json()

    async def send(self, method: str, path: str, given: Any = None, code: int = 200) -> Any:
        answer = await self.client.request(method, path, json=given)
        assert answer.status_code == code, answer.text
        return answer.json() if answer.content else None

    async def page(self, path: str, code: int = 200, **parameters: Any) -> ReadPage:
        """Return a page that is well formed, runs nothing inline and loads nothing from elsewhere."""
        answer = await self.client.get(path, params=parameters or None, headers={"accept": "text/html"})
        assert answer.status_code == code, answer.text
        return read_page(answer.text)

    async def form(self, path: str, code: int = 303, *, htmx: bool = False, **fields: str) -> str:
        """Send a form. Return the page, or where the browser is sent to."""
        headers = {"accept": "text/html"} | ({"hx-request": "true"} if htmx else {})
        answer = await self.client.post(path, data=fields, headers=headers)
        assert answer.status_code == code, answer.text
        if code == 303:
            return str(answer.headers["location"])
        read_page(answer.text)
        return str(answer.text)


@asynccontextmanager
async def served(url: str, **more: Any) -> AsyncIterator[ServedArticles]:
    classifier = ScriptedClassifier()
    settings = settings_for(url, **{"ml_enabled": False, "allow_private_addresses": True} | more)
    articles = Articles(settings, classifier=classifier)
    articles.mill.settings = QUICK
    async with articles.opened(), client_of(create_app(articles)) as client:
        yield ServedArticles(articles, client)
