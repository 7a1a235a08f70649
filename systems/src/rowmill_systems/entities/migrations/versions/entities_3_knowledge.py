"""What sources say of entities: facts, conflicts, changes, and their answers."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from rowmill_systems.entities.migrations import shape_given

revision = "entities_3"
down_revision = "entities_2"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(JSONB(), "postgresql")
NOW = sa.func.now()


def of_an_entity(*, primary_key: bool = False) -> "sa.Column[object]":
    shape = shape_given()
    entity = sa.ForeignKey(f"entities.{shape.key}", ondelete="CASCADE")
    return sa.Column("entity_id", shape.key_type, entity, nullable=False, primary_key=primary_key)


def upgrade() -> None:
    op.create_table(
        "entity_facts",
        of_an_entity(primary_key=True),
        sa.Column("source", sa.String(100), primary_key=True),
        sa.Column("property", sa.String(100), primary_key=True),
        sa.Column("values", JSON, nullable=False),
        sa.Column("ref", sa.Text, nullable=False),
        sa.Column("since", MOMENT, nullable=False, server_default=NOW),
    )
    op.create_table(
        "entity_conflicts",
        sa.Column("id", SERIAL, primary_key=True),
        of_an_entity(),
        sa.Column("property", sa.String(100), nullable=False),
        sa.Column("current_value", JSON, nullable=False),
        sa.Column("current_source", sa.Text(), nullable=False),
        sa.Column("other_value", JSON, nullable=False),
        sa.Column("other_source", sa.Text(), nullable=False),
        sa.Column("values_hash", sa.String(64), nullable=False),
        sa.Column("state", sa.String(20), nullable=False, server_default="open"),
        sa.Column("chosen_value", JSON),
        sa.Column("decided_at", MOMENT),
        sa.Column("decided_by", sa.Text),
        sa.Column("created_at", MOMENT, nullable=False, server_default=NOW),
        sa.UniqueConstraint("entity_id", "property", "values_hash", name="uq_entity_conflicts_values"),
        sa.CheckConstraint("state IN ('open', 'decided', 'settled')", name="ck_entity_conflicts_state"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_entity_conflicts_state", "entity_conflicts", ["state", "id"])
    op.create_table(
        "entity_changes",
        sa.Column("id", SERIAL, primary_key=True),
        of_an_entity(),
        sa.Column("at", MOMENT, nullable=False, server_default=NOW),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("detail", JSON, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_entity_changes_entity", "entity_changes", ["entity_id", "id"])
    op.create_table(
        "entity_service_answers",
        sa.Column("service", sa.String(100), primary_key=True),
        sa.Column("question", sa.String(64), primary_key=True),
        sa.Column("answer", JSON, nullable=False),
        sa.Column("answered_at", MOMENT, nullable=False, server_default=NOW),
        sa.Column("expires_at", MOMENT, nullable=False),
    )
    op.create_index("ix_entity_service_answers_expiry", "entity_service_answers", ["expires_at"])


def downgrade() -> None:
    for name in ("entity_service_answers", "entity_changes", "entity_conflicts", "entity_facts"):
        op.drop_table(name)
