"""Queries about entities."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from rowmill.web.keyset import Keyset, KeysetPage, contains
from rowmill_systems.entities.models import COLUMNS, ConflictState, EntityId, Tables, list_orders, list_status
from rowmill_systems.entities.words import COMPLETE, FAILED, IN_PROGRESS, OPEN, PENDING, STATUSES

LISTED = ("id", "name", "entity_type", "dataset", "external_id", "created_at", "enrichment_status", "enrichment_error",
          "enrichment_retry_count", "enrichment_available_at", "enriched_at", "enrichment_note", "wikidata_id",
          "dbpedia_uri", "other_ids", "linking_confidence", "linking_source", "linking_label",
          "linking_reason")  # fmt: skip
IN_PLACE_OF_NULL = {"name": "", "enrichment_status": PENDING, "enrichment_retry_count": 0}
"""Tables of other programs allow NULL where it says nothing."""


def columns(tables: Tables, attributes: Iterable[str]) -> "list[sa.Label[Any]]":
    """Return columns of an entity, each labelled with the name of its attribute. The table may call them otherwise."""
    found = []
    for name in attributes:
        column = getattr(tables.entity, name)
        if name in IN_PLACE_OF_NULL:
            column = sa.func.coalesce(column, IN_PLACE_OF_NULL[name])
        found.append(column.label(name))
    return found


def has_status(tables: Tables, status: str) -> "sa.ColumnElement[bool]":
    """Return the condition that an entity has a status. NULL counts as PENDING."""
    word = tables.entity.enrichment_status
    return sa.or_(word == status, word.is_(None)) if status == PENDING else word == status


def stats(connection: sa.Connection, tables: Tables) -> dict[str, Any]:
    """Count entities by status, and average the processing time of complete ones (without waits)."""
    entity, conflict = tables.entity, tables.conflict
    by_status = Counter(dict.fromkeys(STATUSES, 0))
    counted = sa.select(entity.enrichment_status, sa.func.count()).group_by(entity.enrichment_status)
    for status, number in connection.execute(counted):
        by_status[PENDING if status is None else status] += number
    average = sa.select(sa.func.avg(entity.enrichment_seconds)).where(entity.enrichment_status == COMPLETE)
    open_conflicts = sa.select(sa.func.count()).where(conflict.state == ConflictState.OPEN)
    total = by_status.total()
    return {
        "total_entities": total,
        "by_status": dict(by_status),
        "success_rate": by_status[COMPLETE] / total if total else 0.0,
        "failure_rate": by_status[FAILED] / total if total else 0.0,
        "pending": by_status[PENDING],
        "in_progress": sum(by_status[word] for word in IN_PROGRESS),
        "average_processing_time_seconds": connection.scalar(average) or 0.0,
        "open_conflicts": connection.scalar(open_conflicts) or 0,
        "waiting_for": waiting_for(connection, tables),
    }


def waiting_for(connection: sa.Connection, tables: Tables) -> dict[str, int]:
    """Count the entities that were tried and wait, by error code, the most frequent first."""
    error = tables.entity.enrichment_error
    tried = (tables.entity.enrichment_status.in_(OPEN), error.is_not(None))
    counted = sa.select(error, sa.func.count()).where(*tried).group_by(error)
    found = Counter[str]()
    for text, number in connection.execute(counted):
        found[str(text).split(":", 1)[0]] += number
    return dict(found.most_common())


def entities(
    connection: sa.Connection,
    tables: Tables,
    *,
    status: str | None = None,
    dataset: str | None = None,
    after: EntityId | None = None,
    most: int = 100,
) -> Sequence[sa.RowMapping]:
    """Return a page of entities by id, after the one with the id `after`."""
    entity = tables.entity
    wanted = sa.select(*columns(tables, LISTED)).order_by(entity.id).limit(most)
    if status is not None:
        wanted = wanted.where(has_status(tables, status))
    if dataset is not None:
        wanted = wanted.where(entity.dataset == dataset)
    if after is not None:
        wanted = wanted.where(entity.id > after)
    return connection.execute(wanted).mappings().all()


def entity_list(
    connection: sa.Connection,
    tables: Tables,
    *,
    search: str = "",
    status: str = "",
    dataset: str = "",
    sort: str = "",
    after: str = "",
    limit: int = 100,
) -> KeysetPage:
    """Return a page of the entities whose name contains a text, in an order that a person chose. Raises UnknownPage.

    Index: ix_entities_by_name, ix_entities_by_confidence or ix_entities_by_added; with a status, in the order of time,
    ix_entities_by_status.
    """
    entity = tables.entity
    keyset = Keyset(list_orders(entity), entity.id, default="-added")
    wanted, filters = sa.select(*columns(tables, LISTED)), []
    if search:
        filters.append(contains(entity.name, search))
    if dataset:
        filters.append(entity.dataset == dataset)
    if status:
        has_it = list_status(entity) == sa.literal(status, sa.Text())
        if sort in ("", "added", "-added"):
            wanted = wanted.where(has_it)
        else:
            filters.append(has_it)
    return keyset.read(connection, wanted, filters=filters, sort=sort, after=after, limit=limit)


def one_entity(connection: sa.Connection, tables: Tables, entity_id: EntityId) -> sa.RowMapping | None:
    wanted = sa.select(*columns(tables, COLUMNS.values())).where(tables.entity.id == entity_id)
    return connection.execute(wanted).mappings().first()


def facts(connection: sa.Connection, tables: Tables, entity_id: EntityId) -> Sequence[sa.RowMapping]:
    fact = tables.fact
    wanted = sa.select(fact.__table__).where(fact.entity_id == entity_id)
    return connection.execute(wanted.order_by(fact.source, fact.property)).mappings().all()


def changes(
    connection: sa.Connection, tables: Tables, entity_id: EntityId, *, most: int = 200
) -> Sequence[sa.RowMapping]:
    """Return the history of an entity, the latest change first."""
    change = tables.change
    wanted = sa.select(change.__table__).where(change.entity_id == entity_id)
    return connection.execute(wanted.order_by(change.id.desc()).limit(most)).mappings().all()


def conflicts(
    connection: sa.Connection,
    tables: Tables,
    *,
    entity_id: EntityId | None = None,
    state: str | None = ConflictState.OPEN,
    after: int = 0,
    most: int = 100,
) -> Sequence[sa.RowMapping]:
    """Return conflicts with the names of their entities, the oldest first, after the conflict with the id `after`."""
    conflict = tables.conflict
    wanted = (
        sa.select(conflict.__table__, *columns(tables, ["name"]))
        .join(tables.entity, tables.entity.id == conflict.entity_id)
        .where(conflict.id > after)
        .order_by(conflict.id)
        .limit(most)
    )
    if entity_id is not None:
        wanted = wanted.where(conflict.entity_id == entity_id)
    if state is not None:
        wanted = wanted.where(conflict.state == state)
    return connection.execute(wanted).mappings().all()
