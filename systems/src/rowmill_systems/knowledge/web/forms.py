"""The forms of knowledge bases and documents. If something can't be done, the page shows why."""

from collections.abc import AsyncIterator
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Form, Request, UploadFile
from fastapi.responses import Response

import rowmill as rm
from rowmill.web.site import see_other
from rowmill_systems.knowledge.bases import create_kb, find_kb, rename_kb, request_kb_deletion
from rowmill_systems.knowledge.documents import find_document, request_deletion, request_reprocessing
from rowmill_systems.knowledge.uploading import upload
from rowmill_systems.knowledge.web import reads
from rowmill_systems.knowledge.web.asking import GivenEditor, GivenKnowledge
from rowmill_systems.knowledge.web.documents import BY_REQUEST
from rowmill_systems.knowledge.web.pages import show_base, show_bases

router = APIRouter(include_in_schema=False)
Written = Annotated[str, Form(max_length=4000)]
CHUNK = 256 * 1024
AGAIN_AT_ONCE = 500
"""Failed documents that one click processes again."""


@router.post("/bases")
async def create(
    knowledge: GivenKnowledge, editor: GivenEditor, request: Request, name: Written = "", description: Written = ""
) -> Response:
    """Create a knowledge base."""
    try:
        kb_id = await create_kb(knowledge, name, description)
    except rm.errors.BadRequest as error:
        return await show_bases(knowledge, request, code=422, problem=f"Not created: {error}.")
    return see_other(request, f"/bases/{kb_id}")


@router.post("/bases/{kb_id}/rename")
async def rename(
    knowledge: GivenKnowledge,
    editor: GivenEditor,
    request: Request,
    kb_id: UUID,
    name: Written = "",
    description: Written = "",
) -> Response:
    try:
        await rename_kb(knowledge, kb_id, name, description)
    except rm.errors.BadRequest as error:
        return await show_base(knowledge, request, kb_id, code=422, problem=f"Not renamed: {error}.")
    return see_other(request, f"/bases/{kb_id}")


@router.post("/bases/{kb_id}/delete")
async def delete_base(
    knowledge: GivenKnowledge, editor: GivenEditor, request: Request, kb_id: UUID, confirm: Written = ""
) -> Response:
    """Delete a knowledge base, if its name was repeated."""
    kb = await find_kb(knowledge, kb_id)
    if confirm.strip() != kb.name:
        problem = "Not deleted: type the name of the knowledge base to confirm it."
        return await show_base(knowledge, request, kb_id, code=422, problem=problem)
    await request_kb_deletion(knowledge, kb_id)
    return see_other(request, "/")


@router.post("/bases/{kb_id}/documents")
async def add_documents(
    knowledge: GivenKnowledge, editor: GivenEditor, request: Request, kb_id: UUID, file: list[UploadFile]
) -> Response:
    """Take files in. Only browsers without a script send them here; others send each to the API."""
    refused = []
    for each in file:
        try:
            await upload(knowledge, kb_id, chunks_of(each), filename=each.filename or "", media_type=each.content_type)
        except rm.errors.WorkError as error:
            refused.append(f"{each.filename}: {error}")
    if refused:
        problem = f"Not taken: {'; '.join(refused)}."
        return await show_base(knowledge, request, kb_id, code=422, problem=problem)
    return see_other(request, f"/bases/{kb_id}")


async def chunks_of(file: UploadFile) -> AsyncIterator[bytes]:
    while chunk := await file.read(CHUNK):
        yield chunk


@router.post("/bases/{kb_id}/reprocess-failed")
async def reprocess_failed(knowledge: GivenKnowledge, editor: GivenEditor, request: Request, kb_id: UUID) -> Response:
    """Have failed documents processed again, the oldest first."""
    await find_kb(knowledge, kb_id)
    failed = await knowledge.mill.run(lambda c: reads.failed_documents(c, kb_id, AGAIN_AT_ONCE), write=False)
    for document_id in failed:
        await request_reprocessing(knowledge, document_id, BY_REQUEST)
    return see_other(request, f"/bases/{kb_id}")


@router.post("/documents/{document_id}/reprocess")
async def reprocess(knowledge: GivenKnowledge, editor: GivenEditor, request: Request, document_id: UUID) -> Response:
    await request_reprocessing(knowledge, document_id, BY_REQUEST)
    return see_other(request, f"/documents/{document_id}")


@router.post("/documents/{document_id}/delete")
async def delete_document(
    knowledge: GivenKnowledge, editor: GivenEditor, request: Request, document_id: UUID
) -> Response:
    document = await find_document(knowledge, document_id)
    await request_deletion(knowledge, document_id)
    return see_other(request, f"/bases/{document.kb_id}")
