"""Knowledge over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
from fastapi import FastAPI

from rowmill_systems.knowledge.accounts.logins import log_in
from rowmill_systems.knowledge.accounts.roles import KnowledgeRole
from rowmill_systems.knowledge.accounts.users import create_account
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.web.app import create_app
from systems.tests.knowledge.harness import drain, knowledge_on
from tests.support.web import client_of

API = "/api/v1"
PASSWORD = "correct horse battery"
ADMINISTRATOR, EDITOR, VIEWER = KnowledgeRole.ADMINISTRATOR, KnowledgeRole.EDITOR, KnowledgeRole.VIEWER


class ServedKnowledge:
    """A system, a client of its server, and users of each role."""

    def __init__(self, knowledge: Knowledge, client: httpx2.AsyncClient, app: FastAPI) -> None:
        self.knowledge, self.client, self.app = knowledge, client, app
        self._logins: dict[KnowledgeRole, dict[str, str]] = {}

    async def login(self, role: KnowledgeRole) -> dict[str, str]:
        """Return the headers of a user of this role, who has the role's name at example.org."""
        if role not in self._logins:
            await create_account(self.knowledge, f"{role}@example.org", PASSWORD, role=role)
            made = await log_in(self.knowledge, f"{role}@example.org", PASSWORD, address=None)
            self._logins[role] = {"authorization": f"Bearer {made.token}"}
        return self._logins[role]

    async def ask(
        self, verb: str, path: str, *, role: KnowledgeRole | None = EDITOR, headers: Any = None, **more: Any
    ) -> httpx2.Response:
        """Send a request to the API as a user of this role."""
        logged_in = {} if role is None else await self.login(role)
        return await self.client.request(verb, f"{API}{path}", headers={**logged_in, **(headers or {})}, **more)

    async def json(self, verb: str, path: str, status: int = 200, **more: Any) -> Any:
        answer = await self.ask(verb, path, **more)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def kb(self, name: str = "Papers") -> str:
        """Create a knowledge base. Return its id."""
        made: dict[str, str] = await self.json("POST", "/kbs", 201, json={"name": name})
        return made["id"]

    async def upload(self, kb_id: str | UUID, content: bytes, name: str = "a.md", **more: Any) -> httpx2.Response:
        return await self.ask("POST", f"/kbs/{kb_id}/documents", files={"file": (name, content)}, **more)

    async def document(
        self, kb_id: str, content: bytes = b"# Cranes\n\nA crane lifts loads.", name: str = "a.md"
    ) -> str:
        """Upload a document, and have it processed. Return its id."""
        taken = await self.upload(kb_id, content, name)
        assert taken.status_code == 202, taken.text
        await drain(self.knowledge)
        made: dict[str, str] = taken.json()
        return made["id"]


@asynccontextmanager
async def served(url: str, folder: Path, *, on_network: bool = False, **more: Any) -> AsyncIterator[ServedKnowledge]:
    """Serve a system: in this process, or `on_network` by a real server on loopback."""
    async with knowledge_on(url, folder, **more) as knowledge:
        app = create_app(knowledge)
        if on_network:
            async with client_of(app) as client:
                yield ServedKnowledge(knowledge, client, app)
            return
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://testserver") as client:
            yield ServedKnowledge(knowledge, client, app)
