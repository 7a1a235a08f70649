"""The tables of entities. Rows of `entities` come from whoever extracts them: to enqueue one is to insert it."""

import enum
import uuid
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

Moment = sa.DateTime(timezone=True)
Serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
NEVER_AGAIN = {"sqlite_autoincrement": True}
"""SQLite gives the number of a deleted row to the next one otherwise."""


class Base(DeclarativeBase):
    pass


class Entity(Base):
    """Something with a name, what is known of it here, what it was linked to, and how far its enrichment is."""

    __tablename__ = "entities"

    id: Mapped[uuid.UUID] = mapped_column(sa.Uuid, primary_key=True, default=uuid.uuid4)
    name: Mapped[str] = mapped_column(sa.Text)
    entity_type: Mapped[str | None] = mapped_column(sa.Text)
    """In the words of whoever extracted it: person, ORG, GPE…"""
    context: Mapped[str | None] = mapped_column(sa.Text)
    """Words around the name, where it was found."""
    properties: Mapped[dict[str, Any] | None] = mapped_column(Json)
    """Local facts. Enrichment reads them, and never writes them."""
    dataset: Mapped[str | None] = mapped_column(sa.Text)
    external_id: Mapped[str | None] = mapped_column(sa.Text)
    """What whoever put it in calls it, in their dataset: who puts it in twice has it once."""
    created_at: Mapped[datetime | None] = mapped_column(Moment, server_default=sa.func.now())

    enrichment_status: Mapped[str] = mapped_column(sa.String(20), server_default="PENDING")
    enrichment_error: Mapped[str | None] = mapped_column(sa.Text)
    enrichment_retry_count: Mapped[int] = mapped_column(server_default="0")
    enrichment_available_at: Mapped[datetime | None] = mapped_column(Moment)
    enriched_at: Mapped[datetime | None] = mapped_column(Moment)
    enrichment_note: Mapped[str | None] = mapped_column(sa.Text)
    enrichment_seconds: Mapped[float] = mapped_column(sa.Double, server_default="0")
    """At work on it, in all stages together; without the time that it waited."""
    service_failures: Mapped[int] = mapped_column(server_default="0")
    """In a row, at this stage. They cost no attempt, until there are so many that it must be the entity."""
    lease: Mapped[int | None] = mapped_column(sa.BigInteger)
    leased_until: Mapped[datetime | None] = mapped_column(Moment)

    wikidata_id: Mapped[str | None] = mapped_column(sa.String(20))
    dbpedia_uri: Mapped[str | None] = mapped_column(sa.Text)
    other_ids: Mapped[dict[str, str] | None] = mapped_column(Json)
    """In other sources, by their names."""
    link_confidence: Mapped[float | None] = mapped_column(sa.Double)
    link_source: Mapped[str | None] = mapped_column(sa.Text)
    link_label: Mapped[str | None] = mapped_column(sa.Text)
    enriched_properties: Mapped[dict[str, Any] | None] = mapped_column(Json)
    """Local facts and those of the sources, merged: by property, the value and who says so."""

    __table_args__ = (
        sa.Index("uq_entities_external", "dataset", "external_id", unique=True),
        sa.Index("ix_entities_status", "enrichment_status", "created_at", "id"),
    )


class EntityFact(Base):
    """What a source says of a property of an entity, as of the last time that it said something else."""

    __tablename__ = "entity_facts"

    entity_id: Mapped[uuid.UUID] = mapped_column(sa.ForeignKey("entities.id", ondelete="CASCADE"), primary_key=True)
    source: Mapped[str] = mapped_column(sa.String(100), primary_key=True)
    property: Mapped[str] = mapped_column(sa.String(100), primary_key=True)
    values: Mapped[list[Any]] = mapped_column(Json)
    ref: Mapped[str] = mapped_column(sa.Text)
    """The thing's id in that source."""
    since: Mapped[datetime] = mapped_column(Moment, server_default=sa.func.now())


class ConflictState(enum.StrEnum):
    OPEN = "open"
    DECIDED = "decided"
    SETTLED = "settled"
    """By itself: the values agree now, or one of them is gone."""


class EntityConflict(Base):
    """Two values for a property that has one, by two that know. A person decides; until then the local value holds, or
    that of the source that is believed first."""

    __tablename__ = "entity_conflicts"

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    entity_id: Mapped[uuid.UUID] = mapped_column(sa.ForeignKey("entities.id", ondelete="CASCADE"))
    property: Mapped[str] = mapped_column(sa.String(100))
    current_value: Mapped[Any] = mapped_column(Json)
    current_source: Mapped[str] = mapped_column(sa.Text)
    """`local`, or a source; all who say so, joined by `+`."""
    other_value: Mapped[Any] = mapped_column(Json)
    other_source: Mapped[str] = mapped_column(sa.Text)
    values_hash: Mapped[str] = mapped_column(sa.String(64))
    """Of both values: the same contradiction is there once, also after it was decided."""
    state: Mapped[str] = mapped_column(sa.String(20), server_default=ConflictState.OPEN)
    chosen_value: Mapped[Any | None] = mapped_column(Json)
    decided_at: Mapped[datetime | None] = mapped_column(Moment)
    decided_by: Mapped[str | None] = mapped_column(sa.Text)
    created_at: Mapped[datetime] = mapped_column(Moment, server_default=sa.func.now())

    __table_args__ = (
        sa.UniqueConstraint("entity_id", "property", "values_hash", name="uq_entity_conflicts_values"),
        sa.CheckConstraint("state IN ('open', 'decided', 'settled')", name="ck_entity_conflicts_state"),
        sa.Index("ix_entity_conflicts_state", "state", "id"),
        NEVER_AGAIN,
    )


class EntityChange(Base):
    """Something that changed: a link, what the sources say, a decision. Nothing is written where nothing changed."""

    __tablename__ = "entity_changes"

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    entity_id: Mapped[uuid.UUID] = mapped_column(sa.ForeignKey("entities.id", ondelete="CASCADE"))
    at: Mapped[datetime] = mapped_column(Moment, server_default=sa.func.now())
    kind: Mapped[str] = mapped_column(sa.String(20))
    """linked, unlinked, facts, merged, decided, queued, edited."""
    detail: Mapped[dict[str, Any]] = mapped_column(Json)

    __table_args__ = (sa.Index("ix_entity_changes_entity", "entity_id", "id"), NEVER_AGAIN)


class ServiceAnswer(Base):
    """An answer of a service, kept for the whole fleet. Only what it really answered: never a failure."""

    __tablename__ = "entity_service_answers"

    service: Mapped[str] = mapped_column(sa.String(100), primary_key=True)
    question: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    """A hash of all that was asked."""
    answer: Mapped[Any] = mapped_column(Json)
    answered_at: Mapped[datetime] = mapped_column(Moment, server_default=sa.func.now())
    expires_at: Mapped[datetime] = mapped_column(Moment)

    __table_args__ = (sa.Index("ix_entity_service_answers_expiry", "expires_at"),)
