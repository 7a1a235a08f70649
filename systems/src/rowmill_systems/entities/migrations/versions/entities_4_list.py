"""Indexes of the list of entities, so that a page costs the same in a large table."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from rowmill_systems.entities.migrations import shape_given

revision = "entities_4"
down_revision = "entities_3"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def indexes() -> dict[str, list[Any]]:
    """By name: for each order its expression and the key, and one for the entities of a status."""
    shape = shape_given()
    key: sa.ColumnClause[Any] = sa.column(shape.key)
    name: sa.ColumnClause[Any] = sa.column(shape.column("name"))
    status: sa.ColumnClause[Any] = sa.column(shape.column("enrichment_status"))
    confidence: sa.ColumnClause[Any] = sa.column(shape.column("linking_confidence"))
    created_at: sa.ColumnClause[Any] = sa.column(shape.column("created_at"))
    added = sa.func.coalesce(created_at, sa.literal_column("'1970-01-01 00:00:00+00'", MOMENT))
    pending = sa.func.coalesce(status, sa.literal_column("'PENDING'"))
    return {
        "ix_entities_by_name": [sa.func.lower(sa.func.coalesce(name, sa.literal_column("''"))), key],
        "ix_entities_by_confidence": [sa.func.coalesce(confidence, sa.literal_column("-1.0")), key],
        "ix_entities_by_added": [added, key],
        "ix_entities_by_status": [pending, added, key],
    }


def upgrade() -> None:
    for name, expressions in indexes().items():
        op.create_index(name, "entities", expressions)


def downgrade() -> None:
    for name in indexes():
        op.drop_index(name, "entities")
