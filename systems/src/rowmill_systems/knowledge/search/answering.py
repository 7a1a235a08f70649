"""CitedAnswer questions from the documents of knowledge bases, with citations."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import UUID

import rowmill as rm
from rowmill_systems.knowledge.embedding import endpoint_client
from rowmill_systems.knowledge.search.filters import SearchFilters
from rowmill_systems.knowledge.search.hits import SearchHit
from rowmill_systems.knowledge.search.meaning import Degraded
from rowmill_systems.knowledge.search.prompt import SCHEMA, Statements, messages_for, read_statements
from rowmill_systems.knowledge.search.searching import search
from rowmill_systems.parts.models import ModelAnswerUnreadable, ModelClient

if TYPE_CHECKING:
    from rowmill_systems.knowledge.knowledge import Knowledge

SECONDS = 60.0
"""For the model's answer, the second try included."""
WAIT_SECONDS = 10.0
"""For room in the limit."""
MOST_TOKENS = 1000
"""Of an answer."""
TRIES = 2
"""A reply that can't be read, or that rests on passages that were not given, is asked for once more."""
LONGEST_QUESTION = 2000


class AnswerOutcome(StrEnum):
    """Whether there is an answer, or why not."""

    ANSWERED = "answered"
    NOT_FOUND = "not_found"
    """The documents don't say."""
    NO_MODEL = "no_model"
    """No model for answers is configured: there are passages only."""
    MODEL_UNAVAILABLE = "model_unavailable"
    """The model did not answer, not in time, or nothing that could be used."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage that an answer rests on. Its number stands in the text as `[1]`."""

    number: int
    hit: SearchHit


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer, the passages that it cites, and all that were found."""

    outcome: AnswerOutcome
    text: str | None
    citations: tuple[Citation, ...]
    hits: tuple[SearchHit, ...]
    degraded: Degraded | None = None
    """Why passages may be missing, as for a search."""


async def answer(
    knowledge: "Knowledge",
    question: str,
    *,
    kb_ids: Sequence[UUID],
    limit: int = 6,
    filters: SearchFilters | None = None,
) -> CitedAnswer:
    """CitedAnswer a question from the best passages, up to `limit`. Each statement names the passages that it rests on.

    Without a model, or if it fails, there are passages only. Raises KbMissing if a knowledge base is not there.
    """
    question = question[:LONGEST_QUESTION]
    found = await search(knowledge, question, kb_ids=kb_ids, limit=limit, filters=filters)
    without = CitedAnswer(AnswerOutcome.NOT_FOUND, None, (), found.hits, found.degraded)
    if not found.hits:
        return without
    settings = knowledge.settings
    if not (settings.endpoint_url and settings.answer_model):
        return replace(without, outcome=AnswerOutcome.NO_MODEL)
    try:
        async with asyncio.timeout(SECONDS), endpoint_client(settings, knowledge.mill, settings.answer_model) as client:
            said = await _ask(client, question, found.hits)
    except (rm.errors.WorkError, TimeoutError):
        return replace(without, outcome=AnswerOutcome.MODEL_UNAVAILABLE)
    if not said.statements:
        return without
    return replace(without, outcome=AnswerOutcome.ANSWERED, text=_text_of(said), citations=_cited(said, found.hits))


async def _ask(client: ModelClient, question: str, hits: Sequence[SearchHit]) -> Statements:
    """Ask until the reply can be used. Raises ModelAnswerUnreadable if none can."""
    messages = messages_for(question, hits)
    best: Statements | None = None
    for _ in range(TRIES):
        reply = await client.chat(messages, max_tokens=MOST_TOKENS, schema=SCHEMA, wait=WAIT_SECONDS)
        try:
            said = read_statements(reply.text, len(hits))
        except ModelAnswerUnreadable:
            messages = [*messages_for(question, hits), REPAIR]
            continue
        if not said.dropped:
            return said
        best = said if best is None or len(said.statements) > len(best.statements) else best
        messages = [*messages_for(question, hits), REPAIR]
    if best is None or not best.statements:
        raise ModelAnswerUnreadable
    return best


REPAIR = {
    "role": "user",
    "content": "Your last reply was refused: reply with the JSON alone, and name only passages that were given.",
}


def _text_of(said: Statements) -> str:
    return " ".join(f"{each.text} {''.join(f'[{number}]' for number in each.passages)}" for each in said.statements)


def _cited(said: Statements, hits: Sequence[SearchHit]) -> tuple[Citation, ...]:
    numbers = sorted({number for each in said.statements for number in each.passages})
    return tuple(Citation(number, hits[number - 1]) for number in numbers)
