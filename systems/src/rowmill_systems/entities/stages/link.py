"""The first stage: find out which thing is meant."""

import time
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.entities.linking.choose import Choice
from rowmill_systems.entities.linking.types import type_of
from rowmill_systems.entities.merging import merge_entity, note, replace_facts
from rowmill_systems.entities.models import Entity, Tables
from rowmill_systems.entities.settings import NO_LINK
from rowmill_systems.entities.stages.outage import CANT_BE_ASKED, put_back
from rowmill_systems.entities.things import Link, Mention, Offered, local_facts
from rowmill_systems.parts.services.freshness import answers_since
from rowmill_systems.parts.values import storable

if TYPE_CHECKING:
    from rowmill_systems.entities.entities import Entities

COLUMNS = ("wikidata_id", "dbpedia_uri", "other_ids", "linking_confidence", "linking_source", "linking_label")
SAME = ("wikidata_id", "dbpedia_uri", "other_ids")
"""Columns that make two links the same, whatever their confidence."""
PERSON = "person"
"""The source of a link that a person chose."""


LONGEST_NAME, LONGEST_CONTEXT, LONGEST_DESCRIPTION = 500, 20_000, 300
"""What is longer is no name, and whoever inserts rows may insert anything."""


def mention_of(row: Entity) -> Mention:
    context = (row.context or "")[:LONGEST_CONTEXT]
    return Mention((row.name or "")[:LONGEST_NAME], type_of(row.entity_type), context, local_facts(row.properties))


async def link(entities: "Entities", entity: rm.Lease[Entity]) -> rm.Outcome | None:
    """Link an entity, or complete it without a link if no candidate reaches the threshold.

    A person's choice holds, and then no source is asked.
    """
    began, row = time.monotonic(), entity.row
    if row.linking_source == PERSON:
        values: dict[str, Any] = {name: getattr(row, name) for name in COLUMNS}
    else:
        try:
            with answers_since(row.answers_since):
                choice = await entities.linker.link(mention_of(row))
        except CANT_BE_ASKED as error:
            return await put_back(entities, error)
        values = columns(choice.link) | kept(choice)
    is_linked = any(values[name] for name in SAME)
    values |= {
        "enrichment_note": None if is_linked else NO_LINK,
        "enrichment_seconds": time.monotonic() - began,
    }
    async with entity.settling(rm.Done(values, finish=not is_linked)) as session:
        connection = await session.connection()
        await connection.run_sync(note_change, entities.tables, row, values)
        if not is_linked:
            await connection.run_sync(replace_facts, entities.tables, entity.key, ())
            await connection.run_sync(merge_entity, entities.tables, entity.key, entities.believed)
    return None


def columns(link: Link | None) -> dict[str, Any]:
    if link is None:
        return dict.fromkeys(COLUMNS)
    return {
        "wikidata_id": link.wikidata_id,
        "dbpedia_uri": link.dbpedia_uri,
        "other_ids": dict(link.other_ids) or None,
        "linking_confidence": link.confidence,
        "linking_source": link.source,
        "linking_label": link.label,
    }


def kept(choice: Choice) -> dict[str, Any]:
    """Return what a person needs to choose another candidate."""
    offered = [storable(as_json(each)) for each in choice.candidates]
    return {
        "linking_reason": storable(choice.reason),
        "linking_candidates": [each for each in offered if any(each[name] for name in SAME)] or None,
    }


def as_json(offered: Offered) -> dict[str, Any]:
    link = offered.link
    return {
        "label": link.label,
        "description": offered.description[:LONGEST_DESCRIPTION],
        "types": list(offered.types),
        "score": round(link.confidence, 4),
        "reasons": dict(offered.reasons),
        "source": link.source,
        "wikidata_id": link.wikidata_id,
        "dbpedia_uri": link.dbpedia_uri,
        "other_ids": dict(link.other_ids),
    }


def note_change(connection: sa.Connection, tables: Tables, row: Entity, values: dict[str, Any]) -> None:
    """Add to the history, unless the link is the same as before."""
    if all(getattr(row, name) == values[name] for name in SAME):
        return
    linked = any(values[name] for name in SAME)
    detail = {name: values[name] for name in COLUMNS}
    note(connection, tables, row.id, "linked" if linked else "unlinked", detail)


def link_of(row: Entity) -> Link:
    """Return the link of a row."""
    return Link(
        row.linking_confidence or 0.0,
        row.linking_source or "",
        row.linking_label or "",
        row.wikidata_id,
        row.dbpedia_uri,
        row.other_ids or {},
    )
