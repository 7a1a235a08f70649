"""Search by meaning and by words, and answers to questions."""

import uuid
from collections.abc import Sequence
from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, HTTPException, Query

from rowmill.web.problems import problems
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.models import KbStatus, KnowledgeBase
from rowmill_systems.knowledge.search.answering import answer
from rowmill_systems.knowledge.search.filters import SearchFilters
from rowmill_systems.knowledge.search.query import LONGEST
from rowmill_systems.knowledge.search.searching import MOST_HITS, search
from rowmill_systems.knowledge.web import schemas
from rowmill_systems.knowledge.web.asking import GivenKnowledge, GivenViewer, KbId
from rowmill_systems.knowledge.web.kbs import NO_KB

router = APIRouter(prefix="/api/v1", tags=["search"])
TOO_MANY = problems(s422=f"a value that can't be, or more than {schemas.MOST_KBS} knowledge bases")
Text = Annotated[str, Query(min_length=1, max_length=LONGEST)]
Most = Annotated[int, Query(ge=1, le=MOST_HITS)]


@router.post("/search", responses={**NO_KB, **TOO_MANY})
async def search_kbs(knowledge: GivenKnowledge, caller: GivenViewer, given: schemas.SearchIn) -> schemas.SearchOut:
    """Find passages in knowledge bases; in all of them, if none is named. Each hit quotes its page and passage."""
    return await searched(knowledge, given.query, given.kb_ids, given.limit, given.filters.as_filters())


@router.get("/search", responses={**NO_KB, **TOO_MANY})
async def search_by_address(
    knowledge: GivenKnowledge,
    caller: GivenViewer,
    q: Text,
    kb: Annotated[
        list[uuid.UUID] | None, Query(max_length=schemas.MOST_KBS, description="Knowledge bases; all by default.")
    ] = None,
    limit: Most = 10,
    kind: Annotated[list[schemas.Plain] | None, Query(max_length=20)] = None,
    filename: Annotated[str, Query(max_length=200, description="A part of the name."), schemas.Fit] = "",
) -> schemas.SearchOut:
    """Find passages, as POST does."""
    return await searched(knowledge, q, kb, limit, SearchFilters(kinds=kind, filename=filename))


@router.post("/kbs/{kb_id}/search", responses=NO_KB)
async def search_kb(
    knowledge: GivenKnowledge, caller: GivenViewer, kb_id: KbId, given: schemas.KbSearchIn
) -> schemas.SearchOut:
    """Find passages in one knowledge base."""
    return await searched(knowledge, given.query, [kb_id], given.limit, given.filters.as_filters())


@router.post(
    "/answers", responses={**NO_KB, **TOO_MANY, **problems(s501="no model for answers is configured: search instead")}
)
async def answer_question(
    knowledge: GivenKnowledge, caller: GivenViewer, given: schemas.QuestionIn
) -> schemas.AnswerOut:
    """Answer a question from the documents, by the configured model. Each statement names the passages it rests on."""
    if not (knowledge.settings.endpoint_url and knowledge.settings.answer_model):
        message = "no model for answers is configured: set KNOWLEDGE_ENDPOINT_URL and KNOWLEDGE_ANSWER_MODEL"
        raise HTTPException(501, {"code": "no_answer_model", "message": message})
    chosen = await chosen_kbs(knowledge, given.kb_ids)
    found = await answer(
        knowledge, given.question, kb_ids=chosen, limit=given.limit, filters=given.filters.as_filters()
    )
    return schemas.AnswerOut.model_validate(found)


async def searched(
    knowledge: Knowledge, query: str, kb_ids: Sequence[uuid.UUID] | None, limit: int, filters: SearchFilters
) -> schemas.SearchOut:
    chosen = await chosen_kbs(knowledge, kb_ids)
    found = await search(knowledge, query, kb_ids=chosen, limit=limit, filters=filters)
    return schemas.SearchOut.model_validate(found)


async def chosen_kbs(knowledge: Knowledge, kb_ids: Sequence[uuid.UUID] | None) -> Sequence[uuid.UUID]:
    """Return the knowledge bases to search: those that are given, or all."""
    if kb_ids:
        return kb_ids
    found = await knowledge.mill.run(active_kbs, write=False)
    if len(found) > schemas.MOST_KBS:
        message = f"there are more than {schemas.MOST_KBS} knowledge bases: name those to search"
        raise HTTPException(422, {"code": "too_many_kbs", "message": message})
    return found


# served by: ix_knowledge_bases_status
def active_kbs(connection: sa.Connection) -> Sequence[uuid.UUID]:
    """Return knowledge bases that are not being deleted: up to one more than are searched at once."""
    wanted = sa.select(KnowledgeBase.id).where(KnowledgeBase.status == KbStatus.ACTIVE)
    return list(connection.scalars(wanted.limit(schemas.MOST_KBS + 1)))
