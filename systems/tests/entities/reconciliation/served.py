"""The service behind a real HTTP server on the loopback, beside an endpoint that changes something."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import uvicorn
from fastapi import FastAPI
from starlette.middleware.trustedhost import TrustedHostMiddleware

from rowmill.web.guard import LOOPBACK, Guard
from rowmill.web.problems import answer_with_problems
from rowmill_systems.entities.kb.thing import ThingIndex
from rowmill_systems.entities.reconciliation.matching import ReconciliationService
from rowmill_systems.entities.reconciliation.router import PREFIX, router
from systems.tests.entities.reconciliation.sample_kb import SampleKnowledgeBase
from systems.tests.entities.reconciliation.shapes import check


class Served:
    """The service, a client, and what was changed beside it."""

    def __init__(self, client: httpx2.AsyncClient, asked: ReconciliationService, changes: list[str]) -> None:
        self.client, self.service, self.changes = client, asked, changes

    async def get(self, path: str = "", **parameters: Any) -> httpx2.Response:
        return await self.client.get(f"{PREFIX}{path}", params=parameters)

    async def form(self, **fields: Any) -> httpx2.Response:
        """As OpenRefine sends it: JSON in a field of a form."""
        data = {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}
        return await self.client.post(PREFIX, data=data)

    async def results(self, **query: Any) -> list[dict[str, Any]]:
        """The answer to one query, of the form that the specification wants."""
        answer = await self.form(queries={"q0": query})
        assert answer.status_code == 200, answer.text
        return list(check("reconciliation-result-batch", answer.json())["q0"]["result"])


def application(asked: ReconciliationService, changes: list[str]) -> FastAPI:
    app = FastAPI()

    @app.post("/entities")
    @app.post("/reconciled")
    async def change() -> None:
        changes.append("changed")

    app.state.reconciliation = asked
    app.include_router(router)
    app.add_middleware(Guard, most=10_000_000, open_paths=[PREFIX])
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(LOOPBACK))
    answer_with_problems(app, {})
    return app


@asynccontextmanager
async def served(knowledge_base: ThingIndex | None = None) -> AsyncIterator[Served]:
    asked, changes = (
        ReconciliationService(knowledge_base or SampleKnowledgeBase(), threshold=0.75, gap=0.15),
        list[str](),
    )
    config = uvicorn.Config(application(asked, changes), host="127.0.0.1", port=0, log_config=None)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:
        assert not running.done(), "the server did not start"
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30, verify=False
        ) as client:
            yield Served(client, asked, changes)
    finally:
        server.should_exit = True
        await running
