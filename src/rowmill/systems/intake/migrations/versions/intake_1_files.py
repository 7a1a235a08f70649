"""Files of projects, with a status that a script of the team's went by."""

import sqlalchemy as sa
from alembic import op

revision = "intake_1"
down_revision = None
branch_labels = ("intake",)
depends_on = None


def upgrade() -> None:
    op.create_table(
        "project_files",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
        sa.Column("organization_id", sa.Integer, nullable=False),
        sa.Column("project_id", sa.Integer, nullable=False),
        sa.Column("filename", sa.Text, nullable=False),
        sa.Column("media_type", sa.Text),
        sa.Column("doc_type", sa.Text),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("storage_key", sa.Text, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("processing_status", sa.String(20), nullable=False, server_default="queued"),
        sa.Column("processing_error", sa.Text),
        sa.Column("processed_at", sa.DateTime(timezone=True)),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_project_files_project", "project_files", ["organization_id", "project_id", "id"])


def downgrade() -> None:
    op.drop_table("project_files")
