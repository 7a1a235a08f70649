"""The third stage: local facts and those of the sources, merged."""

import time
from typing import TYPE_CHECKING

import rowmill as rm
from rowmill_systems.entities.merging import merge_entity
from rowmill_systems.entities.models import Entity

if TYPE_CHECKING:
    from rowmill_systems.entities.entities import Entities


async def save(entities: "Entities", entity: rm.Lease[Entity]) -> None:
    """In one transaction with the completion, from what is in the database at that moment: somebody may have changed
    the local facts since the entity was claimed."""
    began = time.monotonic()
    done = rm.Done()
    async with entity.settling(done) as session:
        connection = await session.connection()
        await connection.run_sync(merge_entity, entities.tables, entity.key, entities.believed)
        done.values = {"enrichment_seconds": entity.row.enrichment_seconds + time.monotonic() - began}
