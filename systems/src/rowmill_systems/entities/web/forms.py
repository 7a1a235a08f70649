"""What the forms of pages do: decide a conflict, choose a link, queue an entity again. Why something could not be done
is said on the page."""

from typing import Annotated
from urllib.parse import quote

import sqlalchemy as sa
from fastapi import APIRouter, Form, HTTPException, Path, Request
from fastapi.responses import Response
from pydantic import ValidationError

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


class NotDone(Exception):
    """Says why."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@router.post("/browse/{entity_id:path}/conflicts/{conflict_id}")
async def decide_here(
    entities: GivenEntities,
    request: Request,
    entity_id: str,
    conflict_id: ConflictId,
    choice: Choice = "",
    value: Value = "",
) -> Response:
    """On the page of the entity."""
    try:
        await decided(entities, conflict_id, choice, value)
    except NotDone as error:
        return await not_done(entities, request, entity_id, error.code, str(error))
    return back_to_entity(request, entity_id)


@router.post("/review-conflicts/{conflict_id}")
async def decide_there(
    entities: GivenEntities,
    request: Request,
    conflict_id: ConflictId,
    choice: Choice = "",
    value: Value = "",
) -> Response:
    """In the list of those that are open."""
    try:
        await decided(entities, conflict_id, choice, value)
    except NotDone as error:
        return await show_conflicts(entities, request, code=error.code, problem=f"Not done: {error}.")
    return see_other(request, "/review-conflicts")


@router.post("/browse/{entity_id:path}/queue")
async def queue_again(entities: GivenEntities, request: Request, entity_id: str) -> Response:
    try:
        await enrichment.queue_entity(entities, id_from(entities, entity_id))
    except HTTPException as error:
        return await not_done(entities, request, entity_id, error.status_code, reason(error))
    return back_to_entity(request, entity_id)


@router.post("/browse/{entity_id:path}/link")
async def link(
    entities: GivenEntities,
    request: Request,
    entity_id: str,
    choice: Choice = "",
    source: Value = "",
    id: Value = "",
) -> Response:
    """One of the candidates, another thing, nothing, or whatever the sources find."""
    try:
        given = schemas.LinkDecisionIn.model_validate({"choice": choice, "source": source, "id": id})
        await api.link_entity(entities, id_from(entities, entity_id), given)
    except ValidationError:
        return await not_done(entities, request, entity_id, 422, "choose one of the candidates, or write an id")
    except HTTPException as error:
        return await not_done(entities, request, entity_id, error.status_code, reason(error))
    return back_to_entity(request, entity_id)


@router.post("/browse")
async def add(
    entities: GivenEntities, request: Request, name: Value = "", entity_type: Value = "", context: Value = ""
) -> Response:
    """Put an entity in."""
    given = {"name": name, "entity_type": entity_type.strip() or None, "context": context.strip() or None}
    try:
        row = schemas.EntityIn.model_validate(given).model_dump()
    except ValidationError as error:
        where = error.errors()[0]
        raise HTTPException(422, {"code": "invalid", "message": f"{where['loc'][0]}: {where['msg']}"}) from None
    [entity_id] = await entities.mill.run(lambda connection: submit(entities, connection, [row]))
    return back_to_entity(request, str(entity_id))


async def not_done(entities: Entities, request: Request, entity_id: str, code: int, why: str) -> Response:
    return await show_entity(entities, request, entity_id, code=code, problem=f"Not done: {why}.")


async def decided(entities: Entities, conflict_id: int, choice: str, text: str) -> None:
    """As the API does it; what was written is read as a value of the property."""
    if choice not in ("current", "other", "value"):
        raise NotDone(422, "choose one of the values")
    value = None
    if choice == "value":
        value = await own_value(entities, conflict_id, text)
    try:
        await decide(
            entities, conflict_id, schemas.ConflictDecisionIn.model_validate({"choice": choice, "value": value})
        )
    except HTTPException as error:
        raise NotDone(error.status_code, reason(error)) from None


async def own_value(entities: Entities, conflict_id: int, text: str) -> object:
    if not text.strip() or len(text) > LONGEST_VALUE:
        raise NotDone(422, f"write a value of at most {LONGEST_VALUE} characters")

    def read(connection: sa.Connection) -> str | None:
        rows = reads.conflicts(connection, entities.tables, state=None, after=conflict_id - 1, most=1)
        return next((row["property"] for row in rows if row["id"] == conflict_id), None)

    property = await entities.mill.run(read, write=False)
    if property is None:
        raise NotDone(404, "there is no such conflict")
    try:
        return fit(value_from(property, text))
    except ValueError as error:
        raise NotDone(422, str(error)) from None


def reason(error: HTTPException) -> str:
    detail: object = error.detail
    return str(detail["message"]) if isinstance(detail, dict) else str(detail)


def back_to_entity(request: Request, entity_id: str) -> Response:
    return see_other(request, f"/browse/{quote(entity_id)}")
