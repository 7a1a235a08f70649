"""`rowmill systems knowledge search` and `ask`."""

from collections.abc import Sequence
from uuid import UUID

from rowmill.systems.commands import Exit, UsageError, emit, say
from rowmill_systems.knowledge.commands.loading import find_kbs
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.search.answering import answer
from rowmill_systems.knowledge.search.hits import SearchHit
from rowmill_systems.knowledge.search.searching import search

QUOTED = 240
"""Characters of a passage that are printed."""


async def search_and_show(knowledge: Knowledge, query: str, kbs: Sequence[str], limit: int, json: bool) -> int:
    """Print what a search finds. Return the exit code."""
    found = await search(knowledge, query, kb_ids=await chosen(knowledge, kbs), limit=limit)
    if found.degraded:
        say(f"found by words alone: {found.degraded.value}")

    def show() -> None:
        for number, hit in enumerate(found.hits, 1):
            print(f"{number}. {place_of(hit)}")
            print(f"   {quote_of(hit)}\n")
        if not found.hits:
            print("nothing was found")

    emit(found, json, show)
    return Exit.FINDINGS if found.degraded else Exit.OK


async def answer_and_show(knowledge: Knowledge, question: str, kbs: Sequence[str], json: bool) -> None:
    """Print an answer with its citations, or the passages if they hold no answer."""
    found = await answer(knowledge, question, kb_ids=await chosen(knowledge, kbs))

    def show() -> None:
        print(found.text or "the documents do not say")
        for citation in found.citations:
            print(f"[{citation.number}] {place_of(citation.hit)}")

    emit(found, json, show)


async def chosen(knowledge: Knowledge, kbs: Sequence[str]) -> list[UUID]:
    """Return the ids of the knowledge bases to search. Raises UsageError if there are none at all."""
    found = await find_kbs(knowledge, kbs)
    if not found:
        raise UsageError("there is no knowledge base yet. Make one: rowmill systems knowledge add PATH… --kb NAME")
    return found


def place_of(hit: SearchHit) -> str:
    page = f", page {hit.page}" if hit.page else ""
    return f"{hit.filename}{page}{f' · {hit.heading}' if hit.heading else ''}"


def quote_of(hit: SearchHit) -> str:
    text = " ".join(hit.text.split())
    return text if len(text) <= QUOTED else f"{text[:QUOTED].rsplit(' ', 1)[0]} …"
