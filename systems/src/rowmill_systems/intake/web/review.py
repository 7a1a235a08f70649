"""What people decide on."""

from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Body, HTTPException, Path

from rowmill.web.problems import Changed, problems
from rowmill_systems.intake import reads
from rowmill_systems.intake import suggestions as deciding
from rowmill_systems.intake.models import SuggestionState
from rowmill_systems.intake.web import schemas
from rowmill_systems.intake.web.asking import LARGEST_FILE_ID, PREFIX, GivenFile, GivenIntake, GivenProject

router = APIRouter(tags=["review"])
SUGGESTION = PREFIX + "/files/{file_id}/suggestions/{suggestion_id}"
WHY = problems(s404="no such file or suggestion") | {
    409: {"model": Changed, "description": "it was decided on, or replaced, meanwhile, or the file is being processed"}
}
SuggestionId = Annotated[int, Path(ge=1, le=LARGEST_FILE_ID)]
Given = Annotated[schemas.SuggestionDecisionIn | None, Body()]


@router.post(SUGGESTION + "/apply", responses=WHY)
async def apply(
    intake: GivenIntake, file: GivenFile, suggestion_id: SuggestionId, decision: Given = None
) -> schemas.SuggestionOut:
    """Take a pending suggestion, as it is or with a value of your own. Not while its file is being processed: a new
    reading may be about to replace it."""
    return await decide(
        intake, file, suggestion_id, SuggestionState.APPLIED, decision or schemas.SuggestionDecisionIn()
    )


@router.post(SUGGESTION + "/reject", responses=WHY)
async def reject(
    intake: GivenIntake, file: GivenFile, suggestion_id: SuggestionId, decision: Given = None
) -> schemas.SuggestionOut:
    """Turn a pending suggestion down. It is not made again for this file."""
    return await decide(
        intake, file, suggestion_id, SuggestionState.REJECTED, decision or schemas.SuggestionDecisionIn()
    )


async def decide(
    intake: GivenIntake,
    file: GivenFile,
    suggestion_id: int,
    state: SuggestionState,
    given: schemas.SuggestionDecisionIn,
) -> schemas.SuggestionOut:
    labels = {field.key: field.label for field in intake.catalogue.fields}
    value = given.value if state is SuggestionState.APPLIED else None
    decision = deciding.SuggestionDecision(state, given.by, value)

    def work(connection: sa.Connection) -> schemas.SuggestionOut:
        deciding.decide(connection, file["id"], suggestion_id, decision)
        rows = reads.suggestions(connection, file["id"])
        return next(schemas.SuggestionOut.of(row, labels) for row in rows if row["id"] == suggestion_id)

    try:
        return await intake.mill.run(work)
    except deciding.UnknownFile:
        raise HTTPException(404, {"code": "no_such_file", "message": "the file is gone"}) from None
    except deciding.UnknownSuggestion:
        message = f"file {file['id']} never had a suggestion {suggestion_id}"
        raise HTTPException(404, {"code": "no_such_suggestion", "message": message}) from None
    except deciding.BeingProcessed as error:
        raise HTTPException(409, {"code": "processing", "message": str(error), "state": "pending"}) from None
    except deciding.SuggestionChanged as error:
        raise HTTPException(409, {"code": "state_changed", "message": str(error), "state": error.state}) from None


@router.get(PREFIX + "/fields", tags=["fields"])
async def fields(intake: GivenIntake, project: GivenProject) -> list[schemas.FieldValue]:
    """What the project knows: the suggestions that were applied, the latest of each field."""
    labels = {field.key: field.label for field in intake.catalogue.fields}
    rows = await intake.mill.run(lambda connection: reads.applied(connection, project, intake.catalogue), write=False)
    return [
        schemas.FieldValue.model_validate({**row, "label": labels.get(row["field_key"], row["field_key"])})
        for row in rows
    ]
