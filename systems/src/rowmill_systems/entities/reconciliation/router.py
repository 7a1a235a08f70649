"""The endpoints of the service. They only read."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response

from rowmill.web.guard import bounded
from rowmill.web.problems import problems
from rowmill_systems.entities.reconciliation import extending, pages, suggesting
from rowmill_systems.entities.reconciliation.asking import Callback, GivenService, Identifier, answered
from rowmill_systems.entities.reconciliation.manifest import manifest
from rowmill_systems.entities.reconciliation.matching import ReconciliationService
from rowmill_systems.entities.reconciliation.queries import BadQuery, TooMany, read_batch, read_extension

PREFIX = "/reconcile"
"""To be named to the Guard as a path that is open."""
MOST_BYTES = 2 * 1024 * 1024
"""Of one request. A batch of OpenRefine's has some kilobytes."""
router = APIRouter(prefix=PREFIX, tags=["reconciliation"])

Json = Annotated[str | None, Query(description="JSON, as the specification gives it.")]
WRONG = problems(s400="it is not what the specification calls a query", s413="too much at once")
HTML = {"text/html": {"schema": {"type": "string"}}}
PAGE: dict[int | str, dict[str, Any]] = {
    200: {"description": "a page", "content": HTML},
    404: {"description": "a page that says that there is no such thing", "content": HTML},
}
FORM = {"type": "object", "properties": {"queries": {"type": "string"}, "extend": {"type": "string"}}}


@router.get("", name="reconcile", responses=WRONG)
async def ask(
    service: GivenService, request: Request, queries: Json = None, extend: Json = None, callback: Callback = None
) -> Response:
    """Return the manifest; with `queries` or `extend`, the answer to them."""
    if queries is None and extend is None:
        return answered(manifest(service.knowledge_base, str(request.url_for("reconcile"))), callback)
    return answered(await answer(service, queries, extend), callback)


@router.post(
    "",
    responses=WRONG,
    openapi_extra={"requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": FORM}}}},
)
async def ask_by_form(service: GivenService, request: Request) -> Response:
    """Answer a batch of queries, or a request for properties, that was sent as a form."""
    taken = bounded(request.headers, request.receive, MOST_BYTES, f"a request may have {MOST_BYTES:,} bytes")
    async with Request(request.scope, taken).form(max_files=0, max_fields=10, max_part_size=MOST_BYTES) as form:
        queries, extend = (
            value if isinstance(value := form.get(name), str) else None for name in ("queries", "extend")
        )
    return answered(await answer(service, queries, extend))


async def answer(service: ReconciliationService, queries: str | None, extend: str | None) -> dict[str, Any]:
    """Answer queries or a request for properties, in a thread: a search blocks."""

    def answers() -> dict[str, Any]:
        if queries is not None:
            return {key: {"result": service.answer(query)} for key, query in read_batch(queries).items()}
        if extend is not None:
            return extending.extend(service.knowledge_base, read_extension(extend))
        raise BadQuery("nothing is asked: there is neither `queries` nor `extend`")

    try:
        return await asyncio.to_thread(answers)
    except BadQuery as error:
        raise HTTPException(400, {"code": "unreadable", "message": str(error)}) from None
    except TooMany as error:
        raise HTTPException(413, {"code": "too_many", "message": str(error)}) from None


@router.get("/preview", response_class=Response, responses=PAGE)
async def preview(service: GivenService, id: Identifier) -> Response:
    """Return a small page about a thing, for a frame."""
    return pages.preview(await asyncio.to_thread(service.knowledge_base.get, id))


@router.get("/view", response_class=Response, responses=PAGE)
async def view(service: GivenService, id: Identifier) -> Response:
    """Return a page with all that is known of a thing."""
    return pages.view(await asyncio.to_thread(service.knowledge_base.get, id))


router.include_router(suggesting.router)
