"""Company names to company ids, in the background: the same table, on Rowmill."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm

Moment = sa.DateTime(timezone=True)


class Base(DeclarativeBase):
    pass


class Request(Base):
    __tablename__ = "enrichment_requests"
    __table_args__ = ({"schema": "enterprise"},)

    id: Mapped[int] = mapped_column(sa.BigInteger, primary_key=True)
    raw_name: Mapped[str]
    normalized_name: Mapped[str]
    status: Mapped[str] = mapped_column(sa.String(20), server_default="pending")
    attempts: Mapped[int] = mapped_column(server_default="0")
    next_retry_at: Mapped[datetime | None] = mapped_column(Moment)
    last_error: Mapped[str | None] = mapped_column(sa.Text)
    company_id: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(Moment, server_default=sa.func.now())
    updated_at: Mapped[datetime] = mapped_column(Moment, server_default=sa.func.now())
    lease: Mapped[int | None] = mapped_column(sa.BigInteger)
    leased_until: Mapped[datetime | None] = mapped_column(Moment)
    finished_at: Mapped[datetime | None] = mapped_column(Moment)


mill = rm.Mill()
requests = mill.queue(
    Request,
    columns=rm.Columns(
        state="status",
        available_at="next_retry_at",
        error="last_error",
        created_at="created_at",
        updated_at="updated_at",
    ),
    states=rm.States(ready="pending", running="processing", done="done", dead="failed"),
    retry=rm.Retry(attempts=3, backoff=rm.steps(60, 300, 900)),
    lease=rm.minutes(15),
)


class NoSuchCompany(rm.PermanentError):
    """The name is known to nobody: an answer, not a reason to try again."""

    code = "no_such_company"


async def resolve(name: str) -> str:
    """Ask the service. A stand-in."""
    if "nobody" in name:
        raise NoSuchCompany
    return f"C-{len(name)}"


@requests.handler(concurrency=8)
async def enrich(request: rm.Lease[Request]) -> dict[str, str]:
    return {"company_id": await resolve(request.row.raw_name)}
