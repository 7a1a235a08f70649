"""Register the handlers of the three stages."""

from typing import TYPE_CHECKING

import rowmill as rm
from rowmill_systems.entities.models import Entity
from rowmill_systems.entities.stages import link, save
from rowmill_systems.entities.stages.enrich import enrich as enriched
from rowmill_systems.parts.names.folding import folded
from rowmill_systems.parts.values import value_hash

if TYPE_CHECKING:
    from rowmill_systems.entities.entities import Entities

ONCE_LEASE = 30.0


def same_question(row: Entity) -> str:
    """Return the key under which only one entity is looked up at a time: the next one finds the answer in the cache."""
    name = (row.name or "")[: link.LONGEST_NAME]
    return f"link {value_hash(folded(name))}"


def same_thing(row: Entity) -> str:
    ids = row.dbpedia_uri or row.wikidata_id or ""
    return f"enrich {value_hash(ids) if ids else row.id}"


def handle(entities: "Entities", *, enrich: bool) -> None:
    """Register the handlers.

    With services over the network, entities of one name are linked one after another in the whole fleet, and those of
    one thing enriched so: nothing is looked up twice.
    """
    size = entities.settings.batch_size
    linking, enriching = [], []
    if entities.limits:
        once = entities.mill.limit("entities-once", concurrent=1, breaker=None, lease=ONCE_LEASE)
        linking, enriching = [once.by(same_question)], [once.by(same_thing)]

    @entities.queue.handler(stage="link", concurrency=size, limits=linking)
    async def link_entity(entity: rm.Lease[Entity]) -> rm.Outcome | None:
        return await link.link(entities, entity)

    if not enrich:
        return

    @entities.queue.handler(stage="enrich", concurrency=size, limits=enriching)
    async def enrich_entity(entity: rm.Lease[Entity]) -> rm.Outcome | None:
        return await enriched(entities, entity)

    @entities.queue.handler(stage="save")
    async def save_entity(entity: rm.Lease[Entity]) -> None:
        await save.save(entities, entity)
