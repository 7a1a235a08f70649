"""The tables of intake. `project_files` existed before Rowmill, and kept its names."""

import enum
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

Moment = sa.DateTime(timezone=True)
Serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
NEVER_AGAIN = {"sqlite_autoincrement": True}
"""Without it, SQLite reuses the number of a deleted row: a person who applies a replaced suggestion would apply another
one."""


class IntakeBase(DeclarativeBase):
    pass


class ProjectFile(IntakeBase):
    """A file of a project, and its progress."""

    __tablename__ = "project_files"

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    organization_id: Mapped[int]
    project_id: Mapped[int]
    filename: Mapped[str] = mapped_column(sa.Text)
    media_type: Mapped[str | None] = mapped_column(sa.Text)
    """As the uploader said."""
    doc_type: Mapped[str | None] = mapped_column(sa.Text)
    size_bytes: Mapped[int] = mapped_column(sa.BigInteger)
    file_hash: Mapped[str | None] = mapped_column(sa.String(64))
    storage_key: Mapped[str] = mapped_column(sa.Text)
    created_at: Mapped[datetime] = mapped_column(Moment, server_default=sa.func.now())

    processing_status: Mapped[str] = mapped_column(sa.String(20), server_default="queued")
    processing_attempts: Mapped[int] = mapped_column(server_default="0")
    processing_started_at: Mapped[datetime | None] = mapped_column(Moment)
    processing_available_at: Mapped[datetime | None] = mapped_column(Moment)
    processing_error: Mapped[str | None] = mapped_column(sa.Text)
    processed_at: Mapped[datetime | None] = mapped_column(Moment)
    lease: Mapped[int | None] = mapped_column(sa.BigInteger)
    leased_until: Mapped[datetime | None] = mapped_column(Moment)

    pages_read: Mapped[int] = mapped_column(server_default="0")
    page_count: Mapped[int | None]
    kind: Mapped[str | None] = mapped_column(sa.String(20))
    """By its bytes."""
    language: Mapped[str | None] = mapped_column(sa.String(10))
    reused_from: Mapped[int | None] = mapped_column(Serial)
    """The file of the same bytes whose analysis this one shares."""

    __table_args__ = (
        sa.Index(
            "ix_project_files_queued",
            "processing_available_at",
            "created_at",
            postgresql_where=sa.text("processing_status = 'queued'"),
            sqlite_where=sa.text("processing_status = 'queued'"),
        ),
        sa.Index(
            "ix_project_files_processing",
            "processing_started_at",
            postgresql_where=sa.text("processing_status = 'processing'"),
            sqlite_where=sa.text("processing_status = 'processing'"),
        ),
        sa.Index("ix_project_files_project", "organization_id", "project_id", "id"),
        NEVER_AGAIN,
    )


class FileAnalysis(IntakeBase):
    """The analysis of a project's bytes, shared by all files with the same bytes."""

    __tablename__ = "file_analyses"

    organization_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    project_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    file_hash: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    file_id: Mapped[int] = mapped_column(Serial)
    analysis: Mapped[dict[str, Any]] = mapped_column(Json)
    analysed_at: Mapped[datetime] = mapped_column(Moment, server_default=sa.func.now())
    outdated: Mapped[bool] = mapped_column(server_default=sa.false())
    """Somebody wants the bytes analysed anew. Until that is done, files that share it still have it to show."""


class SuggestionState(enum.StrEnum):
    PENDING = "pending"
    APPLIED = "applied"
    REJECTED = "rejected"


class FieldSuggestion(IntakeBase):
    """A value for a field that was found in a file, and the decision about it. Each value exists once."""

    __tablename__ = "field_suggestions"

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    file_id: Mapped[int] = mapped_column(Serial, sa.ForeignKey("project_files.id", ondelete="CASCADE"))
    field_key: Mapped[str] = mapped_column(sa.String(200))
    value: Mapped[Any] = mapped_column(Json)
    value_hash: Mapped[str] = mapped_column(sa.String(64))
    confidence: Mapped[float]
    page: Mapped[int]
    quote: Mapped[str] = mapped_column(sa.Text)
    boxes: Mapped[list[list[float]]] = mapped_column(Json)
    state: Mapped[str] = mapped_column(sa.String(20), server_default=SuggestionState.PENDING)
    applied_value: Mapped[Any | None] = mapped_column(Json)
    """What a person put in place of the value."""
    decided_at: Mapped[datetime | None] = mapped_column(Moment)
    decided_by: Mapped[str | None] = mapped_column(sa.Text)
    created_at: Mapped[datetime] = mapped_column(Moment, server_default=sa.func.now())

    __table_args__ = (
        sa.UniqueConstraint("file_id", "field_key", "value_hash", name="uq_field_suggestions_value"),
        sa.CheckConstraint("state IN ('pending', 'applied', 'rejected')", name="ck_field_suggestions_state"),
        NEVER_AGAIN,
    )


class UnmappedNote(IntakeBase):
    """A labelled value in a file, without a field in the catalogue."""

    __tablename__ = "unmapped_notes"

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    file_id: Mapped[int] = mapped_column(Serial, sa.ForeignKey("project_files.id", ondelete="CASCADE"))
    label: Mapped[str] = mapped_column(sa.Text)
    value: Mapped[str] = mapped_column(sa.Text)
    page: Mapped[int]
    quote: Mapped[str] = mapped_column(sa.Text)

    __table_args__ = (sa.Index("ix_unmapped_notes_file", "file_id"),)
