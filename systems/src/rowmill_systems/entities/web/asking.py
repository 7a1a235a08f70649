"""Dependencies of the endpoints: the system, and the entity of the path."""

from typing import Annotated

import sqlalchemy as sa
from fastapi import Depends, HTTPException, Path, Request

from rowmill_systems.entities import reads
from rowmill_systems.entities.entities import Entities
from rowmill_systems.entities.models import EntityId
from rowmill_systems.parts.values import UNSTORABLE


def the_entities(request: Request) -> Entities:
    found: Entities = request.app.state.entities
    return found


GivenEntities = Annotated[Entities, Depends(the_entities)]


def no_such_entity() -> HTTPException:
    return HTTPException(404, {"code": "no_such_entity", "message": "there is no such entity"})


def id_from(entities: Entities, text: str) -> EntityId:
    """Parse an entity id. Raises 404 if no entity can have it."""
    found = None if UNSTORABLE.search(text) else entities.tables.shape.id_of(text)
    if found is None:
        raise no_such_entity()
    return found


def id_in_path(entities: GivenEntities, entity_id: Annotated[str, Path(description="Of an entity.")]) -> EntityId:
    return id_from(entities, entity_id)


GivenId = Annotated[EntityId, Depends(id_in_path)]
"""As a path of its own, since ids of other programs may hold a slash: `{entity_id:path}`."""


async def the_entity(entities: Entities, entity_id: EntityId) -> sa.RowMapping:
    tables = entities.tables
    found = await entities.mill.run(lambda connection: reads.one_entity(connection, tables, entity_id), write=False)
    if found is None:
        raise no_such_entity()
    return found
