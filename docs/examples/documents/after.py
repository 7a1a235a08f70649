"""Documents, read in the background: the same table, on Rowmill, eight at a time."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm

Moment = sa.DateTime(timezone=True)


class Base(DeclarativeBase):
    pass


class Document(Base):
    __tablename__ = "Documents"

    id: Mapped[int] = mapped_column("documentId", primary_key=True)
    file_name: Mapped[str] = mapped_column("fileName")
    page_count: Mapped[int | None] = mapped_column("pageCount")
    status: Mapped[str] = mapped_column("processingStatus", sa.String(12), default="QUEUED", server_default="QUEUED")
    error: Mapped[str | None] = mapped_column("processingError", sa.Text)
    started_at: Mapped[datetime | None] = mapped_column("processingStartedAt")
    processed_at: Mapped[datetime | None] = mapped_column("processedAt")
    created_at: Mapped[datetime] = mapped_column("createdAt", server_default=sa.func.now())
    attempts: Mapped[int] = mapped_column(default=0, server_default="0")
    available_at: Mapped[datetime | None] = mapped_column(Moment)
    lease: Mapped[int | None] = mapped_column(sa.BigInteger)
    leased_until: Mapped[datetime | None] = mapped_column(Moment)


mill = rm.Mill()
documents = mill.queue(
    Document,
    name="documents",
    columns=rm.Columns(
        state="status", error="error", finished_at="processed_at", started_at="started_at", created_at="created_at"
    ),
    states=rm.States(ready="QUEUED", running="PROCESSING", done="COMPLETED", dead="FAILED"),
    lease=rm.minutes(15),
)


class Unreadable(rm.PermanentError):
    code = "unreadable"


def read(name: str) -> int:
    """How many pages. A stand-in for a parser, which is slow and not async."""
    if name.endswith(".broken"):
        raise Unreadable(name)
    return len(name)


@documents.handler(concurrency=8)
def ingest(document: rm.Lease[Document]) -> dict[str, int]:
    return {"page_count": read(document.row.file_name)}
