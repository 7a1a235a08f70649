"""Columns of a queue for a new table of your own."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from rowmill.model.queue import Columns
from rowmill.model.words import States

MOMENT = sa.DateTime(timezone=True)


class QueueMixin:
    """Add it to a declarative class: the columns and words are Rowmill's defaults."""

    __rowmill_columns__ = Columns(created_at="created_at", updated_at="updated_at", started_at="started_at")
    __rowmill_states__ = States(
        ready="ready", running="running", waiting="waiting", done="done", dead="dead", cancelled="cancelled"
    )

    state: Mapped[str] = mapped_column(sa.String(20), default="ready", server_default="ready", sort_order=900)
    attempts: Mapped[int] = mapped_column(default=0, server_default="0", sort_order=901)
    available_at: Mapped[datetime] = mapped_column(MOMENT, server_default=sa.func.now(), sort_order=902)
    lease: Mapped[int | None] = mapped_column(sa.BigInteger, sort_order=903)
    leased_until: Mapped[datetime | None] = mapped_column(MOMENT, sort_order=904)
    error: Mapped[str | None] = mapped_column(sa.Text, sort_order=905)
    finished_at: Mapped[datetime | None] = mapped_column(MOMENT, sort_order=906)
    started_at: Mapped[datetime | None] = mapped_column(MOMENT, sort_order=907)
    created_at: Mapped[datetime] = mapped_column(MOMENT, server_default=sa.func.now(), sort_order=908)
    updated_at: Mapped[datetime] = mapped_column(MOMENT, server_default=sa.func.now(), sort_order=909)
