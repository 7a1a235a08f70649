"""Entities: put in, listed, looked at, changed."""

import uuid
from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Query, Response

from rowmill.systems.common.web.problems import problems
from rowmill.systems.entities import deciding, reads
from rowmill.systems.entities.submitting import submit
from rowmill.systems.entities.things import local_facts
from rowmill.systems.entities.web import schemas
from rowmill.systems.entities.web.asking import GivenEntities, GivenEntity, no_such_entity, the_entity

router = APIRouter(tags=["entities"])


@router.post("/entities", status_code=201)
async def put_in(entities: GivenEntities, entity: schemas.EntityIn, response: Response) -> schemas.Entity:
    """Put an entity in, to be linked and enriched in the background. One of a dataset that is there already is answered
    as it is."""
    row = entity.model_dump()
    [entity_id] = await entities.mill.run(lambda connection: submit(entities, connection, [row]))
    response.headers["location"] = f"/entities/{entity_id}"
    return schemas.Entity.model_validate(await the_entity(entities, entity_id))


@router.get("/entities")
async def list_entities(
    entities: GivenEntities,
    status: Annotated[schemas.Plain | None, Query(max_length=20)] = None,
    dataset: Annotated[schemas.Plain | None, Query(max_length=200)] = None,
    after: Annotated[uuid.UUID | None, Query(description="The last one of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> schemas.Entities:
    """By id."""

    def read(connection: sa.Connection) -> schemas.Entities:
        rows = reads.entities(connection, status=status, dataset=dataset, after=after, most=limit + 1)
        found = [schemas.Entity.model_validate(row) for row in rows[:limit]]
        return schemas.Entities(entities=found, next=found[-1].id if len(rows) > limit else None)

    return await entities.mill.run(read, write=False)


@router.get("/entities/{entity_id}", responses=problems(s404="no such entity"))
async def one_entity(entities: GivenEntities, entity: GivenEntity) -> schemas.WholeEntity:
    """One entity, what is known of it and who says so, what contradicts, and what happened."""

    def read(connection: sa.Connection) -> schemas.WholeEntity:
        return schemas.WholeEntity.model_validate(
            {
                **entity,
                "properties": None if entity["properties"] is None else local_facts(entity["properties"]),
                "facts": reads.facts(connection, entity["id"]),
                "conflicts": reads.conflicts(connection, entity_id=entity["id"], state=None, most=1000),
                "history": reads.changes(connection, entity["id"]),
            }
        )

    return await entities.mill.run(read, write=False)


@router.patch("/entities/{entity_id}", responses=problems(s404="no such entity"))
async def change_entity(entities: GivenEntities, entity_id: uuid.UUID, edit: schemas.EntityEdit) -> schemas.WholeEntity:
    """Put other local facts in the place of those that are there. What was merged is merged again."""
    try:
        await entities.mill.run(
            lambda connection: deciding.edit(connection, entity_id, edit.properties, entities.believed)
        )
    except deciding.NotThere:
        raise no_such_entity() from None
    return await one_entity(entities, await the_entity(entities, entity_id))
