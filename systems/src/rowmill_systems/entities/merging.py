"""Merge the facts of an entity in a transaction: write its merged properties, its conflicts and its history."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from rowmill_systems.entities.models import ConflictState, EntityId, Tables
from rowmill_systems.entities.properties.merge import Merged, ValueConflict, merge
from rowmill_systems.entities.things import Fact, local_facts


def note(connection: sa.Connection, tables: Tables, entity_id: EntityId, kind: str, detail: dict[str, Any]) -> None:
    """Add to the entity's history."""
    connection.execute(sa.insert(tables.change).values(entity_id=entity_id, kind=kind, detail=detail))


def replace_facts(connection: sa.Connection, tables: Tables, entity_id: EntityId, facts: Sequence[Fact]) -> None:
    """Replace what sources said before. Facts that did not change keep their time."""
    fact_of = tables.fact
    ours = fact_of.entity_id == entity_id
    rows = connection.execute(sa.select(fact_of.__table__).where(ours))
    before = {(row.source, row.property): (row.values, row.ref) for row in rows}
    now = {(fact.source, fact.property): (list(fact.values), fact.ref) for fact in facts}
    gone, changed = before.keys() - now.keys(), [key for key in now if before.get(key) != now[key]]
    if replaced := sorted(gone | (before.keys() & set(changed))):
        key = sa.tuple_(fact_of.source, fact_of.property)
        connection.execute(sa.delete(fact_of).where(ours, key.in_(replaced)))
    if changed:
        told = [
            {"entity_id": entity_id, "source": key[0], "property": key[1], "values": now[key][0], "ref": now[key][1]}
            for key in changed
        ]
        connection.execute(sa.insert(fact_of), told)
    if gone or changed:
        detail = {"changed": [f"{s}: {p}" for s, p in changed], "gone": [f"{s}: {p}" for s, p in sorted(gone)]}
        note(connection, tables, entity_id, "facts", detail)


def merge_entity(connection: sa.Connection, tables: Tables, entity_id: EntityId, believed: Sequence[str]) -> None:
    """Merge what is known of an entity now. Locks its row: people who change its facts or decide a conflict wait."""
    entity, fact_of = tables.entity, tables.fact
    wanted = sa.select(
        entity.properties.label("properties"), entity.enriched_properties.label("enriched_properties")
    ).where(entity.id == entity_id)
    row = connection.execute(wanted.with_for_update(key_share=True)).one()
    found = connection.execute(sa.select(fact_of.__table__).where(fact_of.entity_id == entity_id))
    facts = [Fact(fact.property, tuple(fact.values), fact.source, fact.ref) for fact in found]
    merged = merge(local_facts(row.properties), facts, believed, decisions(connection, tables, entity_id))
    keep_conflicts(connection, tables, entity_id, merged.conflicts)
    if (row.enriched_properties or {}) != merged.properties:
        connection.execute(
            sa.update(entity).where(entity.id == entity_id).values(enriched_properties=merged.properties)
        )
        note(connection, tables, entity_id, "merged", {"properties": differing(row.enriched_properties or {}, merged)})


def differing(before: dict[str, Any], merged: Merged) -> list[str]:
    return [key for key in before | merged.properties if before.get(key) != merged.properties.get(key)]


def decisions(connection: sa.Connection, tables: Tables, entity_id: EntityId) -> dict[tuple[str, str], Any]:
    """Return what people chose, by property and hash of the conflict, the latest last."""
    conflict = tables.conflict
    wanted = (
        sa.select(conflict.property, conflict.values_hash, conflict.chosen_value)
        .where(conflict.entity_id == entity_id, conflict.decided_at.is_not(None))
        .order_by(conflict.decided_at, conflict.id)
    )
    return {(row.property, row.values_hash): row.chosen_value for row in connection.execute(wanted)}


def keep_conflicts(
    connection: sa.Connection, tables: Tables, entity_id: EntityId, conflicts: Sequence[ValueConflict]
) -> None:
    """Write conflicts.

    A new one is open, or decided if the same one was decided before. One that is gone is settled; if it comes back, it
    has its former state.
    """
    kept = tables.conflict
    rows = connection.execute(sa.select(kept.__table__).where(kept.entity_id == entity_id))
    before = {(row.property, row.values_hash): row for row in rows}
    now = {(conflict.property, conflict.hash()): conflict for conflict in conflicts}
    for key, row in before.items():
        state = ConflictState.SETTLED
        if key in now:
            state = ConflictState.OPEN if row.decided_at is None else ConflictState.DECIDED
        who = (now[key].current_source, now[key].other_source) if key in now else None
        if row.state != state or (who and (row.current_source, row.other_source) != who):
            change = sa.update(kept).where(kept.id == row.id).values(state=state)
            if who:
                change = change.values(current_source=who[0], other_source=who[1])
            connection.execute(change)
    for key, conflict in now.items():
        if key not in before:
            connection.execute(
                sa.insert(kept).values(
                    entity_id=entity_id,
                    property=conflict.property,
                    current_value=conflict.current_value,
                    current_source=conflict.current_source,
                    other_value=conflict.other_value,
                    other_source=conflict.other_source,
                    values_hash=conflict.hash(),
                )
            )
