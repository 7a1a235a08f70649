"""The tables of five teams, with their own words and columns, and what a queue needs besides."""

import uuid
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, MetaData, Table

import rowmill as rm

MOMENT = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def lease_columns() -> list["Column[Any]"]:
    """What no hand-written queue has: a token, and when it ends."""
    return [Column("lease", sa.BigInteger), Column("leased_until", MOMENT)]


def companies(mill: rm.Mill) -> rm.Queue[rm.Record]:
    """C1: requests to resolve a company name, one open request per normalised name."""
    open_requests = sa.text("status IN ('pending', 'processing')")
    table = Table(
        "enrichment_requests",
        MetaData(),
        Column("id", SERIAL, primary_key=True),
        Column("raw_name", sa.Text, nullable=False),
        Column("normalized_name", sa.Text, nullable=False),
        Column("status", sa.Text, nullable=False, server_default="pending"),
        Column("attempts", sa.Integer, nullable=False, server_default="0"),
        Column("next_retry_at", MOMENT),
        Column("last_error", sa.Text),
        Column("resolved_company_id", sa.Text),
        Column("created_at", MOMENT, nullable=False, server_default=sa.func.now()),
        Column("updated_at", MOMENT, nullable=False, server_default=sa.func.now()),
        Column("finished_at", MOMENT),
        *lease_columns(),
        sa.CheckConstraint("status IN ('pending', 'processing', 'done', 'failed')", name="status_known"),
        sa.Index(
            "one_open_request",
            "normalized_name",
            unique=True,
            postgresql_where=open_requests,
            sqlite_where=open_requests,
        ),
        schema="enterprise",
    )
    return mill.queue(
        table,
        columns=rm.Columns(
            state="status",
            available_at="next_retry_at",
            error="last_error",
            created_at="created_at",
            updated_at="updated_at",
        ),
        states=rm.States(ready="pending", running="processing", done="done", dead="failed"),
        retry=rm.Retry(attempts=3, backoff=rm.steps(rm.minutes(1), rm.minutes(5), rm.minutes(15))),
        lease=rm.minutes(15),
    )


def articles(mill: rm.Mill) -> rm.Queue[rm.Record]:
    """A2: articles to be classified, the freshest first."""
    metadata = MetaData()
    Table(
        "contents",
        metadata,
        Column("id", sa.Uuid, primary_key=True, default=uuid.uuid4),
        Column("title", sa.Text, nullable=False),
        Column("topics", sa.JSON),
    )
    table = Table(
        "classification_queue",
        metadata,
        Column("id", sa.Uuid, primary_key=True, default=uuid.uuid4),
        Column("content_id", sa.Uuid, sa.ForeignKey("contents.id", ondelete="CASCADE"), nullable=False, unique=True),
        Column(
            "status",
            sa.Enum("pending", "processing", "completed", "failed", "cancelled", name="classification_status"),
            nullable=False,
            server_default="pending",
        ),
        Column("priority", sa.Integer, nullable=False, server_default="0"),
        Column("retry_count", sa.Integer, nullable=False, server_default="0"),
        Column("error_message", sa.Text),
        Column("created_at", MOMENT, nullable=False, server_default=sa.func.now()),
        Column("updated_at", MOMENT, nullable=False, server_default=sa.func.now()),
        Column("processed_at", MOMENT),
        Column("available_at", MOMENT),
        *lease_columns(),
    )
    return mill.queue(
        table,
        columns=rm.Columns(
            state="status",
            attempts="retry_count",
            error="error_message",
            finished_at="processed_at",
            created_at="created_at",
            updated_at="updated_at",
        ),
        states=rm.States("pending", "processing", "completed", "failed", cancelled="cancelled"),
        order=rm.Order(priority="priority", by=("created_at",)),
        retry=rm.Retry(attempts=3, backoff=rm.fixed(0)),
    )


def files(mill: rm.Mill) -> rm.Queue[rm.Record]:
    """F1: uploaded files on their way through document intake."""
    queued, processing = sa.text("processing_status = 'queued'"), sa.text("processing_status = 'processing'")
    table = Table(
        "project_files",
        MetaData(),
        Column("id", SERIAL, primary_key=True),
        Column("organization_id", sa.Integer, nullable=False),
        Column("project_id", sa.Integer, nullable=False),
        Column("filename", sa.Text, nullable=False),
        Column("file_hash", sa.String(64)),
        Column("created_at", MOMENT, nullable=False, server_default=sa.func.now()),
        Column("processing_status", sa.String(20), nullable=False, server_default="queued"),
        Column("processing_attempts", sa.Integer, nullable=False, server_default="0"),
        Column("processing_started_at", MOMENT),
        Column("processing_available_at", MOMENT),
        Column("processing_error", sa.Text),
        Column("processed_at", MOMENT),
        *lease_columns(),
        sa.Index(
            "project_files_queued",
            "processing_available_at",
            "created_at",
            postgresql_where=queued,
            sqlite_where=queued,
        ),
        sa.Index(
            "project_files_processing", "processing_started_at", postgresql_where=processing, sqlite_where=processing
        ),
    )
    return mill.queue(
        table,
        columns=rm.Columns(
            state="processing_status",
            attempts="processing_attempts",
            available_at="processing_available_at",
            error="processing_error",
            started_at="processing_started_at",
            finished_at="processed_at",
            created_at="created_at",
        ),
        states=rm.States(ready="queued", running="processing", done="completed", dead="failed"),
        order=rm.Order(by=("created_at",)),
        retry=rm.Retry(attempts=3, backoff=rm.exponential(30, cap=600)),
        lease=rm.minutes(15),
        crash_codes=rm.CrashCodes("stale_processing_requeued", "stale_processing_max_attempts"),
    )


def entities(mill: rm.Mill) -> rm.Queue[rm.Record]:
    """E1, E2: entities that are linked to knowledge bases, then enriched, then saved."""
    table = Table(
        "entities",
        MetaData(),
        Column("id", sa.Uuid, primary_key=True, default=uuid.uuid4),
        Column("name", sa.Text, nullable=False),
        Column("wikidata_id", sa.Text),
        Column("properties", sa.JSON),
        Column("note", sa.Text),
        Column("enrichment_status", sa.String(20), nullable=False, server_default="PENDING"),
        Column("enrichment_error", sa.Text),
        Column("enrichment_retry_count", sa.Integer, nullable=False, server_default="0"),
        Column("enriched_at", MOMENT),
        Column("enrichment_available_at", MOMENT),
        *lease_columns(),
    )
    return mill.queue(
        table,
        columns=rm.Columns(
            state="enrichment_status",
            attempts="enrichment_retry_count",
            available_at="enrichment_available_at",
            error="enrichment_error",
            finished_at="enriched_at",
        ),
        states=rm.States(done="COMPLETE", dead="FAILED"),
        stages=[
            rm.Stage("link", "PENDING", "LINKING", waiting="LINK_FAILED"),
            rm.Stage("enrich", "LINKED", "ENRICHING", waiting="ENRICH_FAILED"),
            rm.Stage("save", "ENRICHED", "SAVING"),
        ],
        retry=rm.Retry(attempts=3, backoff=rm.steps(1, 2, 4, 8)),
    )


def outbox(mill: rm.Mill, keep: rm.Retention | None = None) -> rm.Queue[rm.Record]:
    """K1: events of a business change, dispatched in order per aggregate."""
    metadata = MetaData()
    Table("documents", metadata, Column("id", SERIAL, primary_key=True), Column("title", sa.Text))
    table = Table(
        "outbox",
        metadata,
        Column("id", SERIAL, primary_key=True),
        Column("event_type", sa.Text, nullable=False),
        Column("aggregate_id", sa.Text, nullable=False),
        Column("payload", sa.JSON, nullable=False),
        Column("created_at", MOMENT, nullable=False, server_default=sa.func.now()),
        Column("processed_at", MOMENT),
        Column("attempts", sa.Integer, nullable=False, server_default="0"),
        Column("last_error", sa.Text),
        Column("state", sa.SmallInteger, nullable=False, server_default="0"),
        Column("available_at", MOMENT),
        *lease_columns(),
    )
    return mill.queue(
        table,
        columns=rm.Columns(error="last_error", finished_at="processed_at", created_at="created_at"),
        states=rm.States(ready=0, running=1, done=2, dead=3),
        order_per_key=rm.OrderPerKey(per="aggregate_id", on_dead="block"),
        retry=rm.Retry(attempts=5, backoff=rm.exponential(10)),
        retention=keep,
    )
