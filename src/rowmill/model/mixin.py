"""The columns of a queue as a mixin for a new table."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from rowmill.model.queue import Columns
from rowmill.model.states import States

MOMENT = sa.DateTime(timezone=True)


class QueueMixin:
    """Add it to a declarative class, or to a SQLModel: the columns and words are Rowmill's defaults.

    class Article(rm.QueueMixin, Base):
        __tablename__ = "article"
        id: Mapped[int] = mapped_column(primary_key=True)
    """

    __rowmill_columns__ = Columns(created_at="created_at", updated_at="updated_at", started_at="started_at")
    __rowmill_states__ = States(
        ready="ready", running="running", waiting="waiting", done="done", dead="dead", cancelled="cancelled"
    )

    state: Mapped[str] = mapped_column(
        sa.String(20), nullable=False, default="ready", server_default="ready", sort_order=900
    )
    attempts: Mapped[int] = mapped_column(sa.Integer, nullable=False, default=0, server_default="0", sort_order=901)
    available_at: Mapped[datetime] = mapped_column(MOMENT, nullable=False, server_default=sa.func.now(), sort_order=902)
    lease: Mapped[int | None] = mapped_column(sa.BigInteger, nullable=True, sort_order=903)
    leased_until: Mapped[datetime | None] = mapped_column(MOMENT, nullable=True, sort_order=904)
    error: Mapped[str | None] = mapped_column(sa.Text, nullable=True, sort_order=905)
    finished_at: Mapped[datetime | None] = mapped_column(MOMENT, nullable=True, sort_order=906)
    started_at: Mapped[datetime | None] = mapped_column(MOMENT, nullable=True, sort_order=907)
    created_at: Mapped[datetime] = mapped_column(MOMENT, nullable=False, server_default=sa.func.now(), sort_order=908)
    updated_at: Mapped[datetime] = mapped_column(MOMENT, nullable=False, server_default=sa.func.now(), sort_order=909)


# The annotations are for type checkers. Pydantic, which SQLModel is built on, would take each for a field of its model
# and fail on `Mapped`; SQLAlchemy needs none, since the columns say their types and whether they may be NULL.
QueueMixin.__annotations__ = {}
