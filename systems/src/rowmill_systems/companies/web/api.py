"""The API: resolve names, see the queue, decide."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import APIRouter, HTTPException, Path, Query
from pydantic import BaseModel, Field

import rowmill as rm
from rowmill.web.problems import problems
from rowmill_systems.companies import reads, reviews
from rowmill_systems.companies.deciding import decide_review
from rowmill_systems.companies.overview import read_overview
from rowmill_systems.companies.resolver import CompanyIdResolver, CompanyRow
from rowmill_systems.companies.web.asking import GivenCompanies
from rowmill_systems.parts.fields import Health, Moment, ResponseModel
from rowmill_systems.parts.values import storable

LARGEST_ID = 2**63 - 1
MOST_NAMES = 10_000
router = APIRouter()
RequestId = Annotated[int, Path(ge=1, le=LARGEST_ID)]
AfterId = Annotated[int, Query(ge=0, le=LARGEST_ID, description="The `next` of the page before.")]
Status = Literal["pending", "processing", "done", "failed"]


class CompanyRowIn(BaseModel):
    """A name, and what else is known of it."""

    name: str | None = Field(max_length=100_000, examples=["Acme Ltd"])
    plan_code: str | None = Field(default=None, max_length=1000)
    account_number: str | None = Field(default=None, max_length=1000)
    account_name: str | None = Field(default=None, max_length=100_000)


class NamesIn(BaseModel):
    rows: list[CompanyRowIn] = Field(max_length=MOST_NAMES)


class ResolutionOut(ResponseModel):
    """The answer to one row."""

    company_id: str | None = Field(description="null: the row names no company.")
    rung: str = Field(description="Which rung of the ladder answered.")
    confidence: float | None
    temporary: bool
    reason: str


class ResolutionsOut(ResponseModel):
    rows: list[ResolutionOut]


class RequestOut(ResponseModel):
    """A request: a name that is looked up in the background."""

    id: int
    raw_name: str
    temp_id: str | None
    status: str
    attempts: int
    next_retry_at: Moment | None
    last_error: str | None
    resolved_company_id: str | None
    resolved_by: str | None
    outcome: str | None = Field(description="accepted, no_match, unsure or merged, once it is done.")
    confidence: float | None
    created_at: Moment
    updated_at: Moment


class RequestsOut(ResponseModel):
    requests: list[RequestOut]
    next: int | None


class ReviewsOut(ResponseModel):
    reviews: list[dict[str, Any]]
    next: int | None


class DecisionIn(BaseModel):
    company_id: str | None = Field(max_length=100, description="null: none of the candidates is meant.")
    by: str = Field(default="api", max_length=200, description="Who decides.")


class DecisionOut(ResponseModel):
    rows_written: int = Field(description="Rows of target tables that got the id.")


class RequeuedOut(ResponseModel):
    requeued: int


@router.get("/health", tags=["service"])
async def health(companies: GivenCompanies) -> Health:
    """Whether the server and its database answer."""
    await companies.mill.run(lambda connection: connection.exec_driver_sql("SELECT 1").close(), write=False)
    return Health()


@router.get("/stats", tags=["service"])
async def stats(companies: GivenCompanies, days: Annotated[int, Query(ge=1, le=366)] = 14) -> dict[str, Any]:
    """The queue, names to decide, and names by rung."""
    found = await companies.mill.run(lambda connection: read_overview(connection, companies, days=days), write=False)
    return found.as_dict()


@router.post("/resolve", tags=["names"])
async def resolve(companies: GivenCompanies, given: NamesIn) -> ResolutionsOut:
    """Give each row an id: a real one from mappings or the cache, otherwise a temporary one. Nobody outside is asked;
    what is not known waits in the queue."""

    def work(connection: sa.Connection) -> list[Any]:
        resolver = CompanyIdResolver(connection, companies.settings, salt=companies.salts.current)
        return resolver.resolve([CompanyRow(**row.model_dump()) for row in given.rows])

    found = await companies.mill.run(work)
    return ResolutionsOut(rows=[ResolutionOut.model_validate(each) for each in found])


@router.get("/enrichment-requests", tags=["queue"])
async def list_requests(
    companies: GivenCompanies,
    status: Status | None = None,
    after: AfterId = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> RequestsOut:
    """Requests, the newest first."""

    def read(connection: sa.Connection) -> reads.RequestPage:
        return reads.request_page(connection, companies.tables, status=status or "", after=after or None, limit=limit)

    page = await companies.mill.run(read, write=False)
    return RequestsOut(requests=[RequestOut.model_validate(dict(row)) for row in page.rows], next=page.next)


@router.get("/enrichment-requests/{request_id}", tags=["queue"], responses=problems(s404="no such request"))
async def one_request(companies: GivenCompanies, request_id: RequestId) -> RequestOut:
    """One request."""
    found = await companies.mill.run(
        lambda connection: reads.one_request(connection, companies.tables, request_id), write=False
    )
    if found is None:
        raise HTTPException(404, {"code": "no_such_request", "message": "there is no such request"})
    return RequestOut.model_validate(dict(found))


@router.post("/enrichment-requests/requeue", tags=["queue"])
async def requeue_failed(
    companies: GivenCompanies,
    error_code: Annotated[
        str | None, Query(max_length=200, description="Only those that failed with this code.")
    ] = None,
) -> RequeuedOut:
    """Put failed requests back, with no attempts counted."""
    code = storable(error_code or "")
    if error_code and not code:
        return RequeuedOut(requeued=0)
    which: dict[str, Any] = {"error_code": code} if code else {}
    return RequeuedOut(requeued=await companies.queue.requeue(state="failed", **which))


@router.get("/reviews", tags=["reviews"])
async def list_reviews(
    companies: GivenCompanies, after: AfterId = 0, limit: Annotated[int, Query(ge=1, le=1000)] = 100
) -> ReviewsOut:
    """Names to decide, the oldest first, with candidates and reasons."""

    def read(connection: sa.Connection) -> list[reviews.OpenReview]:
        return reviews.open_reviews(connection, companies.tables, after=after, limit=limit + 1)

    found = await companies.mill.run(read, write=False)
    shown = found[:limit]
    return ReviewsOut(reviews=[asdict(each) for each in shown], next=shown[-1].id if len(found) > limit else None)


@router.post(
    "/reviews/{review_id}",
    tags=["reviews"],
    responses=problems(s409="there is no such review, or it is decided already"),
)
async def decide(companies: GivenCompanies, review_id: RequestId, given: DecisionIn) -> DecisionOut:
    """Decide which company is meant. Rows of target tables get its id."""
    try:
        rows = await companies.mill.run(
            lambda connection: decide_review(connection, companies, review_id, given.company_id, given.by)
        )
    except reviews.ReviewGone as error:
        raise HTTPException(409, {"code": "review_gone", "message": str(error)}) from None
    except rm.errors.BadRequest as error:
        raise HTTPException(422, {"code": "bad_company_id", "message": str(error)}) from None
    return DecisionOut(rows_written=rows)
