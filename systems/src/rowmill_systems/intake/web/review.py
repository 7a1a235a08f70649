"""Decide suggestions, and read the applied fields of a project."""

import csv
import io
from collections.abc import Callable
from functools import partial
from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Body, HTTPException, Path, Response

from rowmill.web.problems import Changed, problems
from rowmill_systems.intake import reads
from rowmill_systems.intake import suggestions as deciding
from rowmill_systems.intake.intake import Intake
from rowmill_systems.intake.models import SuggestionState
from rowmill_systems.intake.web import schemas
from rowmill_systems.intake.web.asking import LARGEST_FILE_ID, PREFIX, GivenFile, GivenIntake, GivenProject
from rowmill_systems.intake.web.values import shown_value
from rowmill_systems.parts.values import harmless

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
    """Apply a pending suggestion, with its value or with one of your own. Refused while the file is processed: the
    suggestion may be replaced."""
    return await decide(
        intake, file, suggestion_id, SuggestionState.APPLIED, decision or schemas.SuggestionDecisionIn()
    )


@router.post(SUGGESTION + "/reject", responses=WHY)
async def reject(
    intake: GivenIntake, file: GivenFile, suggestion_id: SuggestionId, decision: Given = None
) -> schemas.SuggestionOut:
    """Reject a pending suggestion. It is not suggested again for this file."""
    return await decide(
        intake, file, suggestion_id, SuggestionState.REJECTED, decision or schemas.SuggestionDecisionIn()
    )


@router.post(SUGGESTION + "/undo", responses=WHY)
async def undo(intake: GivenIntake, file: GivenFile, suggestion_id: SuggestionId) -> schemas.SuggestionOut:
    """Make a suggestion pending again that was applied or rejected."""
    return await change(intake, file, suggestion_id, partial(deciding.undo, file_id=file["id"]))


@router.put(SUGGESTION + "/value", responses=WHY)
async def edit(
    intake: GivenIntake, file: GivenFile, suggestion_id: SuggestionId, given: schemas.NewValue
) -> schemas.SuggestionOut:
    """Replace the value of an applied suggestion."""
    work = partial(deciding.edit, file_id=file["id"], value=given.value, by=given.by)
    return await change(intake, file, suggestion_id, work)


async def decide(
    intake: Intake, file: sa.RowMapping, suggestion_id: int, state: SuggestionState, given: schemas.SuggestionDecisionIn
) -> schemas.SuggestionOut:
    value = given.value if state is SuggestionState.APPLIED else None
    decision = deciding.SuggestionDecision(state, given.by, value)
    return await change(intake, file, suggestion_id, partial(deciding.decide, file_id=file["id"], decision=decision))


async def change(
    intake: Intake, file: sa.RowMapping, suggestion_id: int, work: Callable[..., None]
) -> schemas.SuggestionOut:
    """Change a suggestion, and return it. Raises HTTPException if it can't be changed."""
    labels = {field.key: field.label for field in intake.catalogue.fields}

    def changed(connection: sa.Connection) -> schemas.SuggestionOut:
        work(connection, suggestion_id=suggestion_id)
        rows = reads.suggestions(connection, file["id"])
        return next(schemas.SuggestionOut.of(row, labels) for row in rows if row["id"] == suggestion_id)

    try:
        return await intake.mill.run(changed)
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
    """List the applied values of a project: the latest of each field."""
    labels = {field.key: field.label for field in intake.catalogue.fields}
    rows = await intake.mill.run(lambda connection: reads.applied(connection, project, intake.catalogue), write=False)
    return [
        schemas.FieldValue.model_validate({**row, "label": labels.get(row["field_key"], row["field_key"])})
        for row in rows
    ]


@router.get(
    PREFIX + "/fields.csv",
    tags=["fields"],
    response_class=Response,
    responses={200: {"content": {"text/csv": {}}, "description": "The fields, for a spreadsheet."}},
)
async def fields_csv(intake: GivenIntake, project: GivenProject) -> Response:
    """Export the applied values of a project as CSV."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("field", "label", "value", "file", "page", "quote", "decided_at", "decided_by"))
    for field in await fields(intake, project):
        cells = (field.field_key, field.label, shown_value(field.value), field.filename, str(field.page), field.quote)
        decided = (field.decided_at.isoformat(), field.decided_by or "")
        writer.writerow(map(harmless, (*cells, *decided)))
    name = f"fields-{project.organization_id}-{project.project_id}.csv"
    # The mark at the beginning tells spreadsheets that it is UTF-8.
    return Response(
        "\ufeff" + text.getvalue(),
        media_type="text/csv; charset=utf-8",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )
