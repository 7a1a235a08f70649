"""Mappings, reviews, targets and counts."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from rowmill_systems.companies.models import tables_of

revision = "companies_2"
down_revision = "companies_1"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(JSONB(), "postgresql")


def key() -> "sa.Column[int]":
    return sa.Column("id", SERIAL, sa.Identity(), primary_key=True)


def moment(name: str) -> "sa.Column[object]":
    return sa.Column(name, MOMENT, nullable=False, server_default=sa.func.now())


def upgrade() -> None:
    schema = tables_of(op.get_context().dialect.name).requests.schema
    op.create_table(
        "company_mappings",
        key(),
        sa.Column("match_type", sa.String(20), nullable=False),
        sa.Column("alias", sa.Text, nullable=False),
        sa.Column("company_id", sa.String(100)),
        sa.Column("source", sa.String(100), nullable=False, server_default="internal"),
        sa.Column("confidence", sa.Double, nullable=False, server_default="1"),
        moment("created_at"),
        moment("updated_at"),
        sa.Column("expires_at", MOMENT),
        sa.UniqueConstraint("alias", "match_type", "source", name="uq_company_mappings_alias"),
        schema=schema,
    )
    op.create_index("ix_company_mappings_company", "company_mappings", ["company_id"], schema=schema)
    op.create_table(
        "company_mapping_conflicts",
        key(),
        sa.Column("match_type", sa.String(20), nullable=False),
        sa.Column("alias", sa.Text, nullable=False),
        sa.Column("company_id", sa.String(100), nullable=False),
        sa.Column("other_company_id", sa.String(100), nullable=False),
        sa.Column("source", sa.String(100), nullable=False, server_default="internal"),
        moment("created_at"),
        sa.UniqueConstraint("match_type", "alias", "company_id", "other_company_id", name="uq_company_conflicts"),
        schema=schema,
    )
    op.create_table(
        "company_reviews",
        key(),
        sa.Column("normalized_name", sa.Text, nullable=False),
        sa.Column("raw_name", sa.Text, nullable=False),
        sa.Column("provider", sa.String(100), nullable=False),
        sa.Column("candidates", JSON, nullable=False),
        sa.Column("state", sa.String(20), nullable=False, server_default="open"),
        sa.Column("decided_company_id", sa.String(100)),
        sa.Column("decided_by", sa.Text),
        sa.Column("decided_at", MOMENT),
        moment("created_at"),
        sa.CheckConstraint("state IN ('open', 'decided', 'none')", name="ck_company_reviews_state"),
        schema=schema,
        sqlite_autoincrement=True,
    )
    op.create_index("ix_company_reviews_state", "company_reviews", ["state", "id"], schema=schema)
    is_open = sa.text("state IN ('open')")
    op.create_index(
        "uq_company_reviews_open", "company_reviews", ["normalized_name"],
        unique=True, schema=schema, postgresql_where=is_open, sqlite_where=is_open,
    )  # fmt: skip
    op.create_table(
        "company_targets",
        key(),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("column_name", sa.Text, nullable=False),
        sa.Column("rows_written", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("swept_at", MOMENT),
        sa.Column("last_error", sa.Text),
        moment("created_at"),
        sa.UniqueConstraint("table_name", "column_name", name="uq_company_targets_column"),
        schema=schema,
    )
    op.create_table(
        "company_rung_counts",
        sa.Column("day", sa.Date, primary_key=True),
        sa.Column("rung", sa.String(40), primary_key=True),
        sa.Column("writer", sa.Integer, primary_key=True, autoincrement=False, server_default="0"),
        sa.Column("names", sa.BigInteger, nullable=False, server_default="0"),
        schema=schema,
    )


def downgrade() -> None:
    schema = tables_of(op.get_context().dialect.name).requests.schema
    for name in (
        "company_rung_counts", "company_targets", "company_reviews", "company_mapping_conflicts", "company_mappings",
    ):  # fmt: skip
        op.drop_table(name, schema=schema)
