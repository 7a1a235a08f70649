"""The first stage: who is meant."""

import time
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

import rowmill as rm
from rowmill.systems.entities.linking.types import type_of
from rowmill.systems.entities.merging import merge_entity, note, replace_facts
from rowmill.systems.entities.models import Entity
from rowmill.systems.entities.settings import NO_LINK
from rowmill.systems.entities.stages.outage import CANT_BE_ASKED, put_back
from rowmill.systems.entities.things import Link, Mention, local_facts

if TYPE_CHECKING:
    from rowmill.systems.entities.entities import Entities

COLUMNS = ("wikidata_id", "dbpedia_uri", "other_ids", "link_confidence", "link_source", "link_label")
SAME = ("wikidata_id", "dbpedia_uri", "other_ids")
"""What makes it the same link, however sure we are of it today."""


LONGEST_NAME, LONGEST_CONTEXT = 500, 20_000
"""What is longer is no name, and whoever inserts rows may insert anything."""


def mention_of(row: Entity) -> Mention:
    context = (row.context or "")[:LONGEST_CONTEXT]
    return Mention(row.name[:LONGEST_NAME], type_of(row.entity_type), context, local_facts(row.properties))


async def link(entities: "Entities", entity: rm.Lease[Entity]) -> rm.Outcome | None:
    """Nobody is linked below the threshold. An entity without a link is complete, and says so."""
    began = time.monotonic()
    try:
        found = await entities.linker.link(mention_of(entity.row))
    except CANT_BE_ASKED as error:
        return await put_back(entities, entity, error)
    values = columns(found) | {
        "enrichment_note": None if found else NO_LINK,
        "enrichment_seconds": time.monotonic() - began,
        "service_failures": 0,
    }
    async with entity.settling(rm.Done(values, finish=found is None)) as session:
        connection = await session.connection()
        await connection.run_sync(tell_change, entity.row, values)
        if found is None:
            await connection.run_sync(replace_facts, entity.key, ())
            await connection.run_sync(merge_entity, entity.key, entities.believed)
    return None


def columns(link: Link | None) -> dict[str, Any]:
    if link is None:
        return dict.fromkeys(COLUMNS)
    return {
        "wikidata_id": link.wikidata_id,
        "dbpedia_uri": link.dbpedia_uri,
        "other_ids": dict(link.other_ids) or None,
        "link_confidence": link.confidence,
        "link_source": link.source,
        "link_label": link.label,
    }


def tell_change(connection: sa.Connection, row: Entity, values: dict[str, Any]) -> None:
    """Nothing is told of an entity that is linked as it was."""
    if all(getattr(row, name) == values[name] for name in SAME):
        return
    linked = any(values[name] for name in SAME)
    note(connection, row.id, "linked" if linked else "unlinked", {name: values[name] for name in COLUMNS})


def link_of(row: Entity) -> Link:
    """The link that a row has."""
    return Link(
        row.link_confidence or 0.0,
        row.link_source or "",
        row.link_label or "",
        row.wikidata_id,
        row.dbpedia_uri,
        row.other_ids or {},
    )
