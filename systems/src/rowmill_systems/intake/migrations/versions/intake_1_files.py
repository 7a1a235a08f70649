"""Files of projects, with a status that a script of the team's went by. A table that is there gets what it lacks."""

import sqlalchemy as sa
from alembic import op

from rowmill.systems.revisions import missing_columns, missing_indexes
from rowmill_systems.intake.migrations.existing import check_existing

revision = "intake_1"
down_revision = None
branch_labels = ("intake",)
depends_on = None

INDEXES = {"ix_project_files_project": ["organization_id", "project_id", "id"]}


def columns() -> "dict[str, sa.Column[object]]":
    found: list[sa.Column[object]] = [
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
    ]
    return {column.name: column for column in found}


def upgrade() -> None:
    connection = op.get_bind()
    if not sa.inspect(connection).has_table("project_files"):
        op.create_table("project_files", *columns().values(), sqlite_autoincrement=True)
    check_existing(connection, columns())
    for name in missing_columns(connection, "project_files", columns()):
        op.add_column("project_files", columns()[name])
    for name in missing_indexes(connection, "project_files", INDEXES):
        op.create_index(name, "project_files", INDEXES[name])


def downgrade() -> None:
    """The files stay: the table may be older than this revision, and what it holds is nobody else's copy."""
    for name in INDEXES:
        op.drop_index(name, "project_files")
