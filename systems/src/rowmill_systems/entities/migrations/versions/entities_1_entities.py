"""Entities with names, types and local facts, as an extraction leaves them. An older table gets what it lacks."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from rowmill.systems.revisions import missing_columns
from rowmill_systems.entities.foreign_table import check_table
from rowmill_systems.entities.migrations import shape_given

revision = "entities_1"
down_revision = None
branch_labels = ("entities",)
depends_on = None

MOMENT = sa.DateTime(timezone=True)
JSON = sa.JSON().with_variant(JSONB(), "postgresql")


def columns() -> "dict[str, sa.Column[object]]":
    shape = shape_given()
    found: list[sa.Column[object]] = [
        sa.Column(shape.key, shape.key_type, primary_key=True),
        sa.Column(shape.column("name"), sa.Text, nullable=False),
        sa.Column(shape.column("entity_type"), sa.Text),
        sa.Column(shape.column("context"), sa.Text),
        sa.Column(shape.column("properties"), JSON),
        sa.Column(shape.column("dataset"), sa.Text),
        sa.Column(shape.column("external_id"), sa.Text),
        # SQLite adds no column whose default is a time; rows that were there have none.
        sa.Column(shape.column("created_at"), MOMENT, nullable=True, server_default=sa.func.now()),
    ]
    return {column.name: column for column in found}


def upgrade() -> None:
    connection, shape = op.get_bind(), shape_given()
    check_table(connection, shape)
    if not sa.inspect(connection).has_table("entities"):
        op.create_table("entities", *columns().values())
    for name in missing_columns(connection, "entities", columns()):
        column = columns()[name]
        if name == shape.column("created_at") and connection.dialect.name == "sqlite":
            column.server_default = None
        op.add_column("entities", column)
    # An index and not a constraint, since SQLite adds none of those to a table that is there.
    op.create_index(
        "uq_entities_external", "entities", [shape.column("dataset"), shape.column("external_id")], unique=True
    )


def downgrade() -> None:
    """The entities stay: the table may be older than this revision, and what it holds is nobody else's copy."""
    op.drop_index("uq_entities_external", "entities")
