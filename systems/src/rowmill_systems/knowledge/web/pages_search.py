"""The page for searching, and answers with citations where a model for them is configured."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse

from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.search.answering import LONGEST_QUESTION, AnswerOutcome, CitedAnswer, answer
from rowmill_systems.knowledge.search.hits import SearchHit
from rowmill_systems.knowledge.search.searching import Degraded, SearchFilters, search
from rowmill_systems.knowledge.web import reads
from rowmill_systems.knowledge.web.asking import GivenKnowledge, GivenViewer
from rowmill_systems.knowledge.web.schemas import MOST_KBS
from rowmill_systems.knowledge.web.shown import site
from rowmill_systems.parts.documents.document import Kind

router = APIRouter(include_in_schema=False)
Given = Annotated[str, Query(max_length=LONGEST_QUESTION)]
Chosen = Annotated[str, Query(max_length=40)]
Asked = Annotated[str, Form(max_length=LONGEST_QUESTION)]
ON_A_PAGE, IN_AN_ANSWER = 20, 6
CITED = re.compile(r"\[(\d{1,3})\]")
DEGRADED = {
    Degraded.MODEL_UNAVAILABLE: "The model that makes vectors does not answer, so passages were found by words alone.",
    Degraded.VECTORS_UNAVAILABLE: "The vector store does not answer, so passages were found by words alone.",
    Degraded.OTHER_MODEL: "Some documents are not yet embedded by the present model, and were found by words alone.",
}
AWAY = "What says it in other words may be missing."
WHY_NOT = {
    AnswerOutcome.NOT_FOUND: "The documents don't say.",
    AnswerOutcome.NO_MODEL: "No model for answers is configured.",
    AnswerOutcome.MODEL_UNAVAILABLE: "The model did not answer, or nothing that could be used.",
}


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """An answer as a page shows it: words, and the numbers of the passages that they rest on."""

    parts: Sequence[tuple[str, int | None]]
    why_not: str


@router.get("/search")
async def search_page(
    knowledge: GivenKnowledge,
    viewer: GivenViewer,
    request: Request,
    q: Given = "",
    kb: Chosen = "",
    kind: Chosen = "",
) -> HTMLResponse:
    """Search all knowledge bases, or one."""
    kbs = await names_of_kbs(knowledge)
    found = await search(knowledge, q, kb_ids=searched(kbs, kb), limit=ON_A_PAGE, filters=filters_of(kind))
    return show_search(knowledge, request, kbs, found.hits, found.degraded, q=q, kb=kb, kind=kind)


@router.post("/search/answer")
async def answer_page(
    knowledge: GivenKnowledge,
    viewer: GivenViewer,
    request: Request,
    q: Asked = "",
    kb: Annotated[str, Form(max_length=40)] = "",
    kind: Annotated[str, Form(max_length=40)] = "",
) -> HTMLResponse:
    """Have the model answer from the best passages. A form of its own: it costs, so that no link may ask for it."""
    kbs = await names_of_kbs(knowledge)
    found = await answer(knowledge, q, kb_ids=searched(kbs, kb), limit=IN_AN_ANSWER, filters=filters_of(kind))
    return show_search(
        knowledge, request, kbs, found.hits, found.degraded, q=q, kb=kb, kind=kind, said=shown_answer(found)
    )


async def names_of_kbs(knowledge: Knowledge) -> dict[UUID, str]:
    """Return the knowledge bases by name: at most one more than are searched at once."""
    return dict(await knowledge.mill.run(lambda connection: reads.kb_names(connection, MOST_KBS + 1), write=False))


def searched(kbs: dict[UUID, str], kb: str) -> list[UUID]:
    """Return the knowledge bases to search: the chosen one, or as many as are searched at once."""
    try:
        return [UUID(kb)] if kb else list(kbs)[:MOST_KBS]
    except ValueError:
        return list(kbs)[:MOST_KBS]


def filters_of(kind: str) -> SearchFilters:
    return SearchFilters(kinds=[kind] if kind in list(Kind) else None)


def shown_answer(found: CitedAnswer) -> ShownAnswer:
    """Return an answer with its citations apart from the words. Only numbers of passages that were given count."""
    parts: list[tuple[str, int | None]] = []
    at, text = 0, found.text or ""
    for cited in CITED.finditer(text):
        number = int(cited[1])
        if 1 <= number <= len(found.hits):
            parts += [(text[at : cited.start()], None), ("", number)]
            at = cited.end()
    if text[at:]:
        parts.append((text[at:], None))
    return ShownAnswer(parts, WHY_NOT.get(found.outcome, ""))


def show_search(
    knowledge: Knowledge,
    request: Request,
    kbs: dict[UUID, str],
    hits: Sequence[SearchHit],
    degraded: Degraded | None,
    *,
    q: str,
    kb: str,
    kind: str,
    said: ShownAnswer | None = None,
) -> HTMLResponse:
    settings = knowledge.settings
    return site.page(
        "search.html", request, q=q, kb=kb, kind=kind, kinds=list(Kind), longest=LONGEST_QUESTION,
        kbs=list(kbs.items()), hits=[shown_hit(hit, kbs) for hit in hits], answer=said,
        answers=bool(hits and settings.endpoint_url and settings.answer_model), model=settings.answer_model,
        degraded=f"{DEGRADED[degraded]} {AWAY}" if degraded else "",
        most=MOST_KBS if len(kbs) > MOST_KBS else None,
    )  # fmt: skip


def shown_hit(hit: SearchHit, kbs: dict[UUID, str]) -> dict[str, Any]:
    """Return a hit as the page shows it, with the page of its document that has the passage."""
    first = max(hit.number - 2, 0)
    place = hit.page_title or (f"page {hit.page}" if hit.page else "")
    path = f"/documents/{hit.document_id}?at={first}&passage={hit.number}#passage-{hit.number}"
    return {
        "path": path, "filename": hit.filename, "place": place, "heading": hit.heading, "text": hit.text,
        "marks": hit.highlights, "by": hit.by, "kb": kbs.get(hit.kb_id, ""),
    }  # fmt: skip
