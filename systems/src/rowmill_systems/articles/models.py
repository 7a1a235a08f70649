"""The tables of articles."""

import uuid
from datetime import datetime
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from rowmill_systems.parts.defaults import current_moment, random_uuid
from rowmill_systems.parts.values import storable

Moment = sa.DateTime(timezone=True)


class ReadableJson(sa.TypeDecorator[Any]):
    """JSON on SQLite, which checks nothing: a value that is none is read as None, and characters that no page can show
    are left out. One bad value of another program may not break a list."""

    impl = sa.JSON
    cache_ok = True

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        read = super().result_processor(dialect, coltype)

        def process(value: Any) -> Any:
            try:
                return storable(value if read is None else read(value))
            except (ValueError, TypeError, RecursionError):
                return None

        return process


Json = (
    sa.JSON(none_as_null=True)
    .with_variant(JSONB(none_as_null=True), "postgresql")
    .with_variant(ReadableJson(none_as_null=True), "sqlite")
)


class ArticlesBase(DeclarativeBase):
    pass


class FeedSource(ArticlesBase):
    """A feed, and when it is fetched next. It is a row of the queue `sources`: due, fetching, idle, …"""

    __tablename__ = "sources"

    id: Mapped[uuid.UUID] = mapped_column(sa.Uuid, primary_key=True, default=uuid.uuid4, server_default=random_uuid())
    url: Mapped[str] = mapped_column(sa.Text)
    """The address that is fetched. A permanent redirect changes it after it held twice."""
    host: Mapped[str] = mapped_column(sa.Text)
    """Of `url`, in lower case, with a port that is not the usual one: feeds of one host are fetched one at a time."""
    title: Mapped[str] = mapped_column(sa.Text, server_default="")
    site_url: Mapped[str | None] = mapped_column(sa.Text)
    language: Mapped[str | None] = mapped_column(sa.String(20))
    granular_topics: Mapped[list[str] | None] = mapped_column(Json)
    """Topics of the source as a whole. They stand in for those of an article that is not classified yet."""
    created_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())
    updated_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())

    status: Mapped[str] = mapped_column(sa.String(20), server_default="due")
    """due, fetching, idle (until `next_sync_at`), paused (by a person), retired (410), or failed (its fetch kills
    workers)."""
    attempts: Mapped[int] = mapped_column(server_default="0")
    available_at: Mapped[datetime | None] = mapped_column(Moment)
    lease: Mapped[int | None] = mapped_column(sa.BigInteger)
    leased_until: Mapped[datetime | None] = mapped_column(Moment)
    error: Mapped[str | None] = mapped_column(sa.Text)
    finished_at: Mapped[datetime | None] = mapped_column(Moment)

    next_sync_at: Mapped[datetime | None] = mapped_column(Moment)
    fixed_interval_seconds: Mapped[int | None]
    """Set by a person: the interval does not adapt."""
    interval_seconds: Mapped[int | None]
    """The interval that was last chosen."""
    etag: Mapped[str | None] = mapped_column(sa.Text)
    """As the server gave it, byte for byte."""
    last_modified: Mapped[str | None] = mapped_column(sa.Text)
    """As the server gave it, byte for byte."""
    validators_url: Mapped[str | None] = mapped_column(sa.Text)
    """The address that gave `etag` and `last_modified`, after redirects: no other one gets them. NULL: `url`."""
    moved_to: Mapped[str | None] = mapped_column(sa.Text)
    """Where a permanent redirect led the last time."""
    last_sync_at: Mapped[datetime | None] = mapped_column(Moment)
    last_success_at: Mapped[datetime | None] = mapped_column(Moment)
    last_new_at: Mapped[datetime | None] = mapped_column(Moment)
    """When an article was last new."""
    last_status: Mapped[int | None]
    """The HTTP status of the last answer."""
    last_code: Mapped[str | None] = mapped_column(sa.String(60))
    """The code of the last failure; NULL after a success."""
    failures: Mapped[int] = mapped_column(server_default="0")
    """Failed fetches since the last success."""

    __table_args__ = (
        sa.Index(
            "ix_sources_next_sync",
            "next_sync_at",
            postgresql_where=sa.text("status = 'idle'"),
            sqlite_where=sa.text("status = 'idle'"),
        ),
        sa.Index("ix_sources_host", "host"),
        sa.Index("uq_sources_url", "url", unique=True),
    )


class Content(ArticlesBase):
    """An article."""

    __tablename__ = "contents"

    id: Mapped[uuid.UUID] = mapped_column(sa.Uuid, primary_key=True, default=uuid.uuid4, server_default=random_uuid())
    source_id: Mapped[uuid.UUID] = mapped_column(sa.Uuid, sa.ForeignKey("sources.id", ondelete="CASCADE"))
    identity: Mapped[str] = mapped_column(sa.Text)
    """What makes it the same article at the next sync: its guid, otherwise its canonical link, otherwise a hash."""
    url: Mapped[str | None] = mapped_column(sa.Text)
    title: Mapped[str] = mapped_column(sa.Text, server_default="")
    """Plain text."""
    author: Mapped[str | None] = mapped_column(sa.Text)
    description: Mapped[str] = mapped_column(sa.Text, server_default="")
    """Sanitised HTML."""
    text: Mapped[str] = mapped_column(sa.Text, server_default="")
    """The words of the description or content, without markup: what the classifier reads."""
    image_url: Mapped[str | None] = mapped_column(sa.Text)
    language: Mapped[str | None] = mapped_column(sa.String(20))
    text_hash: Mapped[str] = mapped_column(sa.String(64))
    """Of title and text. If it changes, the article is classified again."""
    entry_hash: Mapped[str | None] = mapped_column(sa.String(64))
    """Of all that the feed says of it. While it stays the same, a sync writes nothing."""
    published_at: Mapped[datetime | None] = mapped_column(Moment)
    shown_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())
    """Where it stands in lists: when it was published, but not later than it was saved. Never changed: pages of the
    feed go by it."""
    created_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())
    updated_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())
    topics: Mapped[list[str] | None] = mapped_column(Json)
    """NULL until it is classified; empty if no topic fits."""
    topic_scores: Mapped[dict[str, Any] | None] = mapped_column(Json)
    """The score of each topic."""

    __table_args__ = (
        sa.Index("uq_contents_identity", "source_id", "identity", unique=True),
        # With the default operators: readers ask for articles with any of several topics, `topics ?| …`, which
        # jsonb_path_ops does not serve.
        sa.Index("idx_contents_topics", "topics", postgresql_using="gin"),
        sa.Index("ix_contents_shown", "shown_at", "id"),
        sa.Index("ix_contents_source", "source_id", "shown_at", "id"),
        sa.Index("ix_contents_text", "source_id", "text_hash"),
    )


class ClassificationRequest(ArticlesBase):
    """An article that is to be classified."""

    __tablename__ = "classification_queue"

    id: Mapped[uuid.UUID] = mapped_column(sa.Uuid, primary_key=True, default=uuid.uuid4, server_default=random_uuid())
    content_id: Mapped[uuid.UUID] = mapped_column(sa.Uuid, sa.ForeignKey("contents.id", ondelete="CASCADE"))
    status: Mapped[str] = mapped_column(sa.String(20), server_default="pending")
    """pending, processing, completed, failed or cancelled."""
    priority: Mapped[int] = mapped_column(server_default="0")
    """Higher first."""
    retry_count: Mapped[int] = mapped_column(server_default="0")
    """Failed tries."""
    error_message: Mapped[str | None] = mapped_column(sa.Text)
    created_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())
    updated_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())
    processed_at: Mapped[datetime | None] = mapped_column(Moment)
    available_at: Mapped[datetime | None] = mapped_column(Moment)
    lease: Mapped[int | None] = mapped_column(sa.BigInteger)
    leased_until: Mapped[datetime | None] = mapped_column(Moment)

    __table_args__ = (
        sa.CheckConstraint(
            "status IN ('pending', 'processing', 'completed', 'failed', 'cancelled')",
            name="ck_classification_queue_status",
        ),
        sa.Index("uq_classification_queue_content", "content_id", unique=True),
        sa.Index("idx_queue_status_created", "status", "created_at"),
        sa.Index("idx_queue_priority", sa.text("priority DESC"), "created_at"),
    )


class ArticleReader(ArticlesBase):
    """A person who reads. Without a login there is one, named `me`."""

    __tablename__ = "readers"

    id: Mapped[str] = mapped_column(sa.String(100), primary_key=True)
    topics: Mapped[dict[str, float]] = mapped_column(Json)
    """Weights of topics: positive ones are followed, negative ones are wanted less."""
    sources: Mapped[dict[str, float]] = mapped_column(Json)
    """Weights of sources, by id."""
    created_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())


class ReadMark(ArticlesBase):
    """An article that a reader has read."""

    __tablename__ = "read_marks"

    reader_id: Mapped[str] = mapped_column(
        sa.String(100), sa.ForeignKey("readers.id", ondelete="CASCADE"), primary_key=True
    )
    content_id: Mapped[uuid.UUID] = mapped_column(
        sa.Uuid, sa.ForeignKey("contents.id", ondelete="CASCADE"), primary_key=True
    )
    read_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())

    __table_args__ = (sa.Index("ix_read_marks_content", "content_id"),)


class DeletedArticle(ArticlesBase):
    """An article that a person deleted. A sync does not save it again, however long its feed names it."""

    __tablename__ = "deleted_articles"

    source_id: Mapped[uuid.UUID] = mapped_column(
        sa.Uuid, sa.ForeignKey("sources.id", ondelete="CASCADE"), primary_key=True
    )
    identity: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    deleted_at: Mapped[datetime] = mapped_column(Moment, server_default=current_moment())


CONTENTS = cast("sa.Table", Content.__table__)
QUEUE = cast("sa.Table", ClassificationRequest.__table__)
