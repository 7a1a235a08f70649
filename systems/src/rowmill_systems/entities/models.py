"""The tables of entities. To enqueue an entity is to insert its row, so the table may be somebody else's: names of its
columns and the type of its ids are settings, and the ORM classes are made to fit by `tables_of`."""

import enum
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedColumn, mapped_column

from rowmill_systems.parts.services.cache import answers_table

TABLE = "entities"
Moment = sa.DateTime(timezone=True)
Serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
NEVER_AGAIN = {"sqlite_autoincrement": True}
"""SQLite gives the number of a deleted row to the next one otherwise."""
EntityId = str | uuid.UUID
IdType = Literal["text", "uuid"]
ID_TYPES: dict[IdType, "sa.types.TypeEngine[Any]"] = {"text": sa.Text(), "uuid": sa.Uuid()}


M = TypeVar("M", bound="Mixin")


class EntitiesBase(DeclarativeBase):
    """Of tables that are the same in every database."""


class Mixin:
    """Columns of a table; `tables_of` maps them."""

    if TYPE_CHECKING:
        __table__: ClassVar[sa.Table]


class Entity(Mixin):
    """Something with a name, what is known of it here, what it was linked to, and how far its enrichment is."""

    id: Mapped[EntityId]
    name: Mapped[str] = mapped_column(sa.Text)
    entity_type: Mapped[str | None] = mapped_column(sa.Text)
    """In the words of whoever extracted it: person, ORG, GPE…"""
    context: Mapped[str | None] = mapped_column(sa.Text)
    """Words around the name, where it was found."""
    properties: Mapped[dict[str, Any] | None] = mapped_column(Json)
    """Local facts. Enrichment reads them, and never writes them."""
    dataset: Mapped[str | None] = mapped_column(sa.Text)
    external_id: Mapped[str | None] = mapped_column(sa.Text)
    """What the sender calls it, in their dataset: an entity that is sent twice is there once."""
    created_at: Mapped[datetime | None] = mapped_column(Moment, server_default=sa.func.now())

    enrichment_status: Mapped[str | None] = mapped_column(sa.String(20), server_default="PENDING")
    """NULL means PENDING. A trigger writes it; `reads` says it of rows that no trigger saw."""
    enrichment_error: Mapped[str | None] = mapped_column(sa.Text)
    enrichment_retry_count: Mapped[int | None] = mapped_column(sa.Integer, server_default="0")
    enrichment_available_at: Mapped[datetime | None] = mapped_column(Moment)
    enriched_at: Mapped[datetime | None] = mapped_column(Moment)
    enrichment_note: Mapped[str | None] = mapped_column(sa.Text)
    enrichment_seconds: Mapped[float] = mapped_column(sa.Double, server_default="0")
    """Time spent on it in all stages, without the time that it waited."""
    answers_since: Mapped[datetime | None] = mapped_column(Moment)
    """Answers of services that were kept before this time do not count for the entity."""
    lease: Mapped[int | None] = mapped_column(sa.BigInteger)
    leased_until: Mapped[datetime | None] = mapped_column(Moment)

    wikidata_id: Mapped[str | None] = mapped_column(sa.String(20))
    dbpedia_uri: Mapped[str | None] = mapped_column(sa.Text)
    other_ids: Mapped[dict[str, str] | None] = mapped_column(Json)
    """In other sources, by their names."""
    linking_confidence: Mapped[float | None] = mapped_column(sa.Double)
    linking_source: Mapped[str | None] = mapped_column(sa.Text)
    """Names of sources, joined by `+`; `person`, if a person chose."""
    linking_label: Mapped[str | None] = mapped_column(sa.Text)
    linking_reason: Mapped[str | None] = mapped_column(sa.Text)
    """Why there is no link."""
    linking_candidates: Mapped[list[Any] | None] = mapped_column(Json)
    """Who may be meant, the likeliest first, with scores and what they are made of."""
    enriched_properties: Mapped[dict[str, Any] | None] = mapped_column(Json)
    """Local facts and those of the sources, merged: by property, the value and who says so."""


class EntityFact(Mixin):
    """What a source says of a property of an entity, as of the last time that it said something else."""

    entity_id: Mapped[EntityId]
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


class EntityConflict(Mixin):
    """Two values for a property that has one, by two that know. A person decides; until then the local value holds, or
    that of the source that is believed first."""

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    entity_id: Mapped[EntityId]
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


class EntityChange(Mixin):
    """Something that changed: a link, what the sources say, a decision. Nothing is written where nothing changed."""

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    entity_id: Mapped[EntityId]
    at: Mapped[datetime] = mapped_column(Moment, server_default=sa.func.now())
    kind: Mapped[str] = mapped_column(sa.String(20))
    """linked, unlinked, chosen, facts, merged, decided, queued, edited."""
    detail: Mapped[dict[str, Any]] = mapped_column(Json)


service_answers = answers_table("entity_service_answers", EntitiesBase.metadata)

COLUMNS: dict[str, str] = {"entity_id": "id"} | {
    name: name for name, value in vars(Entity).items() if isinstance(value, MappedColumn) and name != "id"
}
"""The usual names of an entity's columns, and the attributes that they are known by here."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What differs from one table of entities to another."""

    renamed: frozenset[tuple[str, str]] = frozenset()
    """Columns that the table calls otherwise: the usual name, and its own."""
    id_type: IdType = "text"

    def column(self, usual: str) -> str:
        """Return the name that the table has for a column."""
        return dict(self.renamed).get(usual, usual)

    @property
    def key(self) -> str:
        return self.column("entity_id")

    @property
    def key_type(self) -> "sa.types.TypeEngine[Any]":
        return ID_TYPES[self.id_type]

    def new_id(self) -> EntityId:
        return uuid.uuid4() if self.id_type == "uuid" else str(uuid.uuid4())

    def id_of(self, text: str) -> EntityId | None:
        """Parse an id; None if no entity can have it."""
        if self.id_type == "text":
            return text
        try:
            return uuid.UUID(text)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """The ORM classes of one shape."""

    shape: Shape
    entity: type[Entity]
    fact: type[EntityFact]
    conflict: type[EntityConflict]
    change: type[EntityChange]
    metadata: sa.MetaData


@cache
def tables_of(shape: Shape) -> Tables:
    """Return the ORM classes of a shape. The same shape gives the same classes."""
    base = type("Base", (DeclarativeBase,), {})
    key = mapped_column(shape.key, shape.key_type, primary_key=True)
    entity = _mapped(base, TABLE, Entity, {"id": key, **_renamed(shape)})

    def refers(**more: Any) -> MappedColumn[Any]:
        to = sa.ForeignKey(entity.__table__.c[shape.key], ondelete="CASCADE")
        return mapped_column(shape.key_type, to, nullable=False, **more)

    fact = _mapped(base, "entity_facts", EntityFact, {"entity_id": refers(primary_key=True)})
    conflict = _mapped(base, "entity_conflicts", EntityConflict, {"entity_id": refers()}, **NEVER_AGAIN)
    change = _mapped(base, "entity_changes", EntityChange, {"entity_id": refers()}, **NEVER_AGAIN)
    sa.Index("uq_entities_external", entity.dataset, entity.external_id, unique=True)
    sa.Index("ix_entities_status", entity.enrichment_status, entity.created_at, entity.id)
    for name, expressions in list_indexes(entity).items():
        sa.Index(name, *expressions)
    sa.Index("ix_entity_conflicts_state", conflict.state, conflict.id)
    sa.Index("ix_entity_changes_entity", change.entity_id, change.id)
    conflict.__table__.append_constraint(
        sa.UniqueConstraint("entity_id", "property", "values_hash", name="uq_entity_conflicts_values")
    )
    conflict.__table__.append_constraint(
        sa.CheckConstraint("state IN ('open', 'decided', 'settled')", name="ck_entity_conflicts_state")
    )
    return Tables(shape, entity, fact, conflict, change, entity.__table__.metadata)


EARLIEST = "'1970-01-01 00:00:00+00'"


def list_orders(entity: Any) -> "dict[str, sa.ColumnElement[Any]]":
    """Return the orders of the list of entities: expressions that are never NULL. An index serves each."""
    return {
        "name": sa.func.lower(sa.func.coalesce(entity.name, sa.literal_column("''")), type_=sa.Text()),
        "confidence": sa.func.coalesce(entity.linking_confidence, sa.literal_column("-1.0", sa.Double())),
        "added": sa.func.coalesce(entity.created_at, sa.literal_column(EARLIEST, Moment)),
    }


def list_status(entity: Any) -> "sa.ColumnElement[str]":
    """Return the status that the list shows: NULL is PENDING."""
    return sa.func.coalesce(entity.enrichment_status, sa.literal_column("'PENDING'"), type_=sa.Text())


def list_indexes(entity: Any) -> "dict[str, tuple[sa.ColumnElement[Any], ...]]":
    """Return the indexes of the list by name: one for each order, and one for the entities of one status."""
    orders = list_orders(entity)
    found = {f"ix_entities_by_{name}": (expression, entity.id) for name, expression in orders.items()}
    return {**found, "ix_entities_by_status": (list_status(entity), orders["added"], entity.id)}


def _renamed(shape: Shape) -> dict[str, MappedColumn[Any]]:
    found = {}
    for usual, name in shape.renamed:
        if usual != "entity_id":
            column = vars(Entity)[COLUMNS[usual]].column
            default = None if column.server_default is None else column.server_default.arg
            found[COLUMNS[usual]] = mapped_column(name, column.type, server_default=default)
    return found


def _mapped(
    base: type[Any], table: str, mixin: type[M], columns: Mapping[str, MappedColumn[Any]], **options: bool
) -> type[M]:
    """Map the columns of a mixin to a table, with `columns` in place of its own of the same names."""
    annotations = {name: mixin.__annotations__[name] for name in columns}
    namespace = {"__tablename__": table, "__table_args__": options, "__annotations__": annotations, **columns}
    return type(mixin.__name__, (mixin, base), namespace)
