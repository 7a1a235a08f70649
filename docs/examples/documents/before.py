"""Documents, read in the background: as a team wrote it by hand, one at a time."""

import os
from collections.abc import Callable
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

engine = sa.create_engine(os.environ["DATABASE_URL"])


class Base(DeclarativeBase):
    pass


class Document(Base):
    __tablename__ = "Documents"

    id: Mapped[int] = mapped_column("documentId", primary_key=True)
    file_name: Mapped[str] = mapped_column("fileName")
    page_count: Mapped[int | None] = mapped_column("pageCount")
    status: Mapped[str] = mapped_column("processingStatus", default="QUEUED")
    error: Mapped[str | None] = mapped_column("processingError")
    started_at: Mapped[datetime | None] = mapped_column("processingStartedAt")
    processed_at: Mapped[datetime | None] = mapped_column("processedAt")


def enqueue(file_name: str) -> None:
    with Session(engine) as session, session.begin():
        session.add(Document(file_name=file_name))


def start_up() -> None:
    """Puts back everything in progress, that of other replicas too."""
    with Session(engine) as session, session.begin():
        session.execute(sa.update(Document).where(Document.status == "PROCESSING").values(status="QUEUED"))


def process_one(read: Callable[[str], int]) -> bool:
    with Session(engine) as session, session.begin():
        wanted = sa.select(Document).where(Document.status == "QUEUED").order_by(Document.id).limit(1)
        document = session.scalars(wanted.with_for_update(skip_locked=True)).first()
        if document is None:
            return False
        key, name = document.id, document.file_name
        document.status, document.started_at = "PROCESSING", utc()
    try:
        pages = read(name)
    except Exception as error:
        finish(key, status="FAILED", error=str(error))
    else:
        finish(key, status="COMPLETED", page_count=pages)
    return True


def finish(key: int, **values: object) -> None:
    with Session(engine) as session, session.begin():
        session.execute(sa.update(Document).where(Document.id == key).values(processed_at=utc(), **values))


def utc() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
