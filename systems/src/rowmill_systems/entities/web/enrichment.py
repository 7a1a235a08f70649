"""Statistics of the enrichment, and requeueing of an entity."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query

import rowmill as rm
from rowmill.web.problems import problems
from rowmill_systems.entities import reads
from rowmill_systems.entities.deciding import EntityChanged, UnknownRecord, queue_again
from rowmill_systems.entities.web import schemas
from rowmill_systems.entities.web.asking import GivenEntities, GivenId, no_such_entity

router = APIRouter(tags=["enrichment"])


@router.get("/enrichment/stats")
async def stats(entities: GivenEntities) -> schemas.Stats:
    """Count entities by status. Return the average processing time, and why entities wait."""
    found = await entities.mill.run(lambda connection: reads.stats(connection, entities.tables), write=False)
    services = [service_of(name, await limit.state()) for name, limit in entities.limits.items()]
    return schemas.Stats.model_validate({**found, "services": services})


def service_of(name: str, state: rm.limits.LimitState) -> schemas.ServiceStatus:
    why = state.refuses
    until = {"parked": state.parked_until, "open": state.open_until}.get(str(why))
    return schemas.ServiceStatus(
        service=name, available=why is None, why=None if why is None else str(why), until=until
    )


@router.post(
    "/enrichment/queue/{entity_id:path}",
    status_code=202,
    responses=problems(s404="no such entity", s409="somebody is at work on it"),
)
async def queue_entity(
    entities: GivenEntities,
    entity_id: GivenId,
    fresh: Annotated[bool, Query(description="Ask the services anew, whatever they answered before.")] = True,
) -> schemas.Queued:
    """Link and enrich an entity again, whatever its status, with attempts at zero. A link that a person chose stays."""
    try:
        await queue_again(entities, entity_id, fresh=fresh)
    except UnknownRecord:
        raise no_such_entity() from None
    except EntityChanged as error:
        raise HTTPException(409, {"code": "in_progress", "message": f"the entity is {error.state}"}) from None
    return schemas.Queued(entity_id=str(entity_id))
