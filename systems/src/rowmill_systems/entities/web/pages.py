"""The pages: pipeline, entities, one entity, conflicts. Rendered on the server; they work without scripts."""

from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from rowmill.web.keyset import KeysetPage
from rowmill_systems.entities import reads
from rowmill_systems.entities.entities import Entities
from rowmill_systems.entities.web import conflicts as conflicts_api
from rowmill_systems.entities.web import enrichment, schemas
from rowmill_systems.entities.web import entities as api
from rowmill_systems.entities.web.asking import GivenEntities, id_from
from rowmill_systems.entities.web.shown import site
from rowmill_systems.entities.words import COMPLETE, FAILED, STATUSES

ON_A_PAGE = 100
CONFLICTS_ON_A_PAGE = 50
router = APIRouter(include_in_schema=False)
Text = Annotated[schemas.Plain, Query(max_length=1000)]
Cursor = Annotated[str, Query(max_length=5000)]


@router.get("/")
async def pipeline(entities: GivenEntities, request: Request) -> HTMLResponse:
    """Show how many entities have which status, how the services are, and why entities wait."""
    found = await enrichment.stats(entities)
    final = found.by_status[COMPLETE] + found.by_status[FAILED]
    open = found.total_entities - final > 0
    return site.page("pipeline.html", request, stats=found, final=final, open=open, believed=entities.believed)


@router.get("/browse")
async def browse(
    entities: GivenEntities,
    request: Request,
    q: Text = "",
    status: Text = "",
    dataset: Text = "",
    sort: Cursor = "",
    after: Cursor = "",
) -> HTMLResponse:
    def read(connection: sa.Connection) -> KeysetPage:
        return reads.entity_list(
            connection,
            entities.tables,
            search=q,
            status=status,
            dataset=dataset,
            sort=sort,
            after=after,
            limit=ON_A_PAGE,
        )

    part = await entities.mill.run(read, write=False)
    found = [schemas.EntityOut.model_validate(row) for row in part.rows]
    return site.page(
        "browse.html",
        request,
        entities=found,
        part=part,
        open=any(entity.enrichment_status not in (COMPLETE, FAILED) for entity in found),
        statuses=STATUSES,
        q=q,
        status=status,
        dataset=dataset,
        sort=sort,
        after=after,
    )


@router.get("/browse/{entity_id:path}")
async def entity(entities: GivenEntities, request: Request, entity_id: str) -> HTMLResponse:
    return await show_entity(entities, request, entity_id)


async def show_entity(
    entities: Entities, request: Request, entity_id: str, *, code: int = 200, problem: str | None = None
) -> HTMLResponse:
    """Show an entity with its facts and their sources, its conflicts and its history."""
    found = await api.one_entity(entities, id_from(entities, entity_id))
    sources = list(dict.fromkeys(("wikidata", "dbpedia", *entities.believed)))
    open = found.enrichment_status not in (COMPLETE, FAILED)
    return site.page("entity.html", request, code=code, entity=found, problem=problem, sources=sources, open=open)


@router.get("/review-conflicts")
async def conflicts(
    entities: GivenEntities,
    request: Request,
    after: Annotated[int, Query(ge=0, le=conflicts_api.LARGEST_ID)] = 0,
) -> HTMLResponse:
    return await show_conflicts(entities, request, after)


async def show_conflicts(
    entities: Entities, request: Request, after: int = 0, *, code: int = 200, problem: str | None = None
) -> HTMLResponse:
    """Show the open conflicts, the oldest first."""
    found = await conflicts_api.list_conflicts(entities, "open", after, CONFLICTS_ON_A_PAGE)
    values = {"conflicts": found.conflicts, "next": found.next, "after": after or ""}
    return site.page("conflicts.html", request, code=code, problem=problem, **values)
