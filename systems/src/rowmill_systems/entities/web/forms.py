"""The forms of the pages. If something can't be done, the page shows why."""

from collections.abc import Coroutine
from typing import Annotated, Any
from urllib.parse import quote

import sqlalchemy as sa
from fastapi import APIRouter, Form, HTTPException, Path, Request
from fastapi.responses import Response
from pydantic import ValidationError

from rowmill.web.problems import reason
from rowmill.web.site import see_other
from rowmill_systems.entities import reads
from rowmill_systems.entities.entities import Entities
from rowmill_systems.entities.submitting import submit
from rowmill_systems.entities.web import enrichment, schemas
from rowmill_systems.entities.web import entities as api
from rowmill_systems.entities.web.asking import GivenEntities, id_from
from rowmill_systems.entities.web.conflicts import LARGEST_ID, decide
from rowmill_systems.entities.web.pages import show_conflicts, show_entity
from rowmill_systems.entities.web.shown import value_from
from rowmill_systems.parts.fields import fit

router = APIRouter(include_in_schema=False)
ConflictId = Annotated[int, Path(ge=1, le=LARGEST_ID)]
Choice = Annotated[str, Form()]
Value = Annotated[str, Form()]
LONGEST_VALUE = 1000


def not_done(code: int, why: str) -> HTTPException:
    return HTTPException(code, {"code": "not_done", "message": why})


@router.post("/browse/{entity_id:path}/conflicts/{conflict_id}")
async def decide_here(
    entities: GivenEntities,
    request: Request,
    entity_id: str,
    conflict_id: ConflictId,
    choice: Choice = "",
    value: Value = "",
) -> Response:
    """Decide a conflict on the page of its entity."""
    return await done_or_shown(entities, request, entity_id, decided(entities, conflict_id, choice, value))


@router.post("/review-conflicts/{conflict_id}")
async def decide_there(
    entities: GivenEntities,
    request: Request,
    conflict_id: ConflictId,
    choice: Choice = "",
    value: Value = "",
) -> Response:
    """Decide a conflict in the list of open ones."""
    try:
        await decided(entities, conflict_id, choice, value)
    except HTTPException as error:
        return await show_conflicts(entities, request, code=error.status_code, problem=f"Not done: {reason(error)}.")
    return see_other(request, "/review-conflicts")


@router.post("/browse/{entity_id:path}/queue")
async def queue_again(entities: GivenEntities, request: Request, entity_id: str) -> Response:
    work = enrichment.queue_entity(entities, id_from(entities, entity_id))
    return await done_or_shown(entities, request, entity_id, work)


@router.post("/browse/{entity_id:path}/link")
async def link(
    entities: GivenEntities,
    request: Request,
    entity_id: str,
    choice: Choice = "",
    source: Value = "",
    id: Value = "",
) -> Response:
    """Link to a candidate, to another thing, to nothing, or leave it to the sources again."""

    async def work() -> None:
        try:
            given = schemas.LinkDecisionIn.model_validate({"choice": choice, "source": source, "id": id})
        except ValidationError:
            raise not_done(422, "choose one of the candidates, or write an id") from None
        await api.link_entity(entities, id_from(entities, entity_id), given)

    return await done_or_shown(entities, request, entity_id, work())


@router.post("/browse")
async def add(
    entities: GivenEntities, request: Request, name: Value = "", entity_type: Value = "", context: Value = ""
) -> Response:
    """Add an entity."""
    given = {"name": name, "entity_type": entity_type.strip() or None, "context": context.strip() or None}
    try:
        row = schemas.EntityIn.model_validate(given).model_dump()
    except ValidationError as error:
        where = error.errors()[0]
        raise HTTPException(422, {"code": "invalid", "message": f"{where['loc'][0]}: {where['msg']}"}) from None
    [entity_id] = await entities.mill.run(lambda connection: submit(entities, connection, [row]))
    return back_to_entity(request, str(entity_id))


async def done_or_shown(
    entities: Entities, request: Request, entity_id: str, work: Coroutine[Any, Any, object]
) -> Response:
    """Do what a form asks, and go back to the page of the entity. If that fails, show the page with the reason."""
    try:
        await work
    except HTTPException as error:
        problem = f"Not done: {reason(error)}."
        return await show_entity(entities, request, entity_id, code=error.status_code, problem=problem)
    return back_to_entity(request, entity_id)


async def decided(entities: Entities, conflict_id: int, choice: str, text: str) -> None:
    """Decide a conflict as the API does. A written text is read as a value of the property. Raises HTTPException."""
    if choice not in ("current", "other", "value"):
        raise not_done(422, "choose one of the values")
    value = None
    if choice == "value":
        value = await own_value(entities, conflict_id, text)
    await decide(entities, conflict_id, schemas.ConflictDecisionIn.model_validate({"choice": choice, "value": value}))


async def own_value(entities: Entities, conflict_id: int, text: str) -> object:
    if not text.strip() or len(text) > LONGEST_VALUE:
        raise not_done(422, f"write a value of at most {LONGEST_VALUE} characters")

    def read(connection: sa.Connection) -> str | None:
        rows = reads.conflicts(connection, entities.tables, state=None, after=conflict_id - 1, most=1)
        return next((row["property"] for row in rows if row["id"] == conflict_id), None)

    property = await entities.mill.run(read, write=False)
    if property is None:
        raise not_done(404, "there is no such conflict")
    try:
        return fit(value_from(property, text))
    except ValueError as error:
        raise not_done(422, str(error)) from None


def back_to_entity(request: Request, entity_id: str) -> Response:
    return see_other(request, f"/browse/{quote(entity_id)}")
