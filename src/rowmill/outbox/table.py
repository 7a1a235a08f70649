"""The outbox table: ready-made as a Table or an ORM mixin, or your own table with mapped columns."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, MetaData, Table
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, declared_attr, mapped_column

from rowmill.model.option_names import checks_options
from rowmill.model.queue import Columns
from rowmill.model.states import States

MOMENT = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
PAYLOAD = sa.JSON().with_variant(JSONB(), "postgresql")

WORDS = States(
    ready="pending", running="processing", waiting="waiting", done="processed", dead="dead", cancelled="cancelled"
)


@checks_options
@dataclass(frozen=True, slots=True)
class OutboxColumns(Columns):
    """Maps the columns of an outbox: those of the event, and those of every queue."""

    error: str = "last_error"
    finished_at: str = "processed_at"
    created_at: str | None = "created_at"
    event_type: str = "event_type"
    aggregate_id: str = "aggregate_id"
    payload: str = "payload"

    def items(self) -> list[tuple[str, str]]:
        own = ("event_type", "aggregate_id", "payload")
        return [(role, name) for role, name in Columns.items(self) if role not in own]


def finished_index(name: str, state: Any, processed_at: Any) -> sa.Index:
    """Return the index that serves the counts and the deletion of old events."""
    finished = sa.text("processed_at IS NOT NULL")
    return sa.Index(f"{name}_finished", state, processed_at, postgresql_where=finished, sqlite_where=finished)


def outbox_table(metadata: MetaData, name: str = "outbox", *, schema: str | None = None) -> Table:
    """Return a ready-made outbox table. An INSERT of event_type, aggregate_id and payload publishes an event; the other
    columns have defaults.

    `available_at` is never NULL, so that retried events and new ones share one order, and new ones can't starve the
    others.
    """
    state = Column("state", sa.String(20), nullable=False, server_default="pending")
    processed_at = Column("processed_at", MOMENT)
    return Table(
        name,
        metadata,
        Column("id", SERIAL, primary_key=True),
        Column("event_type", sa.Text, nullable=False),
        Column("aggregate_id", sa.Text),
        Column("payload", PAYLOAD, nullable=False, server_default="{}"),
        Column("created_at", MOMENT, nullable=False, server_default=sa.func.now()),
        processed_at,
        Column("attempts", sa.Integer, nullable=False, server_default="0"),
        Column("last_error", sa.Text),
        state,
        Column("available_at", MOMENT, nullable=False, server_default=sa.func.now()),
        Column("lease", sa.BigInteger),
        Column("leased_until", MOMENT),
        finished_index(name, state, processed_at),
        schema=schema,
    )


class OutboxMixin:
    """The columns of an outbox, for your own declarative class."""

    __rowmill_columns__ = OutboxColumns()
    __rowmill_states__ = WORDS

    id: Mapped[int] = mapped_column(SERIAL, primary_key=True)
    event_type: Mapped[str] = mapped_column(sa.Text)
    aggregate_id: Mapped[str | None] = mapped_column(sa.Text)
    payload: Mapped[Any] = mapped_column(PAYLOAD, nullable=False, server_default="{}")
    created_at: Mapped[datetime] = mapped_column(MOMENT, server_default=sa.func.now())
    processed_at: Mapped[datetime | None] = mapped_column(MOMENT)
    attempts: Mapped[int] = mapped_column(server_default="0")
    last_error: Mapped[str | None] = mapped_column(sa.Text)
    state: Mapped[str] = mapped_column(sa.String(20), server_default="pending")
    available_at: Mapped[datetime] = mapped_column(MOMENT, server_default=sa.func.now())
    lease: Mapped[int | None] = mapped_column(sa.BigInteger)
    leased_until: Mapped[datetime | None] = mapped_column(MOMENT)

    @declared_attr.directive
    @classmethod
    def __table_args__(cls) -> Any:
        name = str(getattr(cls, "__tablename__", "outbox"))
        return (finished_index(name, "state", "processed_at"),)
