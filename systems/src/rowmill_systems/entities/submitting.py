"""Put entities in: one, or very many."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from rowmill_systems.entities.models import EntityId

if TYPE_CHECKING:
    from rowmill_systems.entities.entities import Entities

ROWS_AT_ONCE = 500
"""Rows in one statement: databases allow some ten thousand parameters."""
EMPTY: dict[str, Any] = dict.fromkeys(("entity_type", "context", "properties", "dataset", "external_id"))


def submit(entities: "Entities", connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> list[EntityId]:
    """Insert entities, ready to be linked, in the transaction of this connection.

    Return their ids. Entities of a dataset that exist already stay as they are, and their ids are returned.
    """
    given = _with_ids(entities, rows)
    _insert(entities, connection, given)
    return _ids(entities, connection, given)


def submit_counted(entities: "Entities", connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> int:
    """Insert entities as `submit` does. Return how many are new."""
    return _insert(entities, connection, _with_ids(entities, rows))


def _with_ids(entities: "Entities", rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**EMPTY, **row, "id": entities.tables.shape.new_id()} for row in rows]


def _insert(entities: "Entities", connection: sa.Connection, given: Sequence[Mapping[str, Any]]) -> int:
    new = 0
    for start in range(0, len(given), ROWS_AT_ONCE):
        some = given[start : start + ROWS_AT_ONCE]
        new += connection.execute(entities.queue.insert(some, unique=["dataset", "external_id"])).rowcount
    return new


def _ids(entities: "Entities", connection: sa.Connection, given: Sequence[Mapping[str, Any]]) -> list[EntityId]:
    """Return the ids in the order of the rows. A row with a dataset and an external id may be there already, under
    another id."""
    placed = [(row["dataset"], row["external_id"]) for row in given if _is_placed(row)]
    entity = entities.tables.entity
    there: dict[tuple[str | None, str | None], EntityId] = {}
    for start in range(0, len(placed), ROWS_AT_ONCE):
        some = placed[start : start + ROWS_AT_ONCE]
        wanted = sa.select(entity.dataset, entity.external_id, entity.id).where(
            sa.tuple_(entity.dataset, entity.external_id).in_(some)
        )
        there |= {(dataset, external_id): id for dataset, external_id, id in connection.execute(wanted)}
    return [there[row["dataset"], row["external_id"]] if _is_placed(row) else row["id"] for row in given]


def _is_placed(row: Mapping[str, Any]) -> bool:
    return row["dataset"] is not None and row["external_id"] is not None
