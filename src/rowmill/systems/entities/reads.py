"""What people ask about entities: plain SQL, since their state is on the row."""

import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from rowmill.systems.entities.models import ConflictState, Entity, EntityChange, EntityConflict, EntityFact
from rowmill.systems.entities.words import COMPLETE, FAILED, IN_PROGRESS, PENDING, STATUSES

LISTED = ("id", "name", "entity_type", "dataset", "external_id", "created_at", "enrichment_status", "enrichment_error",
          "enrichment_retry_count", "enrichment_available_at", "enriched_at", "enrichment_note", "wikidata_id",
          "dbpedia_uri", "other_ids", "link_confidence", "link_source", "link_label")  # fmt: skip


def stats(connection: sa.Connection) -> dict[str, Any]:
    """Rates are of the entities that are final. The time is that at work on a complete one, without waits."""
    counted = sa.select(Entity.enrichment_status, sa.func.count()).group_by(Entity.enrichment_status)
    by_status = dict.fromkeys(STATUSES, 0) | dict(connection.execute(counted).all())
    average = sa.select(sa.func.avg(Entity.enrichment_seconds)).where(Entity.enrichment_status == COMPLETE)
    open_conflicts = sa.select(sa.func.count()).where(EntityConflict.state == ConflictState.OPEN)
    complete, failed = by_status[COMPLETE], by_status[FAILED]
    final = complete + failed
    return {
        "total_entities": sum(by_status.values()),
        "by_status": by_status,
        "success_rate": complete / final if final else 0.0,
        "failure_rate": failed / final if final else 0.0,
        "pending": sum(by_status[word] for word in PENDING),
        "in_progress": sum(by_status[word] for word in IN_PROGRESS),
        "average_processing_time_seconds": connection.scalar(average) or 0.0,
        "open_conflicts": connection.scalar(open_conflicts) or 0,
        "waiting_for": waiting_for(connection),
    }


def waiting_for(connection: sa.Connection) -> dict[str, int]:
    """Why entities wait that were tried before, by code, the most frequent first."""
    tried = (Entity.enrichment_status.in_(PENDING), Entity.enrichment_error.is_not(None))
    counted = sa.select(Entity.enrichment_error, sa.func.count()).where(*tried).group_by(Entity.enrichment_error)
    found = Counter[str]()
    for error, number in connection.execute(counted):
        found[str(error).split(":", 1)[0]] += number
    return dict(found.most_common())


def entities(
    connection: sa.Connection,
    *,
    status: str | None = None,
    dataset: str | None = None,
    after: uuid.UUID | None = None,
    most: int = 100,
) -> Sequence[sa.RowMapping]:
    """By id; `after` one, for the next page."""
    table = Entity.__table__
    wanted = sa.select(*(table.c[name] for name in LISTED)).order_by(Entity.id).limit(most)
    if status is not None:
        wanted = wanted.where(Entity.enrichment_status == status)
    if dataset is not None:
        wanted = wanted.where(Entity.dataset == dataset)
    if after is not None:
        wanted = wanted.where(Entity.id > after)
    return connection.execute(wanted).mappings().all()


def one_entity(connection: sa.Connection, entity_id: uuid.UUID) -> sa.RowMapping | None:
    return connection.execute(sa.select(Entity.__table__).where(Entity.id == entity_id)).mappings().first()


def facts(connection: sa.Connection, entity_id: uuid.UUID) -> Sequence[sa.RowMapping]:
    wanted = sa.select(EntityFact.__table__).where(EntityFact.entity_id == entity_id)
    return connection.execute(wanted.order_by(EntityFact.source, EntityFact.property)).mappings().all()


def changes(connection: sa.Connection, entity_id: uuid.UUID, *, most: int = 200) -> Sequence[sa.RowMapping]:
    """The latest first."""
    wanted = sa.select(EntityChange.__table__).where(EntityChange.entity_id == entity_id)
    return connection.execute(wanted.order_by(EntityChange.id.desc()).limit(most)).mappings().all()


def conflicts(
    connection: sa.Connection,
    *,
    entity_id: uuid.UUID | None = None,
    state: str | None = ConflictState.OPEN,
    after: int = 0,
    most: int = 100,
) -> Sequence[sa.RowMapping]:
    """The oldest first, with the name of the entity; `after` an id, for the next page."""
    wanted = (
        sa.select(EntityConflict.__table__, Entity.name)
        .join(Entity, Entity.id == EntityConflict.entity_id)
        .where(EntityConflict.id > after)
        .order_by(EntityConflict.id)
        .limit(most)
    )
    if entity_id is not None:
        wanted = wanted.where(EntityConflict.entity_id == entity_id)
    if state is not None:
        wanted = wanted.where(EntityConflict.state == state)
    return connection.execute(wanted).mappings().all()
