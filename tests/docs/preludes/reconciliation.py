from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Base(DeclarativeBase): ...


class Document(Base):
    __tablename__ = "document"
    id: Mapped[str] = mapped_column(primary_key=True)
    status: Mapped[str]
    updated_at = mapped_column(sa.DateTime(timezone=True), default=LONG_AGO)


class Event(Base):
    __tablename__ = "event"
    id: Mapped[int] = mapped_column(primary_key=True)
    type: Mapped[str]
    aggregate: Mapped[str]


class Vectors:
    def __init__(self) -> None:
        self.points: list[str] = []

    async def scroll(self, order_by: str) -> AsyncIterator[SimpleNamespace]:
        for key in sorted(self.points):
            yield SimpleNamespace(document_id=key, written_at="2020-01-01T00:00:00Z")

    async def which_exist(self, keys: Sequence[str]) -> list[str]:
        return [key for key in keys if key in self.points]


class Objects:
    def __init__(self) -> None:
        self.names: list[str] = []

    def keys(self) -> list[str]:
        return sorted(self.names)


mill = rm.Mill("sqlite:///never-opened.db")
vectors, objects = Vectors(), Objects()
