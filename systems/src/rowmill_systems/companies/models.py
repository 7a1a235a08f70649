"""The tables of companies. On PostgreSQL they are in the schema `enterprise`; SQLite has no schemas."""

from datetime import datetime
from functools import cache
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

SCHEMA = "enterprise"
Moment = sa.DateTime(timezone=True)
Serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")

MatchType = Literal["plan_code", "account_number", "hardcode", "account_name", "company_name"]
TIERS: tuple[MatchType, ...] = ("plan_code", "account_number", "hardcode", "account_name", "company_name")
"""Kinds of internal mappings, the strongest first."""
INTERNAL = "internal"
"""The source of a mapping that people made. Any other source is the name of a provider: a cached answer."""
PERSON = "person"
"""The source of a person's "none of the candidates"."""
NO_COMPANY = None
"""The company id of a cached "no match"."""


class CompaniesTables:
    """The tables, for one database."""

    def __init__(self, schema: str | None) -> None:
        self.metadata = sa.MetaData(schema=schema)
        self.requests = sa.Table(
            "enrichment_requests",
            self.metadata,
            _key(),
            sa.Column("raw_name", sa.Text, nullable=False),
            sa.Column("normalized_name", sa.Text, nullable=False),
            sa.Column("temp_id", sa.Text),
            sa.Column("status", sa.String(20), nullable=False, server_default="pending"),
            sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
            sa.Column("next_retry_at", Moment, server_default=sa.func.now()),
            sa.Column("last_error", sa.Text),
            sa.Column("resolved_company_id", sa.String(100)),
            sa.Column("resolved_by", sa.String(100)),
            sa.Column("outcome", sa.String(20)),
            sa.Column("confidence", sa.Double),
            _now("created_at"),
            _now("updated_at"),
            sa.Column("finished_at", Moment),
            sa.Column("lease", sa.BigInteger),
            sa.Column("leased_until", Moment),
            sa.CheckConstraint(
                "status IN ('pending', 'processing', 'done', 'failed')", name="ck_enrichment_requests_status"
            ),
            sa.Index("ix_enrichment_requests_status_next_retry", "status", "next_retry_at"),
            sa.Index("ix_enrichment_requests_status_id", "status", "id"),
            sa.Index("ix_enrichment_requests_name", "normalized_name"),
            sa.Index("ix_enrichment_requests_temp_id", "temp_id"),
            sqlite_autoincrement=True,
        )
        resolved = sa.text("resolved_company_id IS NOT NULL")
        sa.Index(
            "ix_enrichment_requests_resolved",
            self.requests.c.finished_at,
            self.requests.c.id,
            postgresql_where=resolved,
            sqlite_where=resolved,
        )
        open_requests = sa.text("status IN ('pending', 'processing')")
        sa.Index(
            "uq_enrichment_requests_open",
            self.requests.c.normalized_name,
            unique=True,
            postgresql_where=open_requests,
            sqlite_where=open_requests,
        )
        self.mappings = sa.Table(
            "company_mappings",
            self.metadata,
            _key(),
            sa.Column("match_type", sa.String(20), nullable=False),
            sa.Column("alias", sa.Text, nullable=False),
            sa.Column("company_id", sa.String(100)),
            sa.Column("source", sa.String(100), nullable=False, server_default=INTERNAL),
            sa.Column("confidence", sa.Double, nullable=False, server_default="1"),
            _now("created_at"),
            _now("updated_at"),
            sa.Column("expires_at", Moment),
            # The alias first: a name is looked up in all tiers and sources by one descent of the index.
            sa.UniqueConstraint("alias", "match_type", "source", name="uq_company_mappings_alias"),
            sa.Index("ix_company_mappings_company", "company_id"),
        )
        self.conflicts = sa.Table(
            "company_mapping_conflicts",
            self.metadata,
            _key(),
            sa.Column("match_type", sa.String(20), nullable=False),
            sa.Column("alias", sa.Text, nullable=False),
            sa.Column("company_id", sa.String(100), nullable=False),
            sa.Column("other_company_id", sa.String(100), nullable=False),
            sa.Column("source", sa.String(100), nullable=False, server_default=INTERNAL),
            _now("created_at"),
            sa.UniqueConstraint("match_type", "alias", "company_id", "other_company_id", name="uq_company_conflicts"),
        )
        self.reviews = sa.Table(
            "company_reviews",
            self.metadata,
            _key(),
            sa.Column("normalized_name", sa.Text, nullable=False),
            sa.Column("raw_name", sa.Text, nullable=False),
            sa.Column("provider", sa.String(100), nullable=False),
            sa.Column("candidates", Json, nullable=False),
            sa.Column("state", sa.String(20), nullable=False, server_default="open"),
            sa.Column("decided_company_id", sa.String(100)),
            sa.Column("decided_by", sa.Text),
            sa.Column("decided_at", Moment),
            _now("created_at"),
            sa.CheckConstraint("state IN ('open', 'decided', 'none')", name="ck_company_reviews_state"),
            sa.Index("ix_company_reviews_state", "state", "id"),
            sqlite_autoincrement=True,
        )
        sa.Index(
            "uq_company_reviews_open",
            self.reviews.c.normalized_name,
            unique=True,
            postgresql_where=sa.text("state IN ('open')"),
            sqlite_where=sa.text("state IN ('open')"),
        )
        self.targets = sa.Table(
            "company_targets",
            self.metadata,
            _key(),
            sa.Column("table_name", sa.Text, nullable=False),
            sa.Column("column_name", sa.Text, nullable=False),
            sa.Column("rows_written", sa.BigInteger, nullable=False, server_default="0"),
            sa.Column("swept_at", Moment),
            sa.Column("last_error", sa.Text),
            _now("created_at"),
            sa.UniqueConstraint("table_name", "column_name", name="uq_company_targets_column"),
        )
        self.rung_counts = sa.Table(
            "company_rung_counts",
            self.metadata,
            sa.Column("day", sa.Date, primary_key=True),
            sa.Column("rung", sa.String(40), primary_key=True),
            # Transactions that count at the same time write different rows: none waits for another to commit.
            sa.Column("writer", sa.Integer, primary_key=True, autoincrement=False, server_default="0"),
            sa.Column("names", sa.BigInteger, nullable=False, server_default="0"),
        )
        self.meta = sa.Table(
            "company_meta",
            self.metadata,
            sa.Column("key", sa.String(100), primary_key=True),
            sa.Column("value", sa.Text, nullable=False),
        )


@cache
def tables_of(dialect: str) -> CompaniesTables:
    """Return the tables for a database: the same object for the same dialect."""
    return CompaniesTables(SCHEMA if dialect == "postgresql" else None)


def _key() -> "sa.Column[int]":
    return sa.Column("id", Serial, sa.Identity(), primary_key=True)


def _now(name: str) -> "sa.Column[datetime]":
    return sa.Column(name, Moment, nullable=False, server_default=sa.func.now())
