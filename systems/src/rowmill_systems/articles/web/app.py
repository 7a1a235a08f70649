"""Create the FastAPI application of articles."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI

import rowmill as rm
from rowmill.integrations.fastapi import health_router
from rowmill.web.guard import LOOPBACK, Guard, KnownHosts
from rowmill.web.problems import EVERYWHERE, answer_with_problems, problems
from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.classification_worker import running_in_app
from rowmill_systems.articles.managing import SourceBusy, UnknownSource
from rowmill_systems.articles.web import api, forms, pages, sources
from rowmill_systems.articles.web.shown import site

MOST_BYTES = 20 * 1024 * 1024
"""Of a list in OPML."""
STATUS: dict[type[rm.errors.WorkError], int] = {UnknownSource: 404, SourceBusy: 409}


def create_app(articles: Articles, *, hosts: Sequence[str] = LOOPBACK) -> FastAPI:
    """Create the API and the pages. Requests for other host names are refused, against DNS rebinding.

    A worker that classifies articles starts and stops with the application, if ML_ENABLED.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with running_in_app(articles, app):
            yield

    app = FastAPI(
        title="Articles",
        description="Feeds are synced, their articles are classified in the background, and read by what you follow.",
        version=rm.__version__,
        lifespan=lifespan,
        responses=problems(**EVERYWHERE),
        docs_url=None,
        redoc_url=None,
    )
    app.state.articles = articles
    app.include_router(health_router("/health/worker"), tags=["service"])
    for router in (api.router, sources.router, pages.router, forms.router):
        app.include_router(router)
    app.add_middleware(Guard, most=MOST_BYTES)
    app.add_middleware(KnownHosts, names=hosts)
    site.install(app)
    answer_with_problems(app, STATUS)
    return app
