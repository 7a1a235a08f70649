"""Knowledge bases, documents, their chunks, uploads, the outbox, and who may log in.

The outbox has what the engine's ready-made one has. Tables of the same names that somebody else made are refused: they
would be read with other eyes.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

import rowmill as rm
from rowmill_systems.knowledge.search.fulltext import create_fulltext, drop_fulltext
from rowmill_systems.parts.defaults import current_moment, random_uuid

revision = "knowledge_1"
down_revision = None
branch_labels = ("knowledge",)
depends_on = None

MOMENT = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON().with_variant(JSONB(), "postgresql")
OBJECT_KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
STATUSES = ("pending", "processing", "ready", "failed", "deleting", "archived")
TABLES = (
    "knowledge_bases", "documents", "chunks", "uploads", "outbox", "users", "login_tokens", "login_failures",
)  # fmt: skip


def uuid_key() -> "sa.Column[Any]":
    return sa.Column("id", sa.Uuid, primary_key=True, server_default=random_uuid())


def moment(name: str) -> "sa.Column[Any]":
    return sa.Column(name, MOMENT, nullable=False, server_default=current_moment())


def count(name: str) -> "sa.Column[Any]":
    return sa.Column(name, sa.Integer, nullable=False, server_default="0")


def lease() -> "list[sa.Column[Any]]":
    return [sa.Column("lease", sa.BigInteger), sa.Column("leased_until", MOMENT)]


def upgrade() -> None:
    connection = op.get_bind()
    refuse_other_tables(connection)
    op.create_table(
        "knowledge_bases",
        uuid_key(),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False, server_default=""),
        sa.Column("status", sa.String(20), nullable=False, server_default="active"),
        moment("created_at"),
        moment("updated_at"),
        sa.Column("deleted_at", MOMENT),
        sa.Column("embedding_model", sa.Text),
        sa.Column("dimensions", sa.Integer),
        sa.Column("model_since", MOMENT),
        sa.Column("reembedding", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.CheckConstraint("status IN ('active', 'deleting', 'archived')", name="ck_knowledge_bases_status"),
    )
    op.create_index("ix_knowledge_bases_status", "knowledge_bases", ["status", "updated_at"])
    op.create_index("ix_knowledge_bases_name", "knowledge_bases", ["status", "name", "id"])
    create_documents()
    create_uploads()
    create_outbox()
    create_users()
    create_fulltext(connection)


def refuse_other_tables(connection: sa.Connection) -> None:
    """Raise SchemaMismatch if a table of the same name is there: nothing of ours was made here before."""
    there = [name for name in TABLES if sa.inspect(connection).has_table(name)]
    if there:
        raise rm.errors.SchemaMismatch(
            f"{', '.join(there)}: there is a table of that name, which knowledge did not make. Give it a database of "
            "its own with KNOWLEDGE_DATABASE_URL, or a schema with ?options=-csearch_path%3Dknowledge"
        )


def create_documents() -> None:
    op.create_table(
        "documents",
        uuid_key(),
        sa.Column("kb_id", sa.Uuid, sa.ForeignKey("knowledge_bases.id"), nullable=False),
        sa.Column("filename", sa.Text, nullable=False),
        sa.Column("media_type", sa.Text),
        sa.Column("kind", sa.String(20)),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("object_key", OBJECT_KEY, nullable=False),
        sa.Column("status", sa.String(20), nullable=False, server_default="pending"),
        count("generation"),
        sa.Column("indexed_generation", sa.Integer),
        sa.Column("chunk_count", sa.Integer),
        sa.Column("embedding_model", sa.Text),
        sa.Column("dimensions", sa.Integer),
        sa.Column("event_id", sa.BigInteger),
        sa.Column("stage", sa.String(20)),
        count("progress_done"),
        sa.Column("progress_total", sa.Integer),
        sa.Column("pages", sa.Integer),
        sa.Column("language", sa.String(10)),
        sa.Column("title", sa.Text),
        count("retry_count"),
        sa.Column("last_error", sa.Text),
        sa.Column("error_code", sa.String(100)),
        sa.Column("processing_started_at", MOMENT),
        sa.Column("processed_at", MOMENT),
        moment("created_at"),
        moment("updated_at"),
        sa.Column("deleted_at", MOMENT),
        sa.CheckConstraint(f"status IN ({', '.join(map(repr, STATUSES))})", name="ck_documents_status"),
    )
    op.create_index("ix_documents_kb", "documents", ["kb_id", "created_at", "id"])
    op.create_index("ix_documents_kb_status", "documents", ["kb_id", "status", "created_at", "id"])
    op.create_index("ix_documents_kb_name", "documents", ["kb_id", "filename", "id"])
    op.create_index("uq_documents_object", "documents", ["object_key"], unique=True)
    unfinished = sa.text("status IN ('pending', 'processing', 'deleting')")
    op.create_index(
        "ix_documents_unfinished",
        "documents",
        ["status", "updated_at"],
        postgresql_where=unfinished,
        sqlite_where=unfinished,
    )
    op.create_table(
        "chunks",
        sa.Column("document_id", sa.Uuid, sa.ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("generation", sa.Integer, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("kb_id", sa.Uuid, nullable=False),
        sa.Column("page", sa.Integer),
        sa.Column("page_title", sa.Text, nullable=False, server_default=""),
        sa.Column("heading", sa.Text, nullable=False, server_default=""),
        sa.Column("text", sa.Text, nullable=False),
    )


def create_uploads() -> None:
    op.create_table(
        "uploads",
        sa.Column("id", sa.Uuid, primary_key=True),
        sa.Column("kb_id", sa.Uuid, nullable=False),
        sa.Column("document_id", sa.Uuid, nullable=False),
        sa.Column("state", sa.String(20), nullable=False, server_default="open"),
        count("attempts"),
        sa.Column("available_at", MOMENT),
        *lease(),
        sa.Column("error", sa.Text),
        moment("created_at"),
        sa.Column("finished_at", MOMENT),
    )


def create_outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("event_type", sa.Text, nullable=False),
        sa.Column("aggregate_id", sa.Text),
        sa.Column("payload", JSON, nullable=False, server_default="{}"),
        sa.Column("created_at", MOMENT, nullable=False, server_default=current_moment()),
        sa.Column("processed_at", MOMENT),
        count("attempts"),
        sa.Column("last_error", sa.Text),
        sa.Column("state", sa.String(20), nullable=False, server_default="pending"),
        sa.Column("available_at", MOMENT, nullable=False, server_default=current_moment()),
        *lease(),
        sqlite_autoincrement=True,  # the number of a deleted event is never another one's
    )
    finished = sa.text("processed_at IS NOT NULL")
    op.create_index(
        "outbox_finished", "outbox", ["state", "processed_at"], postgresql_where=finished, sqlite_where=finished
    )
    dead = sa.text("state = 'dead'")
    op.create_index("outbox_dead", "outbox", ["id"], postgresql_where=dead, sqlite_where=dead)
    op.create_index("outbox_aggregate", "outbox", ["aggregate_id", "id"])  # for the history of a document


def create_users() -> None:
    op.create_table(
        "users",
        uuid_key(),
        sa.Column("email", sa.Text, nullable=False),
        sa.Column("password_hash", sa.Text),
        sa.Column("role", sa.String(20), nullable=False, server_default="viewer"),
        sa.Column("is_superuser", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("is_active", sa.Boolean, nullable=False, server_default=sa.true()),
        moment("created_at"),
        sa.Column("last_login_at", MOMENT),
        sa.CheckConstraint("role IN ('viewer', 'editor')", name="ck_users_role"),
    )
    op.create_index("uq_users_email", "users", ["email"], unique=True)
    op.create_table(
        "login_tokens",
        uuid_key(),
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("user_id", sa.Uuid, sa.ForeignKey("users.id", ondelete="CASCADE"), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("name", sa.Text, nullable=False, server_default=""),
        moment("created_at"),
        sa.Column("expires_at", MOMENT),
        sa.Column("last_used_at", MOMENT),
    )
    op.create_index("uq_login_tokens_hash", "login_tokens", ["token_hash"], unique=True)
    op.create_index("ix_login_tokens_user", "login_tokens", ["user_id"])
    op.create_table(
        "login_failures",
        sa.Column("subject", sa.String(100), primary_key=True),
        count("failures"),
        sa.Column("blocked_until", MOMENT),
        moment("updated_at"),
    )


def downgrade() -> None:
    drop_fulltext(op.get_bind())
    for name in ("login_failures", "login_tokens", "users", "outbox", "uploads", "chunks", "documents"):
        op.drop_table(name)
    op.drop_table("knowledge_bases")
