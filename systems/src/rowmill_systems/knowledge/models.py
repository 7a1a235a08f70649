"""The tables of knowledge bases.

`documents.generation` is the fencing token of all three stores. Every run that processes a document, and every request
that deletes or replaces it, raises it. Points and chunks carry the generation that wrote them; a run may make its
generation the visible one (`indexed_generation`) only while it is still the latest.
"""

import uuid
from datetime import datetime
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm
from rowmill_systems.parts.defaults import current_moment, random_uuid

Moment = sa.DateTime(timezone=True)
ObjectKey = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Ordered by its bytes, as object stores list their keys."""


class KnowledgeModel(DeclarativeBase):
    pass


class KbStatus(StrEnum):
    ACTIVE = "active"
    DELETING = "deleting"
    """Its deletion was asked for, and the stores have not confirmed it yet. It is hidden."""
    ARCHIVED = "archived"


class DocumentStatus(StrEnum):
    PENDING = "pending"
    PROCESSING = "processing"
    READY = "ready"
    FAILED = "failed"
    DELETING = "deleting"
    """Its deletion was asked for, and the stores have not confirmed it yet. It is hidden."""
    ARCHIVED = "archived"


HIDDEN = (DocumentStatus.DELETING, DocumentStatus.ARCHIVED)
"""Statuses of documents that people no longer see."""
SEEN = tuple(status for status in DocumentStatus if status not in HIDDEN)
"""Statuses of documents that people see. What an earlier run indexed is found in all of them."""
UNFINISHED_DOCUMENTS = "status IN ('pending', 'processing', 'deleting')"
"""What an event still works on, or should."""


class KnowledgeBase(KnowledgeModel):
    """A collection of documents that are searched together."""

    __tablename__ = "knowledge_bases"

    id: Mapped[uuid.UUID] = mapped_column(sa.Uuid, primary_key=True, default=uuid.uuid4, server_default=random_uuid())
    name: Mapped[str] = mapped_column(sa.Text)
    description: Mapped[str] = mapped_column(sa.Text, server_default="")
    status: Mapped[str] = mapped_column(sa.String(20), server_default=KbStatus.ACTIVE)
    created_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())
    updated_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())
    deleted_at: Mapped[datetime | None] = mapped_column(Moment)
    """When the stores had confirmed the deletion."""

    embedding_model: Mapped[str | None] = mapped_column(sa.Text)
    """The model that made all vectors of its collection. Runs with another one write nothing."""
    dimensions: Mapped[int | None]
    model_since: Mapped[datetime | None] = mapped_column(Moment)
    """When that model was chosen. Processes that started earlier may not choose another one."""
    reembedding: Mapped[bool] = mapped_column(server_default=sa.false())
    """Its collection is being replaced, for another model. No run may begin or end meanwhile."""

    __table_args__ = (
        sa.Index("ix_knowledge_bases_status", "status", "updated_at"),
        sa.Index("ix_knowledge_bases_name", "status", "name", "id"),
        sa.CheckConstraint("status IN ('active', 'deleting', 'archived')", "ck_knowledge_bases_status"),
    )


class KbDocument(KnowledgeModel):
    """A document, where it is, and how far it is."""

    __tablename__ = "documents"

    id: Mapped[uuid.UUID] = mapped_column(sa.Uuid, primary_key=True, default=uuid.uuid4, server_default=random_uuid())
    kb_id: Mapped[uuid.UUID] = mapped_column(sa.Uuid, sa.ForeignKey("knowledge_bases.id"))
    filename: Mapped[str] = mapped_column(sa.Text)
    media_type: Mapped[str | None] = mapped_column(sa.Text)
    """As the uploader said; once the document was read, by its bytes."""
    kind: Mapped[str | None] = mapped_column(sa.String(20))
    """By its bytes."""
    size: Mapped[int] = mapped_column(sa.BigInteger)
    sha256: Mapped[str] = mapped_column(sa.String(64))
    object_key: Mapped[str] = mapped_column(ObjectKey)
    """Where the bytes are."""

    status: Mapped[str] = mapped_column(sa.String(20), server_default=DocumentStatus.PENDING)
    generation: Mapped[int] = mapped_column(server_default="0")
    """The latest run, deletion or replacement. Who has another one may write nothing that is seen."""
    indexed_generation: Mapped[int | None]
    """The generation that search shows."""
    chunk_count: Mapped[int | None]
    """Points that the indexed generation has."""
    embedding_model: Mapped[str | None] = mapped_column(sa.Text)
    """The model of the indexed generation."""
    dimensions: Mapped[int | None]
    event_id: Mapped[int | None] = mapped_column(sa.BigInteger)
    """The event that processes or deletes it, or did last. Earlier ones are out of date; later attempts resume."""

    stage: Mapped[str | None] = mapped_column(sa.String(20))
    """What the run does: reading; embedding, once all of its chunks are stored."""
    progress_done: Mapped[int] = mapped_column(server_default="0")
    progress_total: Mapped[int | None]
    pages: Mapped[int | None]
    language: Mapped[str | None] = mapped_column(sa.String(10))
    title: Mapped[str | None] = mapped_column(sa.Text)

    retry_count: Mapped[int] = mapped_column(server_default="0")
    """Failed tries."""
    last_error: Mapped[str | None] = mapped_column(sa.Text)
    error_code: Mapped[str | None] = mapped_column(sa.String(100))
    processing_started_at: Mapped[datetime | None] = mapped_column(Moment)
    processed_at: Mapped[datetime | None] = mapped_column(Moment)
    created_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())
    updated_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())
    deleted_at: Mapped[datetime | None] = mapped_column(Moment)
    """When the stores had confirmed the deletion."""

    __table_args__ = (
        sa.Index("ix_documents_kb", "kb_id", "created_at", "id"),
        sa.Index("ix_documents_kb_status", "kb_id", "status", "created_at", "id"),
        sa.Index("ix_documents_kb_name", "kb_id", "filename", "id"),
        sa.Index("uq_documents_object", "object_key", unique=True),
        sa.Index(
            "ix_documents_unfinished",
            "status",
            "updated_at",
            postgresql_where=sa.text(UNFINISHED_DOCUMENTS),
            sqlite_where=sa.text(UNFINISHED_DOCUMENTS),
        ),
        sa.CheckConstraint(f"status IN ({', '.join(repr(str(one)) for one in DocumentStatus)})", "ck_documents_status"),
    )


class Chunk(KnowledgeModel):
    """A passage of a document, for full text and for quotes. Its vector is in the vector store."""

    __tablename__ = "chunks"

    document_id: Mapped[uuid.UUID] = mapped_column(
        sa.Uuid, sa.ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True
    )
    generation: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    kb_id: Mapped[uuid.UUID] = mapped_column(sa.Uuid)
    page: Mapped[int | None]
    page_title: Mapped[str] = mapped_column(sa.Text, server_default="")
    heading: Mapped[str] = mapped_column(sa.Text, server_default="")
    """The headings that it stands under, from the outermost."""
    text: Mapped[str] = mapped_column(sa.Text)


class KbUpload(KnowledgeModel):
    """An upload that is under way. A row of the queue `uploads`.

    It is written before the first byte reaches the object store, and deleted in the transaction that accepts the
    document. So every object is named by a row before it exists. If the server dies, the row comes due, and what was
    stored is removed.
    """

    __tablename__ = "uploads"

    id: Mapped[uuid.UUID] = mapped_column(sa.Uuid, primary_key=True, default=uuid.uuid4)
    kb_id: Mapped[uuid.UUID] = mapped_column(sa.Uuid)
    document_id: Mapped[uuid.UUID] = mapped_column(sa.Uuid)
    state: Mapped[str] = mapped_column(sa.String(20), server_default="open")
    attempts: Mapped[int] = mapped_column(server_default="0")
    available_at: Mapped[datetime | None] = mapped_column(Moment)
    lease: Mapped[int | None] = mapped_column(sa.BigInteger)
    leased_until: Mapped[datetime | None] = mapped_column(Moment)
    error: Mapped[str | None] = mapped_column(sa.Text)
    created_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())
    finished_at: Mapped[datetime | None] = mapped_column(Moment)


class OutboxEvent(rm.outbox.OutboxMixin, KnowledgeModel):
    """An event about a document or a knowledge base, written with the change that it is about."""

    __tablename__ = "outbox"


sa.Index("outbox_aggregate", OutboxEvent.aggregate_id, OutboxEvent.id)
sa.Index(
    "outbox_dead", OutboxEvent.id, postgresql_where=sa.text("state = 'dead'"), sqlite_where=sa.text("state = 'dead'")
)


class KnowledgeUser(KnowledgeModel):
    """A person who may log in."""

    __tablename__ = "users"

    id: Mapped[uuid.UUID] = mapped_column(sa.Uuid, primary_key=True, default=uuid.uuid4, server_default=random_uuid())
    email: Mapped[str] = mapped_column(sa.Text)
    """In lower case."""
    password_hash: Mapped[str | None] = mapped_column(sa.Text)
    role: Mapped[str] = mapped_column(sa.String(20), server_default="viewer")
    """viewer or editor; administrators may all that editors may."""
    is_superuser: Mapped[bool] = mapped_column(server_default=sa.false())
    is_active: Mapped[bool] = mapped_column(server_default=sa.true())
    created_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())
    last_login_at: Mapped[datetime | None] = mapped_column(Moment)

    __table_args__ = (sa.Index("uq_users_email", "email", unique=True),)


class LoginToken(KnowledgeModel):
    """A session of a browser, or a bearer token of a program. Only its hash is stored."""

    __tablename__ = "login_tokens"

    id: Mapped[uuid.UUID] = mapped_column(sa.Uuid, primary_key=True, default=uuid.uuid4, server_default=random_uuid())
    token_hash: Mapped[str] = mapped_column(sa.String(64))
    user_id: Mapped[uuid.UUID] = mapped_column(sa.Uuid, sa.ForeignKey("users.id", ondelete="CASCADE"))
    kind: Mapped[str] = mapped_column(sa.String(20))
    """session or bearer."""
    name: Mapped[str] = mapped_column(sa.Text, server_default="")
    created_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())
    expires_at: Mapped[datetime | None] = mapped_column(Moment)
    last_used_at: Mapped[datetime | None] = mapped_column(Moment)

    __table_args__ = (
        sa.Index("uq_login_tokens_hash", "token_hash", unique=True),
        sa.Index("ix_login_tokens_user", "user_id"),
    )


class LoginFailure(KnowledgeModel):
    """Failed logins of a name or an address, to slow down those who guess."""

    __tablename__ = "login_failures"

    subject: Mapped[str] = mapped_column(sa.String(100), primary_key=True)
    """`user:` or `address:` and a hash."""
    failures: Mapped[int] = mapped_column(server_default="0")
    blocked_until: Mapped[datetime | None] = mapped_column(Moment)
    updated_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())
