"""Autocomplete: things, types and properties that begin with a text, and a flyout for each."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Response

from rowmill.web.problems import problems
from rowmill_systems.entities.kb.thing import Thing
from rowmill_systems.entities.linking.types import type_of
from rowmill_systems.entities.reconciliation import pages, vocabulary
from rowmill_systems.entities.reconciliation.asking import Callback, GivenService, Identifier, TypeWord, answered
from rowmill_systems.entities.reconciliation.vocabulary import Term

ON_A_PAGE = 20
FURTHEST = 500
"""Suggestions that can be paged through. Whoever has not found it by then types another letter."""
router = APIRouter()

Prefix = Annotated[str, Query(max_length=500, description="What somebody has typed.")]
Cursor = Annotated[int, Query(ge=0, le=FURTHEST, description="Suggestions to skip.")]


@router.get("/suggest/entity")
async def suggest_entity(
    service: GivenService, prefix: Prefix = "", cursor: Cursor = 0, type: TypeWord = None, callback: Callback = None
) -> Response:
    """Suggest things whose name begins with a text, and the thing that has it as its id."""
    kb, wanted = service.knowledge_base, type_of(type)

    def found() -> Sequence[Thing]:
        text = prefix.strip()
        if not text:
            return []
        called = kb.get(text)
        begun = kb.complete(text, most=cursor + ON_A_PAGE, type=wanted)
        return begun if called is None else [called, *(thing for thing in begun if thing.id != called.id)]

    things = [
        {**Term(thing.id, thing.name, thing.description).shown(), "notable": vocabulary.types_of(thing.types)}
        for thing in await asyncio.to_thread(found)
    ]
    return suggested(prefix, things, cursor, callback)


@router.get("/suggest/type")
async def suggest_type(prefix: Prefix = "", cursor: Cursor = 0, callback: Callback = None) -> Response:
    """Suggest types that begin with a text."""
    found = vocabulary.beginning_with(prefix, vocabulary.type_words())
    return suggested(prefix, [word.shown() for word in found], cursor, callback)


@router.get("/suggest/property")
async def suggest_property(prefix: Prefix = "", cursor: Cursor = 0, callback: Callback = None) -> Response:
    """Suggest properties that begin with a text."""
    found = vocabulary.beginning_with(prefix, vocabulary.property_words(None))
    return suggested(prefix, [word.shown() for word in found], cursor, callback)


def suggested(prefix: str, found: Sequence[dict[str, Any]], cursor: int, callback: str | None) -> Response:
    """Return a page of suggestions. It repeats the prefix: older versions of OpenRefine fail without it."""
    return answered({"prefix": prefix, "result": found[cursor : cursor + ON_A_PAGE]}, callback)


@router.get("/properties")
async def propose_properties(
    type: TypeWord = None, limit: Annotated[int | None, Query(ge=0)] = None, callback: Callback = None
) -> Response:
    """Return the properties of a type; all of them for an unknown type."""
    words = vocabulary.property_words(type_of(type))
    said = {name: value for name, value in (("type", type), ("limit", limit)) if value is not None}
    return answered({**said, "properties": [word.shown() for word in words[: limit or None]]}, callback)


@router.get("/flyout/entity", responses=problems(s404="no such thing"))
async def flyout_of_entity(service: GivenService, id: Identifier, callback: Callback = None) -> Response:
    """Return a short description of a thing, as HTML."""
    return flyout(await asyncio.to_thread(service.knowledge_base.get, id), callback)


@router.get("/flyout/type", responses=problems(s404="no such type"))
async def flyout_of_type(id: Identifier, callback: Callback = None) -> Response:
    """Return a short description of a type, as HTML."""
    return flyout(next((word for word in vocabulary.type_words() if word.id == id), None), callback)


@router.get("/flyout/property", responses=problems(s404="no such property"))
async def flyout_of_property(id: Identifier, callback: Callback = None) -> Response:
    """Return a short description of a property, as HTML."""
    return flyout(vocabulary.property_word(id), callback)


def flyout(found: Thing | Term | None, callback: str | None) -> Response:
    if found is None:
        raise HTTPException(404, {"code": "not_here", "message": "the knowledge base has nothing of this id"})
    return answered({"id": found.id, "html": pages.flyout(found.name, found.description)}, callback)
