"""Pages of knowledge as a user of some role reads them, and sends their forms."""

import httpx2

from rowmill_systems.knowledge.accounts.roles import KnowledgeRole
from systems.tests.knowledge.web.served import ADMINISTRATOR, ServedKnowledge
from tests.support.html import ReadPage, read_page


class Visitor:
    """Somebody who is logged in."""

    def __init__(self, harness: ServedKnowledge, role: KnowledgeRole = ADMINISTRATOR) -> None:
        self.harness, self.role = harness, role

    async def send(self, verb: str, path: str, **more: object) -> httpx2.Response:
        headers = {"accept": "text/html", **(await self.harness.login(self.role))}
        return await self.harness.client.request(verb, path, headers=headers, **more)  # type: ignore[arg-type]

    async def page(self, path: str, code: int = 200, **parameters: str) -> ReadPage:
        """Return a page that is well formed, runs nothing inline and loads nothing from elsewhere."""
        answer = await self.send("GET", path, params=parameters or None)
        assert answer.status_code == code, answer.text
        return read_page(answer.text)

    async def form(self, path: str, code: int = 303, /, **fields: str) -> str:
        """Send a form. Return where the browser is sent to, or why it was not done."""
        answer = await self.send("POST", path, data=fields)
        assert answer.status_code == code, answer.text
        if code == 303:
            return str(answer.headers["location"])
        return " ".join(tag.text for tag in read_page(answer.text).tags if tag.attributes.get("role") == "alert")


def cells(page: ReadPage, tag: str = "td") -> str:
    """Return the text of all cells."""
    return " ".join(" ".join(each.text.split()) for each in page.all(tag))


def chips(page: ReadPage) -> list[str]:
    return [tag.text for tag in page.tags if tag.attributes.get("class", "").startswith("chip ")]


def titles(page: ReadPage) -> list[str]:
    return [tag.text.strip() for tag in page.all("h2")]


def posts_of(page: ReadPage) -> list[str]:
    """Return where the forms of a page send changes."""
    return [tag.attributes["action"] for tag in page.all("form", method="post")]
