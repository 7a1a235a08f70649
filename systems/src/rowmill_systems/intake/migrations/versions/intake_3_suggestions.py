"""What is read in files: analyses, suggestions with evidence, notes."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from rowmill.systems.revisions import missing_columns

revision = "intake_3"
down_revision = "intake_2"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(JSONB(), "postgresql")
NOW = sa.func.now()
ADDED: dict[str, tuple[Any, dict[str, Any]]] = {
    "pages_read": (sa.Integer, {"nullable": False, "server_default": "0"}),
    "page_count": (sa.Integer, {}),
    "kind": (sa.String(20), {}),
    "language": (sa.String(10), {}),
    "reused_from": (SERIAL, {}),
}


def of_a_file() -> "sa.Column[int]":
    return sa.Column("file_id", SERIAL, sa.ForeignKey("project_files.id", ondelete="CASCADE"), nullable=False)


def upgrade() -> None:
    for name in missing_columns(op.get_bind(), "project_files", ADDED):
        type_, options = ADDED[name]
        op.add_column("project_files", sa.Column(name, type_, **options))
    op.create_table(
        "file_analyses",
        sa.Column("organization_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("project_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("file_hash", sa.String(64), primary_key=True),
        sa.Column("file_id", SERIAL, nullable=False),
        sa.Column("analysis", JSON, nullable=False),
        sa.Column("analysed_at", MOMENT, nullable=False, server_default=NOW),
        sa.Column("outdated", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.create_table(
        "field_suggestions",
        sa.Column("id", SERIAL, primary_key=True),
        of_a_file(),
        sa.Column("field_key", sa.String(200), nullable=False),
        sa.Column("value", JSON, nullable=False),
        sa.Column("value_hash", sa.String(64), nullable=False),
        sa.Column("confidence", sa.Double, nullable=False),
        sa.Column("page", sa.Integer, nullable=False),
        sa.Column("quote", sa.Text, nullable=False),
        sa.Column("boxes", JSON, nullable=False),
        sa.Column("state", sa.String(20), nullable=False, server_default="pending"),
        sa.Column("applied_value", JSON),
        sa.Column("decided_at", MOMENT),
        sa.Column("decided_by", sa.Text),
        sa.Column("created_at", MOMENT, nullable=False, server_default=NOW),
        sa.UniqueConstraint("file_id", "field_key", "value_hash", name="uq_field_suggestions_value"),
        sa.CheckConstraint("state IN ('pending', 'applied', 'rejected')", name="ck_field_suggestions_state"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "unmapped_notes",
        sa.Column("id", SERIAL, primary_key=True),
        of_a_file(),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("page", sa.Integer, nullable=False),
        sa.Column("quote", sa.Text, nullable=False),
    )
    op.create_index("ix_unmapped_notes_file", "unmapped_notes", ["file_id"])


def downgrade() -> None:
    for name in ("unmapped_notes", "field_suggestions", "file_analyses"):
        op.drop_table(name)
    for name in reversed(ADDED):
        op.drop_column("project_files", name)
