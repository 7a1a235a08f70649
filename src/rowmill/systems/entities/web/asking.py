"""What every endpoint needs: the entities, and the one in the path."""

import uuid
from typing import Annotated

import sqlalchemy as sa
from fastapi import Depends, HTTPException, Request

from rowmill.systems.entities import reads
from rowmill.systems.entities.entities import Entities


def the_entities(request: Request) -> Entities:
    found: Entities = request.app.state.entities
    return found


GivenEntities = Annotated[Entities, Depends(the_entities)]


def no_such_entity() -> HTTPException:
    return HTTPException(404, {"code": "no_such_entity", "message": "there is no such entity"})


async def the_entity(entities: GivenEntities, entity_id: uuid.UUID) -> sa.RowMapping:
    found = await entities.mill.run(lambda connection: reads.one_entity(connection, entity_id), write=False)
    if found is None:
        raise no_such_entity()
    return found


GivenEntity = Annotated[sa.RowMapping, Depends(the_entity)]
