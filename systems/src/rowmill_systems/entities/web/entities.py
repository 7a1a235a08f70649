"""Add, list, read and change entities."""

from typing import Annotated
from urllib.parse import quote

import sqlalchemy as sa
from fastapi import APIRouter, HTTPException, Query, Request, Response

from rowmill.web.problems import problems
from rowmill.web.site import root_of
from rowmill_systems.entities import deciding, reads
from rowmill_systems.entities.submitting import submit
from rowmill_systems.entities.things import local_facts
from rowmill_systems.entities.web import schemas
from rowmill_systems.entities.web.asking import GivenEntities, GivenId, id_from, no_such_entity, the_entity

router = APIRouter(tags=["entities"])


@router.post("/entities", status_code=201)
async def put_in(
    entities: GivenEntities, entity: schemas.EntityIn, request: Request, response: Response
) -> schemas.EntityOut:
    """Add an entity, to be linked and enriched in the background. If its dataset has its external id already, the
    existing entity is returned."""
    row = entity.model_dump()
    [entity_id] = await entities.mill.run(lambda connection: submit(entities, connection, [row]))
    response.headers["location"] = f"{root_of(request)}/entities/{quote(str(entity_id))}"
    return schemas.EntityOut.model_validate(await the_entity(entities, entity_id))


@router.get("/entities")
async def list_entities(
    entities: GivenEntities,
    status: Annotated[schemas.Plain | None, Query(max_length=20)] = None,
    dataset: Annotated[schemas.Plain | None, Query(max_length=200)] = None,
    after: Annotated[schemas.Plain | None, Query(description="The last one of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> schemas.EntityList:
    """List entities by id."""
    last = None if after is None else id_from(entities, after)

    def read(connection: sa.Connection) -> schemas.EntityList:
        tables = entities.tables
        rows = reads.entities(connection, tables, status=status, dataset=dataset, after=last, most=limit + 1)
        found = [schemas.EntityOut.model_validate(row) for row in rows[:limit]]
        return schemas.EntityList(entities=found, next=found[-1].id if len(rows) > limit else None)

    return await entities.mill.run(read, write=False)


@router.get("/entities/{entity_id:path}", responses=problems(s404="no such entity"))
async def one_entity(entities: GivenEntities, entity_id: GivenId) -> schemas.WholeEntity:
    """Return an entity with its facts and their sources, its conflicts and its history."""
    entity, tables = await the_entity(entities, entity_id), entities.tables

    def read(connection: sa.Connection) -> schemas.WholeEntity:
        return schemas.WholeEntity.model_validate(
            {
                **entity,
                "properties": None if entity["properties"] is None else local_facts(entity["properties"]),
                "candidates": entity["linking_candidates"] or [],
                "facts": reads.facts(connection, tables, entity["id"]),
                "conflicts": reads.conflicts(connection, tables, entity_id=entity["id"], state=None, most=1000),
                "history": reads.changes(connection, tables, entity["id"]),
            }
        )

    return await entities.mill.run(read, write=False)


@router.patch("/entities/{entity_id:path}", responses=problems(s404="no such entity"))
async def change_entity(entities: GivenEntities, entity_id: GivenId, edit: schemas.EntityEdit) -> schemas.WholeEntity:
    """Replace the local facts of an entity. Its properties are merged again."""
    try:
        await entities.mill.run(
            lambda connection: deciding.edit(connection, entities.tables, entity_id, edit.properties, entities.believed)
        )
    except deciding.UnknownRecord:
        raise no_such_entity() from None
    return await one_entity(entities, entity_id)


@router.post(
    "/entities/{entity_id:path}/link",
    status_code=202,
    responses=problems(s404="no such entity", s409="somebody is at work on it"),
)
async def link_entity(entities: GivenEntities, entity_id: GivenId, given: schemas.LinkDecisionIn) -> schemas.Queued:
    """Choose the link of an entity: a candidate, another thing by its id, none, or again what the sources find. The
    entity is enriched again. The choice of a person stays until a person changes it."""
    try:
        decision = deciding.LinkDecision(given.choice, given.source, given.id, given.by)
        await deciding.choose_link(entities, entity_id, decision)
    except deciding.UnknownRecord:
        raise no_such_entity() from None
    except deciding.NoSuchThing as error:
        raise HTTPException(422, {"code": "invalid", "message": str(error)}) from None
    except deciding.EntityChanged as error:
        raise HTTPException(409, {"code": "in_progress", "message": f"the entity is {error.state}"}) from None
    return schemas.Queued(entity_id=str(entity_id))
