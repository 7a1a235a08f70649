"""Pages of knowledge bases and documents. Rendered here, and fit for reading without a script."""

from typing import Annotated, Any
from uuid import UUID

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from rowmill_systems.knowledge.bases import find_kb
from rowmill_systems.knowledge.documents import find_document
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import DocumentStatus
from rowmill_systems.knowledge.web import reads
from rowmill_systems.knowledge.web.asking import GivenKnowledge, GivenViewer
from rowmill_systems.knowledge.web.places import observed_places, recorded_places
from rowmill_systems.knowledge.web.shown import site
from rowmill_systems.parts.values import storable

router = APIRouter(include_in_schema=False)
After = Annotated[str, Query(max_length=3000)]
Text = Annotated[str, Query(max_length=200)]
Word = Annotated[str, Query(max_length=40)]
Number = Annotated[int, Query(ge=0, le=2**31 - 1)]
STATUSES = [(str(status), status.capitalize()) for status in (*reads.SHOWN_STATUSES, DocumentStatus.DELETING)]


@router.get("/")
async def bases(
    knowledge: GivenKnowledge, viewer: GivenViewer, request: Request, q: Text = "", sort: Word = "", after: After = ""
) -> HTMLResponse:
    return await show_bases(knowledge, request, q=q, sort=sort, after=after)


async def show_bases(
    knowledge: Knowledge,
    request: Request,
    *,
    q: str = "",
    sort: str = "",
    after: str = "",
    code: int = 200,
    problem: str | None = None,
) -> HTMLResponse:
    """Show knowledge bases, and how their documents are."""
    page = await knowledge.mill.run(
        lambda connection: reads.kb_page(connection, search=storable(q), sort=sort, after=after), write=False
    )
    busy = any(row["contents"].is_open for row in page.rows)
    return site.page(
        "bases.html", request, code=code, problem=problem, page=page, q=q, after=after, busy=busy,
        most=reads.MOST_COUNTED,
    )  # fmt: skip


@router.get("/bases/{kb_id}")
async def base(
    knowledge: GivenKnowledge,
    viewer: GivenViewer,
    request: Request,
    kb_id: UUID,
    q: Text = "",
    status: Word = "",
    sort: Word = "",
    after: After = "",
) -> HTMLResponse:
    return await show_base(knowledge, request, kb_id, q=q, status=status, sort=sort, after=after)


async def show_base(
    knowledge: Knowledge,
    request: Request,
    kb_id: UUID,
    *,
    q: str = "",
    status: str = "",
    sort: str = "",
    after: str = "",
    code: int = 200,
    problem: str | None = None,
) -> HTMLResponse:
    """Show the documents of a knowledge base, and the form that uploads more. Raises KbMissing."""
    kb = await find_kb(knowledge, kb_id)

    def read(connection: sa.Connection) -> dict[str, Any]:
        wanted = {"search": storable(q), "status": storable(status), "sort": sort, "after": after}
        return {
            "page": reads.document_page(connection, kb_id, **wanted),
            "has": reads.kb_contents(connection, kb_id),
        }

    found = await knowledge.mill.run(read, write=False)
    return site.page(
        "base_documents.html", request, code=code, problem=problem, kb=kb, **found, q=q, status=status, sort=sort,
        after=after, statuses=STATUSES, most=reads.MOST_COUNTED,
    )  # fmt: skip


@router.get("/documents/{document_id}")
async def document(
    knowledge: GivenKnowledge,
    viewer: GivenViewer,
    request: Request,
    document_id: UUID,
    at: Number = 0,
    passage: Number | None = None,
    look: bool = False,
) -> HTMLResponse:
    """Show a document from a passage on. `passage` is marked; `look` asks the stores what they have of it."""
    return await show_document(knowledge, request, document_id, first=at, marked=passage, look=look)


async def show_document(
    knowledge: Knowledge,
    request: Request,
    document_id: UUID,
    *,
    first: int = 0,
    marked: int | None = None,
    look: bool = False,
    code: int = 200,
    problem: str | None = None,
) -> HTMLResponse:
    """Show a document: where it is, its passages and its events. Raises DocumentMissing."""
    found = await find_document(knowledge, document_id)
    kb = await find_kb(knowledge, found.kb_id)

    def read(connection: sa.Connection) -> dict[str, Any]:
        return {
            "passages": reads.passage_page(connection, found, first),
            "events": reads.events_of(connection, document_id),
        }

    of_row = recorded_places(found.status, found.indexed_generation, found.chunk_count)
    places = await observed_places(knowledge, found) if look else of_row
    more = await knowledge.mill.run(read, write=False)
    return site.page(
        "document.html", request, code=code, problem=problem, document=found, kb=kb, places=places, looked=look,
        first=first, marked=marked, **more,
    )  # fmt: skip
