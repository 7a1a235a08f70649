"""The second stage: look up the facts of the linked thing in all sources."""

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import rowmill as rm
from rowmill_systems.entities.linking.types import type_of
from rowmill_systems.entities.merging import replace_facts
from rowmill_systems.entities.models import Entity
from rowmill_systems.entities.stages.link import link_of
from rowmill_systems.entities.stages.outage import CANT_BE_ASKED, put_back
from rowmill_systems.entities.things import Fact
from rowmill_systems.parts.services.freshness import answers_since
from rowmill_systems.parts.values import storable

if TYPE_CHECKING:
    from rowmill_systems.entities.entities import Entities


async def enrich(entities: "Entities", entity: rm.Lease[Entity]) -> rm.Outcome | None:
    began = time.monotonic()
    try:
        with answers_since(entity.row.answers_since):
            facts = await known(entities, entity.row)
    except CANT_BE_ASKED as error:
        return await put_back(entities, error)
    seconds = entity.row.enrichment_seconds + time.monotonic() - began
    async with entity.settling(rm.Done({"enrichment_seconds": seconds})) as session:
        connection = await session.connection()
        await connection.run_sync(replace_facts, entities.tables, entity.key, facts)
    return None


async def known(entities: "Entities", row: Entity) -> Sequence[Fact]:
    """Return the facts of all sources.

    Raises if one can't be asked; the answers of the others are cached for the next attempt.
    """
    link, type = link_of(row), type_of(row.entity_type)
    asked = [source.facts(id, type) for source in entities.sources if (id := link.id_in(source.name))]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    facts = [fact for answer in answers if not isinstance(answer, BaseException) for fact in answer]
    return [Fact(fact.property, tuple(storable(fact.values)), fact.source, fact.ref) for fact in facts]
