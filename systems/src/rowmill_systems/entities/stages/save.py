"""The third stage: merge local facts with those of the sources."""

import time
from typing import TYPE_CHECKING

import rowmill as rm
from rowmill_systems.entities.merging import merge_entity
from rowmill_systems.entities.models import Entity

if TYPE_CHECKING:
    from rowmill_systems.entities.entities import Entities


async def save(entities: "Entities", entity: rm.Lease[Entity]) -> None:
    """Merge in one transaction with the completion, from the facts of that moment: a person may have changed them since
    the claim."""
    began = time.monotonic()
    done = rm.Done()
    async with entity.settling(done) as session:
        connection = await session.connection()
        await connection.run_sync(merge_entity, entities.tables, entity.key, entities.believed)
        done.values = {"enrichment_seconds": entity.row.enrichment_seconds + time.monotonic() - began}
