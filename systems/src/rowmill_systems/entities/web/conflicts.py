"""Conflicts that a person decides."""

from typing import Annotated, Literal

import sqlalchemy as sa
from fastapi import APIRouter, HTTPException, Path, Query

from rowmill.web.problems import problems
from rowmill_systems.entities import deciding, reads
from rowmill_systems.entities.web import schemas
from rowmill_systems.entities.web.asking import GivenEntities

LARGEST_ID = 2**63 - 1
router = APIRouter(tags=["conflicts"])


@router.get("/conflicts")
async def list_conflicts(
    entities: GivenEntities,
    state: Literal["open", "decided", "settled"] = "open",
    after: Annotated[int, Query(ge=0, le=LARGEST_ID)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> schemas.Conflicts:
    """List conflicts, the oldest first."""

    def read(connection: sa.Connection) -> schemas.Conflicts:
        rows = reads.conflicts(connection, entities.tables, state=state, after=after, most=limit + 1)
        found = [schemas.ConflictOut.model_validate(row) for row in rows[:limit]]
        return schemas.Conflicts(conflicts=found, next=found[-1].id if len(rows) > limit else None)

    return await entities.mill.run(read, write=False)


@router.post(
    "/conflicts/{conflict_id}/decide",
    responses=problems(s404="no such conflict", s409="it was decided, or settled, meanwhile"),
)
async def decide(
    entities: GivenEntities, conflict_id: Annotated[int, Path(ge=1, le=LARGEST_ID)], given: schemas.ConflictDecisionIn
) -> schemas.ConflictOut:
    """Decide which value is right. The decision is about these two values: a new value from a source opens a new
    conflict."""
    if given.choice == "value" and given.value is None:
        raise HTTPException(422, {"code": "invalid", "message": "value: say which value holds"})
    decision = deciding.ConflictDecision(given.choice, given.value, given.by)

    def work(connection: sa.Connection) -> schemas.ConflictOut:
        deciding.decide(connection, entities.tables, conflict_id, decision, entities.believed)
        [row] = reads.conflicts(connection, entities.tables, state=None, after=conflict_id - 1, most=1)
        return schemas.ConflictOut.model_validate(row)

    try:
        return await entities.mill.run(work)
    except deciding.UnknownRecord:
        raise HTTPException(404, {"code": "no_such_conflict", "message": "there is no such conflict"}) from None
    except deciding.EntityChanged as error:
        raise HTTPException(409, {"code": "state_changed", "message": str(error), "state": error.state}) from None
