"""Several applications on one server: each under a path of its own, with links between them.

app = mounted({"/intake": intake_app, "/entities": entities_app}, title="Acme")
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from rowmill.web.problems import answer_with_problems
from rowmill.web.site import SIBLINGS, NavLink, Site


def mounted(apps: Mapping[str, FastAPI], *, title: str = "Rowmill") -> FastAPI:
    """One application of several: a front page that lists them, and each under its path. It opens and closes them."""
    links = [NavLink(app.title, path) for path, app in apps.items()]
    site = Site(title, __package__)

    @asynccontextmanager
    async def lifespan(parent: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for app in apps.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    parent = FastAPI(title=title, lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None)
    site.install(parent, docs=False)

    async def front(request: Request) -> HTMLResponse:
        return site.page("rowmill/front.html", request, apps=apps)

    parent.add_api_route("/", front, include_in_schema=False)
    for path, app in apps.items():
        parent.mount(path, WithSiblings(app, links))
    answer_with_problems(parent, {})
    return parent


class WithSiblings:
    """Tells an application which others are mounted beside it, and where."""

    def __init__(self, app: ASGIApp, links: list[NavLink]) -> None:
        self.app, self.links = app, links

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        root = scope.get("app_root_path", "")
        siblings = [NavLink(link.label, f"{root}{link.path}") for link in self.links]
        await self.app({**scope, SIBLINGS: siblings}, receive, send)
