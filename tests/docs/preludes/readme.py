import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Home(DeclarativeBase): ...


class ProjectFile(Home):
    __tablename__ = "project_file"
    id: Mapped[int] = mapped_column(primary_key=True)
    path: Mapped[str]
    processing_status: Mapped[str] = mapped_column(server_default="queued")
    processing_attempts: Mapped[int] = mapped_column(server_default="0")
    processing_available_at = mapped_column(sa.DateTime(timezone=True))
    lease = mapped_column(sa.BigInteger)
    leased_until = mapped_column(sa.DateTime(timezone=True))
    processing_error: Mapped[str | None]
    processed_at = mapped_column(sa.DateTime(timezone=True))


class Suggestion(Home):
    __tablename__ = "suggestion"
    id: Mapped[int] = mapped_column(primary_key=True)
    file_id: Mapped[int]
    text: Mapped[str]


async def read(path: str) -> list[str]:
    return [f"{path} page {n}" for n in (1, 2)]
