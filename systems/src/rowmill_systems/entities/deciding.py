"""What people do to entities: decide conflicts, choose links, change local facts, requeue."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa

from rowmill_systems.entities import clock
from rowmill_systems.entities.merging import merge_entity, note
from rowmill_systems.entities.models import ConflictState, EntityId, Tables
from rowmill_systems.entities.stages.link import COLUMNS, PERSON, columns
from rowmill_systems.entities.things import Link, local_facts
from rowmill_systems.entities.words import IN_PROGRESS, PENDING, READY

if TYPE_CHECKING:
    from rowmill_systems.entities.entities import Entities

OTHER_ID = re.compile(r"\S.{0,999}")
IDS = {
    "wikidata": (re.compile(r"Q[1-9][0-9]{0,9}"), "Q42"),
    "dbpedia": (re.compile(r"https?://([a-z-]+\.)?dbpedia\.org/resource/[^\s<>\"]{1,900}"),
                "http://dbpedia.org/resource/Berlin"),
}  # fmt: skip
"""The form of ids, for the sources where it is known."""


class UnknownRecord(LookupError):
    """There is no such entity, or no such conflict."""


class EntityChanged(Exception):
    """Another person was quicker, or the entity is being worked on. `state` is its present state."""

    def __init__(self, state: str) -> None:
        super().__init__(f"it is {state} by now")
        self.state = state


class NoSuchThing(ValueError):
    """The entity can't be linked to that. The message says what is possible."""


@dataclass(frozen=True, slots=True)
class ConflictDecision:
    """Choose the current value, the other one, or `value`."""

    choice: Literal["current", "other", "value"]
    value: Any = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class LinkDecision:
    """Choose what an entity is: a thing of a source by its id, nothing, or what the sources find."""

    choice: Literal["thing", "none", "sources"]
    source: str = ""
    id: str = ""
    by: str | None = None


def decide(
    connection: sa.Connection, tables: Tables, conflict_id: int, decision: ConflictDecision, believed: Sequence[str]
) -> None:
    """Decide an open conflict, and merge again.

    Raises EntityChanged if the conflict is not open any more. The row of the entity is locked: of two people who decide
    at once, one gets the error.
    """
    entity, conflict = tables.entity, tables.conflict
    wanted = sa.select(conflict.__table__).where(conflict.id == conflict_id)
    found = connection.execute(wanted).first()
    if found is None:
        raise UnknownRecord
    connection.execute(sa.select(entity.id).where(entity.id == found.entity_id).with_for_update(key_share=True))
    found = connection.execute(wanted).first()
    if found is None:
        raise UnknownRecord
    if found.state != ConflictState.OPEN:
        raise EntityChanged(found.state)
    chosen = {"current": found.current_value, "other": found.other_value, "value": decision.value}[decision.choice]
    connection.execute(
        sa.update(conflict)
        .where(conflict.id == conflict_id)
        .values(
            state=ConflictState.DECIDED, chosen_value=chosen, decided_by=decision.by, decided_at=sa.func.now()
        )
    )  # fmt: skip
    detail = {"property": found.property, "choice": decision.choice, "value": chosen, "by": decision.by}
    note(connection, tables, found.entity_id, "decided", detail)
    merge_entity(connection, tables, found.entity_id, believed)


def edit(
    connection: sa.Connection,
    tables: Tables,
    entity_id: EntityId,
    properties: dict[str, Any],
    believed: Sequence[str],
) -> None:
    """Replace the local facts, and merge again if the entity was merged before."""
    entity = tables.entity
    held = (
        sa.select(entity.properties.label("properties"), entity.enriched_properties.label("enriched_properties"))
        .where(entity.id == entity_id)
        .with_for_update(key_share=True)
    )
    row = connection.execute(held).first()
    if row is None:
        raise UnknownRecord
    before = local_facts(row.properties)
    if before == properties:
        return
    connection.execute(sa.update(entity).where(entity.id == entity_id).values(properties=properties))
    changed = [key for key in before | properties if before.get(key) != properties.get(key)]
    note(connection, tables, entity_id, "edited", {"properties": changed})
    if row.enriched_properties is not None:
        merge_entity(connection, tables, entity_id, believed)


async def queue_again(entities: "Entities", entity_id: EntityId, *, fresh: bool = True) -> None:
    """Requeue an entity at the first stage, with no retries counted; also a complete one.

    Raises EntityChanged if a worker has it. With `fresh`, cached answers of services are not used for it.
    """

    def change(connection: sa.Connection) -> str:
        tables = entities.tables
        status = _idle(connection, tables, entity_id)
        values: dict[str, Any] = {"answers_since": clock.now(connection)} if fresh else {}
        _write(connection, tables, entity_id, status, values)
        note(connection, tables, entity_id, "queued", {})
        return status

    if not await _begin(entities, entity_id, await entities.mill.run(change)):
        raise EntityChanged("in progress")


async def choose_link(entities: "Entities", entity_id: EntityId, decision: LinkDecision) -> None:
    """Link an entity as a person decided, and continue from there. The decision holds until a person changes it.

    Raises EntityChanged if a worker has the entity, and NoSuchThing if the id is not valid.
    """

    def change(connection: sa.Connection) -> str:
        tables = entities.tables
        status = _idle(connection, tables, entity_id)
        offered = connection.scalar(sa.select(tables.entity.linking_candidates).where(tables.entity.id == entity_id))
        _write(connection, tables, entity_id, status, _chosen(decision, offered or [], entities.believed))
        detail = {"choice": decision.choice, "source": decision.source, "id": decision.id, "by": decision.by}
        note(connection, tables, entity_id, "chosen", detail)
        return status

    await _begin(entities, entity_id, await entities.mill.run(change))


def _chosen(decision: LinkDecision, offered: list[dict[str, Any]], believed: Sequence[str]) -> dict[str, Any]:
    """Return the columns of the link."""
    match decision.choice:
        case "sources":
            return {"linking_source": None}
        case "none":
            return dict.fromkeys(COLUMNS) | {"linking_source": PERSON, "linking_reason": "a person found no link"}
    link = next((link for link in map(_link, offered) if link.id_in(decision.source) == decision.id), None)
    if link is None:
        link = _own(decision, believed)
    return columns(link) | {"linking_confidence": 1.0, "linking_source": PERSON, "linking_reason": None}


def _link(offered: dict[str, Any]) -> Link:
    return Link(
        1.0, PERSON, offered["label"], offered["wikidata_id"], offered["dbpedia_uri"], offered["other_ids"] or {}
    )


def _own(decision: LinkDecision, believed: Sequence[str]) -> Link:
    """Check an id that no source offered."""
    source, id = decision.source, decision.id
    if source not in IDS and source not in believed:
        raise NoSuchThing(f"source is one of: {', '.join(dict.fromkeys((*IDS, *believed)))}")
    pattern, example = IDS.get(source, (OTHER_ID, "one line of at most 1000 characters"))
    if not pattern.fullmatch(id):
        raise NoSuchThing(f"an id of {source} looks like this: {example}")
    return Link(
        1.0,
        PERSON,
        id,
        wikidata_id=id if source == "wikidata" else None,
        dbpedia_uri=id if source == "dbpedia" else None,
        other_ids={} if source in IDS else {source: id},
    )


def _idle(connection: sa.Connection, tables: Tables, entity_id: EntityId) -> str:
    """Lock the entity, and return its status. Raises EntityChanged if a worker has it."""
    entity = tables.entity
    wanted = sa.select(entity.enrichment_status, entity.lease).where(entity.id == entity_id)
    row = connection.execute(wanted.with_for_update(key_share=True)).first()
    if row is None:
        raise UnknownRecord
    status = row[0] or PENDING
    if status in IN_PROGRESS or row[1] is not None:
        raise EntityChanged(status)
    return status


def _write(connection: sa.Connection, tables: Tables, entity_id: EntityId, status: str, values: dict[str, Any]) -> None:
    """Write columns.

    An entity that waits at a later stage goes back to the first one in the same statement: between two statements it
    could be claimed.
    """
    if status in READY:
        values = values | {"enrichment_status": PENDING, "enrichment_retry_count": 0, "enrichment_error": None,
                           "enrichment_available_at": None}  # fmt: skip
    if values:
        connection.execute(sa.update(tables.entity).where(tables.entity.id == entity_id).values(values))


async def _begin(entities: "Entities", entity_id: EntityId, status: str) -> bool:
    """Requeue an entity that was not ready, which wakes a worker.

    Return False if a worker was quicker: it has claimed the entity with the new columns.
    """
    return status in READY or bool(await entities.queue.requeue(entity_id, to_stage="link"))
