"""Upload, list, read, download, delete and process again documents."""

from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import quote

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from rowmill.web.problems import problems
from rowmill.web.receiving import UPLOAD_BODY, receive_file
from rowmill.web.site import root_of
from rowmill_systems.knowledge.documents import find_document, request_deletion, request_reprocessing
from rowmill_systems.knowledge.models import DocumentStatus, KbDocument
from rowmill_systems.knowledge.uploading import upload
from rowmill_systems.knowledge.web import schemas
from rowmill_systems.knowledge.web.asking import (
    After,
    DocumentId,
    GivenDocument,
    GivenEditor,
    GivenKb,
    GivenKnowledge,
    GivenViewer,
    KbId,
    Limit,
)
from rowmill_systems.knowledge.web.explaining import explain
from rowmill_systems.knowledge.web.kbs import NO_KB
from rowmill_systems.knowledge.web.places import observed_places
from rowmill_systems.knowledge.web.reads import document_page, events_of
from rowmill_systems.parts.objects.port import Download
from rowmill_systems.parts.values import storable

router = APIRouter(prefix="/api/v1", tags=["documents"])
BY_REQUEST = "request"
"""The reason of documents that a person has processed again."""
NO_DOCUMENT = problems(s404="no such document")
REFUSED_UPLOADS = problems(
    s404="no such knowledge base",
    s409="the upload took too long",
    s413="too many bytes",
    s422="an empty file, no file, or more than one",
)
Filename = Annotated[str | None, Query(max_length=1000, description="If the body is the file itself.")]


@router.post("/kbs/{kb_id}/documents", status_code=202, responses=REFUSED_UPLOADS, openapi_extra=UPLOAD_BODY)
async def upload_document(
    knowledge: GivenKnowledge,
    caller: GivenEditor,
    kb_id: KbId,
    request: Request,
    response: Response,
    filename: Filename = None,
) -> schemas.AcceptedDocument:
    """Upload a file: in the field `file` of a form, or as the body with `?filename=`. It is processed by workers."""
    file = await receive_file(request, filename=filename)
    document_id = await upload(knowledge, kb_id, file.chunks, filename=file.filename, media_type=file.media_type)
    document = await find_document(knowledge, document_id)
    status_url = f"{root_of(request)}{router.prefix}/documents/{document_id}"
    response.headers["location"] = status_url
    return schemas.AcceptedDocument(
        id=document_id, filename=document.filename, status=DocumentStatus(document.status), status_url=status_url
    )


@router.get("/kbs/{kb_id}/documents", responses=NO_KB)
async def list_documents(
    knowledge: GivenKnowledge,
    caller: GivenViewer,
    kb: GivenKb,
    status: schemas.VisibleStatus | None = None,
    q: Annotated[str, Query(max_length=200, description="In names.")] = "",
    sort: Annotated[str, Query(pattern="^-?(added|name)$", description="With a status: by time only.")] = "-added",
    after: After = "",
    limit: Limit = 50,
) -> schemas.DocumentList:
    """List documents with how far each is. A page of a search may have few of them, and yet a `next`."""
    search = str(storable(q)).strip()

    def read(connection: sa.Connection) -> schemas.DocumentList:
        page = document_page(connection, kb.id, search=search, status=status or "", sort=sort, after=after, limit=limit)
        found = [schemas.DocumentOut.model_validate(dict(row)) for row in page.rows]
        return schemas.DocumentList(documents=found, next=page.next)

    return await knowledge.mill.run(read, write=False)


@router.get("/documents/{document_id}", responses=NO_DOCUMENT)
async def one(knowledge: GivenKnowledge, caller: GivenViewer, document: GivenDocument) -> schemas.WholeDocument:
    """Return a document with where it is and why, as the stores say now."""
    places = await observed_places(knowledge, document)
    events = await knowledge.mill.run(lambda connection: events_of(connection, document.id), write=False)
    columns = {column.name: getattr(document, column.name) for column in KbDocument.__table__.columns}
    return schemas.WholeDocument.model_validate(
        {
            **columns,
            "places": places,
            "error": explain(document.error_code) if document.error_code else None,
            "events": [dict(event) for event in events],
        }
    )


@router.get(
    "/documents/{document_id}/content",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/octet-stream": {}}}, **problems(s404="no such document, or no bytes")},
)
async def content(knowledge: GivenKnowledge, caller: GivenViewer, document: GivenDocument) -> StreamingResponse:
    """Download the file as it was uploaded."""
    download = await knowledge.storage.open(document.object_key)
    return StreamingResponse(
        chunks_of(download),
        media_type="application/octet-stream",  # never as what the uploader says: a browser might run it
        headers={
            "content-disposition": f"attachment; filename*=UTF-8''{quote(document.filename, safe='')}",
            "content-length": str(document.size),
            "cache-control": "private, no-cache",
        },
    )


async def chunks_of(download: Download) -> AsyncIterator[bytes]:
    async with download:
        async for chunk in download:
            yield chunk


@router.delete("/documents/{document_id}", status_code=202, responses=NO_DOCUMENT)
async def delete(knowledge: GivenKnowledge, caller: GivenEditor, document_id: DocumentId) -> schemas.RequestedChange:
    """Delete a document. It is hidden at once; the stores are cleared by workers."""
    await request_deletion(knowledge, document_id)
    return schemas.RequestedChange(id=document_id, requested="deletion")


@router.post("/documents/{document_id}/reprocess", status_code=202, responses=NO_DOCUMENT)
async def reprocess(knowledge: GivenKnowledge, caller: GivenEditor, document: GivenDocument) -> schemas.RequestedChange:
    """Have a document processed again. Search shows what it had until then."""
    await request_reprocessing(knowledge, document.id, BY_REQUEST)
    return schemas.RequestedChange(id=document.id, requested="processing")
