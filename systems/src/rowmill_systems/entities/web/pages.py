"""Pages for people: the pipeline, entities, one of them, conflicts. Rendered here, and fit for use without a script."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse

from rowmill_systems.entities.entities import Entities
from rowmill_systems.entities.web import conflicts as conflicts_api
from rowmill_systems.entities.web import enrichment, schemas
from rowmill_systems.entities.web import entities as api
from rowmill_systems.entities.web.asking import GivenEntities, id_from
from rowmill_systems.entities.web.shown import pages, with_query
from rowmill_systems.entities.words import COMPLETE, FAILED, STATUSES

ON_A_PAGE = 100
CONFLICTS_ON_A_PAGE = 50
NO_SUCH_ENTITY = "There is no such entity."
router = APIRouter(include_in_schema=False)
Part = Annotated[bool, Query()]
"""Only what changes, for the script."""


def problem(request: Request, code: int, message: str) -> HTMLResponse:
    return pages.show("problem.html", request, code=code, problem=message)


@router.get("/")
async def pipeline(entities: GivenEntities, request: Request, part: Part = False) -> HTMLResponse:
    """How many entities are where, how the services are, and why entities wait."""
    found = await enrichment.stats(entities)
    return pages.show("state.html" if part else "pipeline.html", request, stats=found, believed=entities.believed)


@router.get("/browse")
async def browse(
    entities: GivenEntities,
    request: Request,
    status: schemas.Plain = "",
    dataset: schemas.Plain = "",
    after: str = "",
    part: Part = False,
) -> HTMLResponse:
    last = after or None
    try:
        found = await api.list_entities(entities, status or None, dataset or None, last, ON_A_PAGE)
    except HTTPException:
        return problem(request, 404, "There is no such page.")
    here = {"status": status, "dataset": dataset}
    return pages.show(
        "list.html" if part else "browse.html",
        request,
        entities=found.entities,
        open=sum(entity.enrichment_status not in (COMPLETE, FAILED) for entity in found.entities),
        statuses=STATUSES,
        status=status,
        dataset=dataset,
        here=with_query("/browse", **here, after=last),
        first=with_query("/browse", **here) if last else None,
        next=with_query("/browse", **here, after=found.next) if found.next else None,
    )


@router.get("/browse/{entity_id:path}")
async def entity(entities: GivenEntities, request: Request, entity_id: str, part: Part = False) -> HTMLResponse:
    """What is known of one entity and who says so, what contradicts, what happened."""
    return await show_entity(entities, request, entity_id, template="known.html" if part else "entity.html")


async def show_entity(
    entities: Entities,
    request: Request,
    entity_id: str,
    *,
    template: str = "entity.html",
    code: int = 200,
    problem: str | None = None,
) -> HTMLResponse:
    """With the reason, where something could not be done to it."""
    try:
        found = await api.one_entity(entities, id_from(entities, entity_id))
    except HTTPException:
        return pages.show("problem.html", request, code=404, problem=NO_SUCH_ENTITY)
    sources = list(dict.fromkeys(("wikidata", "dbpedia", *entities.believed)))
    return pages.show(template, request, code=code, entity=found, problem=problem, sources=sources)


@router.get("/review-conflicts")
async def conflicts(
    entities: GivenEntities,
    request: Request,
    after: Annotated[int, Query(ge=0, le=conflicts_api.LARGEST_ID)] = 0,
    part: Part = False,
) -> HTMLResponse:
    return await show_conflicts(entities, request, after, template="open.html" if part else "conflicts.html")


async def show_conflicts(
    entities: Entities,
    request: Request,
    after: int = 0,
    *,
    template: str = "conflicts.html",
    code: int = 200,
    problem: str | None = None,
) -> HTMLResponse:
    """Those that are open, the oldest first."""
    found = await conflicts_api.list_conflicts(entities, "open", after, CONFLICTS_ON_A_PAGE)
    return pages.show(
        template,
        request,
        code=code,
        conflicts=found.conflicts,
        here=with_query("/review-conflicts", after=after or None),
        next=with_query("/review-conflicts", after=found.next) if found.next else None,
        problem=problem,
    )
