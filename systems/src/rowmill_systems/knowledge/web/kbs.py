"""Knowledge bases."""

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request, Response

from rowmill.web.problems import problems
from rowmill.web.site import root_of
from rowmill_systems.knowledge.bases import create_kb, find_kb, rename_kb, request_kb_deletion
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import KnowledgeBase
from rowmill_systems.knowledge.web import schemas
from rowmill_systems.knowledge.web.asking import After, GivenEditor, GivenKb, GivenKnowledge, GivenViewer, KbId, Limit
from rowmill_systems.knowledge.web.reads import kb_contents, kb_page
from rowmill_systems.parts.values import storable

router = APIRouter(prefix="/api/v1/kbs", tags=["knowledge bases"])
NO_KB = problems(s404="no such knowledge base")


@router.post("", status_code=201)
async def create(
    knowledge: GivenKnowledge, caller: GivenEditor, given: schemas.KbIn, request: Request, response: Response
) -> schemas.KbOut:
    """Create a knowledge base."""
    kb_id = await create_kb(knowledge, given.name, given.description)
    response.headers["location"] = f"{root_of(request)}{router.prefix}/{kb_id}"
    return await kb_out(knowledge, await find_kb(knowledge, kb_id))


@router.get("")
async def list_all(
    knowledge: GivenKnowledge,
    caller: GivenViewer,
    q: str = Query(default="", max_length=200, description="In names."),
    after: After = "",
    limit: Limit = 50,
) -> schemas.KbList:
    """List knowledge bases by name."""
    search = str(storable(q)).strip()

    def read(connection: sa.Connection) -> schemas.KbList:
        page = kb_page(connection, search=search, sort="", after=after, limit=limit)
        found = [schemas.KbOut.model_validate({**row, "documents": row["contents"].counts}) for row in page.rows]
        return schemas.KbList(knowledge_bases=found, next=page.next)

    return await knowledge.mill.run(read, write=False)


@router.get("/{kb_id}", responses=NO_KB)
async def one(knowledge: GivenKnowledge, caller: GivenViewer, kb: GivenKb) -> schemas.KbOut:
    """Return a knowledge base with the number of its documents."""
    return await kb_out(knowledge, kb)


async def kb_out(knowledge: Knowledge, kb: KnowledgeBase) -> schemas.KbOut:
    contents = await knowledge.mill.run(lambda connection: kb_contents(connection, kb.id), write=False)
    columns = {name: getattr(kb, name) for name in ("id", "name", "description", "created_at", "updated_at")}
    return schemas.KbOut.model_validate({**columns, "documents": contents.counts})


@router.patch("/{kb_id}", responses=NO_KB)
async def edit(knowledge: GivenKnowledge, caller: GivenEditor, kb: GivenKb, given: schemas.KbEdit) -> schemas.KbOut:
    """Change the name or the description."""
    name = kb.name if given.name is None else given.name
    await rename_kb(knowledge, kb.id, name, kb.description if given.description is None else given.description)
    return await kb_out(knowledge, await find_kb(knowledge, kb.id))


@router.delete("/{kb_id}", status_code=202, responses=NO_KB)
async def delete(knowledge: GivenKnowledge, caller: GivenEditor, kb_id: KbId) -> schemas.RequestedChange:
    """Delete a knowledge base with all of its documents. It is hidden at once; the stores are cleared by workers."""
    await request_kb_deletion(knowledge, kb_id)
    return schemas.RequestedChange(id=kb_id, requested="deletion")
