"""The forms of the pages: upload, read again, apply, reject, edit, undo. If something can't be done, the page shows
why."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Form, HTTPException, Request, UploadFile
from fastapi.responses import Response

import rowmill as rm
from rowmill.web.problems import reason
from rowmill.web.shown import SURE
from rowmill.web.site import see_other
from rowmill_systems.intake import reads
from rowmill_systems.intake import suggestions as deciding
from rowmill_systems.intake.intake import Intake
from rowmill_systems.intake.models import SuggestionState
from rowmill_systems.intake.reads import Project
from rowmill_systems.intake.web import files as api
from rowmill_systems.intake.web import review as review_api
from rowmill_systems.intake.web.asking import GivenFile, GivenIntake, GivenProject
from rowmill_systems.intake.web.pages import REVIEW, show_fields, show_file, show_project
from rowmill_systems.intake.web.review import SuggestionId
from rowmill_systems.intake.web.values import value_from
from rowmill_systems.parts.fields import fit

FILE = REVIEW + "/files/{file_id}"
Choice = Annotated[str, Form()]
Written = Annotated[str, Form()]
router = APIRouter(include_in_schema=False)


@router.post(REVIEW)
async def upload(
    intake: GivenIntake,
    project: GivenProject,
    request: Request,
    file: list[UploadFile],
    doc_type: Annotated[str, Form(max_length=100)] = "",
) -> Response:
    """Upload files."""
    refused = []
    for each in file:
        try:
            await api.take(intake, project, each, doc_type or None)
        except rm.errors.WorkError as error:
            refused.append(f"{each.filename}: {error}")
    if refused:
        return await show_project(intake, project, request, code=422, problem=f"Not taken: {'; '.join(refused)}.")
    return see_other(request, path_of(project))


@router.post(FILE + "/requeue")
async def read_again(intake: GivenIntake, project: GivenProject, file: GivenFile, request: Request) -> Response:
    try:
        await api.requeue(intake, project, file)
    except HTTPException as error:
        return await show_file(
            intake, project, file, request, code=error.status_code, problem=f"Not done: {reason(error)}."
        )
    return see_other(request, path_of(project, file))


@router.post(FILE + "/apply-sure")
async def apply_sure(intake: GivenIntake, project: GivenProject, file: GivenFile, request: Request) -> Response:
    """Apply all pending suggestions that are nearly certain, in one transaction."""

    def work(connection: sa.Connection) -> None:
        decision = deciding.SuggestionDecision(SuggestionState.APPLIED)
        for row in reads.suggestions(connection, file["id"]):
            if row["state"] == SuggestionState.PENDING and row["confidence"] >= SURE:
                deciding.decide(connection, file["id"], row["id"], decision)

    try:
        await intake.mill.run(work)
    except (deciding.BeingProcessed, deciding.SuggestionChanged) as error:
        return await show_file(intake, project, file, request, code=409, problem=f"Not done: {error}.")
    return see_other(request, path_of(project, file))


@router.post(FILE + "/suggestions/{suggestion_id}")
async def change(
    intake: GivenIntake,
    project: GivenProject,
    file: GivenFile,
    suggestion_id: SuggestionId,
    request: Request,
    choice: Choice = "",
    text: Written = "",
    amount: Written = "",
    currency: Written = "",
    back: Annotated[Literal["file", "fields"], Form()] = "file",
) -> Response:
    """Apply, reject, edit or undo, from the page of the file or from that of the project's fields."""
    show: Callable[..., Any] = partial(show_file, intake, project, file, request)
    if back == "fields":
        show = partial(show_fields, intake, project, request)
    try:
        written = {"text": text, "amount": amount, "currency": currency}
        work = await work_of(intake, file, suggestion_id, choice, written)
        await review_api.change(intake, file, suggestion_id, work)
    except HTTPException as error:
        answer: Response = await show(code=error.status_code, problem=f"Not done: {reason(error)}.")
        return answer
    return see_other(request, path_of(project, file) if back == "file" else f"{path_of(project)}/fields")


async def work_of(
    intake: Intake, file: sa.RowMapping, suggestion_id: int, choice: str, written: dict[str, str]
) -> Callable[..., None]:
    """Return the function that changes a suggestion as a form asks. Raises HTTPException if the form is wrong."""
    match choice:
        case "apply" | "reject":
            state = SuggestionState.APPLIED if choice == "apply" else SuggestionState.REJECTED
            return partial(deciding.decide, file_id=file["id"], decision=deciding.SuggestionDecision(state))
        case "undo":
            return partial(deciding.undo, file_id=file["id"])
        case "edit" | "apply-edited":
            value = await edited(intake, file, suggestion_id, written)
            if choice == "edit":
                return partial(deciding.edit, file_id=file["id"], value=value)
            decision = deciding.SuggestionDecision(SuggestionState.APPLIED, value=value)
            return partial(deciding.decide, file_id=file["id"], decision=decision)
    raise HTTPException(422, {"code": "invalid", "message": "choose what to do"})


async def edited(intake: Intake, file: sa.RowMapping, suggestion_id: int, written: dict[str, str]) -> Any:
    rows = await intake.mill.run(lambda connection: reads.suggestions(connection, file["id"]), write=False)
    before = next((row["value"] for row in rows if row["id"] == suggestion_id), None)
    if before is None:
        raise HTTPException(409, {"code": "state_changed", "message": "the suggestion was replaced meanwhile"})
    try:
        return fit(value_from(before, **written))
    except ValueError as error:
        raise HTTPException(422, {"code": "invalid", "message": str(error)}) from None


def path_of(project: Project, file: sa.RowMapping | None = None) -> str:
    path = f"/review/{project.organization_id}/{project.project_id}"
    return path if file is None else f"{path}/files/{file['id']}"
