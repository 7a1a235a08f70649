"""What people do to entities: decide conflicts, change local facts, queue again."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa

from rowmill.systems.entities.merging import merge_entity, note
from rowmill.systems.entities.models import ConflictState, Entity, EntityConflict
from rowmill.systems.entities.things import local_facts

if TYPE_CHECKING:
    from rowmill.systems.entities.entities import Entities


class NotThere(LookupError):
    """There is no such entity, or no such conflict."""


class StateChanged(Exception):
    """Somebody was quicker, or the entity is being worked on. `state` is what it is now."""

    def __init__(self, state: str) -> None:
        super().__init__(f"it is {state} by now")
        self.state = state


@dataclass(frozen=True, slots=True)
class Decision:
    """Which of the two values holds, or `value` in the place of both."""

    choice: Literal["current", "other", "value"]
    value: Any = None
    by: str | None = None


def decide(connection: sa.Connection, conflict_id: int, decision: Decision, believed: Sequence[str]) -> None:
    """Decide a conflict that is open, and merge again; otherwise StateChanged. The row of the entity is held, so that
    of two who decide at once, one is told."""
    wanted = sa.select(EntityConflict.__table__).where(EntityConflict.id == conflict_id)
    found = connection.execute(wanted).first()
    if found is None:
        raise NotThere
    held = sa.select(Entity.id).where(Entity.id == found.entity_id).with_for_update(key_share=True)
    connection.execute(held)
    found = connection.execute(wanted).first()
    if found is None:
        raise NotThere
    if found.state != ConflictState.OPEN:
        raise StateChanged(found.state)
    chosen = {"current": found.current_value, "other": found.other_value, "value": decision.value}[decision.choice]
    connection.execute(
        sa.update(EntityConflict)
        .where(EntityConflict.id == conflict_id)
        .values(
            state=ConflictState.DECIDED, chosen_value=chosen, decided_by=decision.by, decided_at=sa.func.now()
        )
    )  # fmt: skip
    detail = {"property": found.property, "choice": decision.choice, "value": chosen, "by": decision.by}
    note(connection, found.entity_id, "decided", detail)
    merge_entity(connection, found.entity_id, believed)


def edit(connection: sa.Connection, entity_id: uuid.UUID, properties: dict[str, Any], believed: Sequence[str]) -> None:
    """Put local facts in the place of those that are there, and merge again what was merged before."""
    held = (
        sa.select(Entity.properties, Entity.enriched_properties)
        .where(Entity.id == entity_id)
        .with_for_update(key_share=True)
    )
    row = connection.execute(held).first()
    if row is None:
        raise NotThere
    before = local_facts(row.properties)
    if before == properties:
        return
    connection.execute(sa.update(Entity).where(Entity.id == entity_id).values(properties=properties))
    changed = [key for key in before | properties if before.get(key) != properties.get(key)]
    note(connection, entity_id, "edited", {"properties": changed})
    if row.enriched_properties is not None:
        merge_entity(connection, entity_id, believed)


async def queue_again(entities: "Entities", entity_id: uuid.UUID) -> None:
    """From the first stage on, also an entity that is complete, with no retries counted. StateChanged, if somebody is
    at work on it just now."""
    queued = await entities.queue.requeue(entity_id, stage="link")

    def look(connection: sa.Connection) -> str | None:
        if queued:
            note(connection, entity_id, "queued", {})
            return None
        status = connection.scalar(sa.select(Entity.enrichment_status).where(Entity.id == entity_id))
        if status is None:
            raise NotThere
        return status

    if (status := await entities.mill.run(look, write=bool(queued))) is not None:
        raise StateChanged(status)
