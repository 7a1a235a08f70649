"""Create the FastAPI application of entities."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, Depends, FastAPI

import rowmill as rm
from rowmill.web.guard import LOOPBACK, Guard, KnownHosts
from rowmill.web.problems import answer_with_problems, problems
from rowmill_systems.entities.entities import Entities
from rowmill_systems.entities.reconciliation import router as reconciliation
from rowmill_systems.entities.reconciliation.asking import no_scripts
from rowmill_systems.entities.reconciliation.matching import ReconciliationService
from rowmill_systems.entities.web import bulk, conflicts, enrichment, forms, pages
from rowmill_systems.entities.web import entities as one_by_one
from rowmill_systems.entities.web.asking import GivenEntities
from rowmill_systems.entities.web.shown import site
from rowmill_systems.parts.fields import Health

MOST_BYTES = 256 * 1024 * 1024
"""Of a bulk of entities, which is read as it comes."""
EVERYWHERE = problems(
    s400="the server does not answer to that host name, or the body can't be read",
    s403="a page of another site asks",
    s405="the path takes other methods",
    s413="too much at once",
    s422="a value is not what it has to be",
    s503="the database does not answer",
)
"""What every operation may answer."""
service = APIRouter(tags=["service"])


@service.get("/health")
async def health(entities: GivenEntities) -> Health:
    """Check that the server and its database answer."""
    await entities.mill.run(lambda connection: connection.exec_driver_sql("SELECT 1").close(), write=False)
    return Health()


def create_app(entities: Entities, *, hosts: Sequence[str] = LOOPBACK) -> FastAPI:
    """Create the API and the pages. Requests for other host names are refused, against DNS rebinding."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with entities.opened():
            yield

    app = FastAPI(
        title="Entities",
        description="Entities are linked to knowledge bases in the background, and enriched by what these know.",
        version=rm.__version__,
        lifespan=lifespan,
        responses=EVERYWHERE,
        docs_url=None,
        redoc_url=None,
    )
    settings = entities.settings
    app.state.entities = entities
    app.state.reconciliation = ReconciliationService(
        entities.knowledge_base, settings.link_threshold, settings.link_gap
    )
    # Before the paths with an entity's id: `bulk` is none.
    apis = (service, enrichment.router, bulk.router, one_by_one.router, conflicts.router)
    for router in (*apis, pages.router, forms.router):
        app.include_router(router)
    ours_alone = [] if settings.open_reconciliation else [Depends(no_scripts)]
    app.include_router(reconciliation.router, dependencies=ours_alone)
    open_paths = [reconciliation.PREFIX] if settings.open_reconciliation else []
    app.add_middleware(Guard, most=MOST_BYTES, open_paths=open_paths)
    app.add_middleware(KnownHosts, names=hosts)
    site.install(app)
    answer_with_problems(app, {})
    return app
