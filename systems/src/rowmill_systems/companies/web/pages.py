"""Pages for people: an overview, the queue, names to decide, conflicts. Rendered here, and fit for use without a
script."""

from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Form, HTTPException, Path, Query, Request
from fastapi.responses import HTMLResponse, Response

import rowmill as rm
from rowmill.web.site import see_other
from rowmill_systems.companies import reads, reviews
from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.deciding import decide_conflict, decide_review
from rowmill_systems.companies.mappings import CompanyMappingRepository, ConflictGone
from rowmill_systems.companies.overview import read_overview
from rowmill_systems.companies.temp_ids import normalize_for_temp_id
from rowmill_systems.companies.web import api
from rowmill_systems.companies.web.asking import GivenCompanies
from rowmill_systems.companies.web.shown import BAR, GAP, chart, site
from rowmill_systems.parts.values import storable

DAYS = 14
ON_A_PAGE = 50
REVIEWS_ON_A_PAGE = 20
BY_PAGE = "page"
"""Who decided, where nobody is known by name."""
router = APIRouter(include_in_schema=False)
After = Annotated[int, Query(ge=0, le=api.LARGEST_ID)]
Id = Annotated[int, Path(ge=1, le=api.LARGEST_ID)]
Text = Annotated[str, Query(max_length=2000)]
Given = Annotated[str, Form(max_length=100)]


@router.get("/")
async def overview(companies: GivenCompanies, request: Request) -> HTMLResponse:
    """Show the queue, names by rung over time, and the target tables."""

    def read(connection: sa.Connection) -> tuple[Any, Any]:
        found = read_overview(connection, companies, days=DAYS)
        return found, reads.target_list(connection, companies.tables)

    stats, targets = await companies.mill.run(read, write=False)
    rungs = [each.rung for each in stats.by_rung]
    return site.page(
        "overview.html",
        request,
        stats=stats,
        warning=companies.settings.enrichment_queue_warning_threshold,
        total=sum(each.names for each in stats.by_rung),
        by_rung=[(each.rung, each.today, each.names) for each in stats.by_rung],
        rungs=rungs,
        days=stats.days,
        bars=chart(stats.days, rungs),
        width=DAYS * (BAR + GAP) - GAP,
        targets=targets,
    )


@router.get("/requests")
async def requests(
    companies: GivenCompanies, request: Request, q: Text = "", status: Text = "", after: After = 0
) -> HTMLResponse:
    return await show_requests(companies, request, q=q, status=status, after=after)


async def show_requests(
    companies: Companies,
    request: Request,
    *,
    q: str = "",
    status: str = "",
    after: int = 0,
    message: str = "",
    code: int = 200,
    problem: str | None = None,
) -> HTMLResponse:
    """Show requests, the newest first; those of one name or temporary id, if one is searched for."""
    if status and status not in reads.STATUSES:
        raise HTTPException(404, {"code": "no_such_status", "message": "there is no such status"})
    wanted = storable(q).strip()

    def read(connection: sa.Connection) -> reads.RequestPage:
        if q.strip() and not wanted:
            return reads.RequestPage([], None)
        if wanted:
            normal = normalize_for_temp_id(wanted)
            found = reads.requests_of(connection, companies.tables, normalized_name=normal, temp_id=wanted)
            return reads.RequestPage([row for row in found if not status or row["status"] == status], None)
        return reads.request_page(connection, companies.tables, status=status, after=after or None, limit=ON_A_PAGE)

    page = await companies.mill.run(read, write=False)
    return site.page(
        "requests.html",
        request,
        code=code,
        problem=problem,
        rows=page.rows,
        next=page.next,
        after=after or "",
        q=q,
        status=status,
        statuses=[(each, each.capitalize()) for each in reads.STATUSES],
        open=any(row["status"] in ("pending", "processing") for row in page.rows),
        message=message,
    )


@router.post("/requests/requeue-failed")
async def requeue_failed(companies: GivenCompanies, request: Request) -> Response:
    """Put all failed requests back."""
    await companies.queue.requeue(state="failed")
    return see_other(request, "/requests?status=pending")


@router.post("/requests/{request_id}/requeue")
async def requeue(companies: GivenCompanies, request: Request, request_id: Id) -> Response:
    """Put one request back."""
    if not await companies.queue.requeue(request_id):
        problem = "Not done: the request is gone, or in progress."
        return await show_requests(companies, request, code=409, problem=problem)
    return see_other(request, "/requests")


@router.get("/review")
async def review(companies: GivenCompanies, request: Request, after: After = 0) -> HTMLResponse:
    return await show_reviews(companies, request, after)


async def show_reviews(
    companies: Companies, request: Request, after: int = 0, *, code: int = 200, problem: str | None = None
) -> HTMLResponse:
    """Show the names to decide, the oldest first."""

    def read(connection: sa.Connection) -> list[reviews.OpenReview]:
        return reviews.open_reviews(connection, companies.tables, after=after, limit=REVIEWS_ON_A_PAGE + 1)

    found = await companies.mill.run(read, write=False)
    shown, more = found[:REVIEWS_ON_A_PAGE], len(found) > REVIEWS_ON_A_PAGE
    return site.page(
        "review.html",
        request,
        code=code,
        problem=problem,
        reviews=shown,
        next=shown[-1].id if more else None,
        after=after or "",
    )


@router.post("/review/{review_id}")
async def decide(
    companies: GivenCompanies, request: Request, review_id: Id, company_id: Given = "", choice: Given = ""
) -> Response:
    """Decide a name: one of the candidates, another company, or none."""
    chosen = company_id.strip()
    if not chosen and choice != "none":
        return await show_reviews(companies, request, code=422, problem="Not done: choose a company, or none of them.")
    try:
        await companies.mill.run(
            lambda connection: decide_review(connection, companies, review_id, chosen or None, BY_PAGE)
        )
    except reviews.ReviewGone as error:
        return await show_reviews(companies, request, code=409, problem=f"Not done: {error}.")
    except rm.errors.BadRequest as error:
        return await show_reviews(companies, request, code=422, problem=f"Not done: {error}.")
    return see_other(request, "/review")


@router.get("/conflicts")
async def conflicts(companies: GivenCompanies, request: Request, after: After = 0) -> HTMLResponse:
    return await show_conflicts(companies, request, after)


async def show_conflicts(
    companies: Companies, request: Request, after: int = 0, *, code: int = 200, problem: str | None = None
) -> HTMLResponse:
    """Show names with two ids, the oldest first."""

    def read(connection: sa.Connection) -> list[Any]:
        repository = CompanyMappingRepository(connection, companies.settings)
        return repository.conflicts(limit=ON_A_PAGE + 1, after=after)

    found = await companies.mill.run(read, write=False)
    shown, more = found[:ON_A_PAGE], len(found) > ON_A_PAGE
    return site.page(
        "conflicts.html",
        request,
        code=code,
        problem=problem,
        conflicts=shown,
        next=shown[-1].id if more else None,
        after=after or "",
    )


@router.post("/conflicts/{conflict_id}")
async def decide_one_conflict(
    companies: GivenCompanies, request: Request, conflict_id: Id, company_id: Given = ""
) -> Response:
    """Decide which id a name has."""
    try:
        await companies.mill.run(
            lambda connection: decide_conflict(connection, companies, conflict_id, company_id.strip(), BY_PAGE)
        )
    except ConflictGone as error:
        return await show_conflicts(companies, request, code=409, problem=f"Not done: {error}.")
    except rm.errors.BadRequest as error:
        return await show_conflicts(companies, request, code=422, problem=f"Not done: {error}.")
    return see_other(request, "/conflicts")
