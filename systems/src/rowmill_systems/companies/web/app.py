"""The application."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI

import rowmill as rm
from rowmill.web.guard import LOOPBACK, Guard, KnownHosts
from rowmill.web.problems import EVERYWHERE, answer_with_problems, problems
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.web import api, pages
from rowmill_systems.companies.web.shown import site

MOST_BYTES = 64 * 1024 * 1024
"""Of a batch of names."""


def create_app(companies: Companies, *, hosts: Sequence[str] = LOOPBACK) -> FastAPI:
    """Companies over HTTP. It answers to these names alone, so that no other site's name can be pointed at it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with companies.opened():
            yield

    app = FastAPI(
        title="Companies",
        description="Company names are resolved to ids: at once where they are known, otherwise in the background.",
        version=rm.__version__,
        lifespan=lifespan,
        responses=problems(**EVERYWHERE),
        docs_url=None,
        redoc_url=None,
    )
    app.state.companies = companies
    for router in (api.router, pages.router):
        app.include_router(router)
    app.add_middleware(Guard, most=MOST_BYTES)
    app.add_middleware(KnownHosts, names=hosts)
    site.install(app)
    answer_with_problems(app, {})
    return app
