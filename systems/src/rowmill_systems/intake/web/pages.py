"""The pages: projects, files, suggestions and applied fields. Rendered on the server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, Response

from rowmill.web.shown import SURE
from rowmill.web.site import NavLink, Site, see_other
from rowmill_systems.intake import reads
from rowmill_systems.intake.intake import Intake
from rowmill_systems.intake.reads import Project
from rowmill_systems.intake.web import files as api
from rowmill_systems.intake.web import review as review_api
from rowmill_systems.intake.web import schemas
from rowmill_systems.intake.web.asking import LARGEST_ID, GivenFile, GivenIntake, GivenProject
from rowmill_systems.intake.web.values import as_json, kind_of, shown_value

REVIEW = "/review/{organization_id}/{project_id}"
TONES = {
    "queued": "info", "processing": "busy", "completed": "good", "failed": "bad",
    "pending": "info", "applied": "good", "rejected": "plain",
}  # fmt: skip
router = APIRouter(include_in_schema=False)
Text = Annotated[str, Query(max_length=3000)]
Number = Annotated[int, Query(ge=1, le=LARGEST_ID)]


site = Site(
    "Document intake",
    __package__,
    pages=[
        NavLink("Projects", "/", within=["/review"]),
        NavLink("Catalogue", "/looked-for"),
        NavLink("API", "/docs"),
    ],
    value=shown_value,
    kind=kind_of,
    as_json=as_json,
    state_tone=lambda state: TONES.get(state, "plain"),
)


@router.get("/")
async def projects(intake: GivenIntake, request: Request) -> HTMLResponse:
    """List the projects that have files."""
    rows = await intake.mill.run(reads.projects, write=False)
    return site.page("projects.html", request, projects=rows, open=any(row["open"] for row in rows))


@router.get("/review")
async def open_project(request: Request, organization_id: Number, project_id: Number) -> Response:
    """Go to a project by its numbers, also if it has no files yet."""
    return see_other(request, f"/review/{organization_id}/{project_id}")


@router.get("/looked-for")
async def looked_for(intake: GivenIntake, request: Request) -> HTMLResponse:
    """Show the fields that are searched in documents."""
    return site.page("catalogue.html", request, fields=intake.catalogue.fields)


@router.get(REVIEW)
async def project(
    intake: GivenIntake,
    project: GivenProject,
    request: Request,
    q: Text = "",
    state: Text = "",
    sort: Text = "",
    after: Text = "",
) -> HTMLResponse:
    return await show_project(intake, project, request, q=q, state=state, sort=sort, after=after)


async def show_project(
    intake: Intake,
    project: Project,
    request: Request,
    *,
    q: str = "",
    state: str = "",
    sort: str = "",
    after: str = "",
    code: int = 200,
    problem: str | None = None,
) -> HTMLResponse:
    """Show the files of a project, and the upload."""

    def read(connection: sa.Connection) -> dict[str, Any]:
        return {
            "part": reads.file_list(connection, project, search=q, state=state, sort=sort, after=after),
            "counts": reads.counts(connection, project),
        }

    found = await intake.mill.run(read, write=False)
    types = sorted({kind for field in intake.catalogue.fields for kind in field.doc_types})
    return site.page(
        "project.html",
        request,
        code=code,
        problem=problem,
        project=project,
        doc_types=types,
        q=q,
        state=state,
        sort=sort,
        after=after,
        **found,
    )


@router.get(REVIEW + "/fields")
async def fields(
    intake: GivenIntake, project: GivenProject, request: Request, q: Text = "", sort: Text = ""
) -> HTMLResponse:
    return await show_fields(intake, project, request, q=q, sort=sort)


async def show_fields(
    intake: Intake,
    project: Project,
    request: Request,
    *,
    q: str = "",
    sort: str = "",
    code: int = 200,
    problem: str | None = None,
) -> HTMLResponse:
    """Show the applied values of a project, to edit, undo or export them."""
    orders = {"field": lambda one: one.label.lower(), "decided": lambda one: one.decided_at,
              "file": lambda one: one.filename.lower()}  # fmt: skip
    order = orders.get(sort.removeprefix("-"))
    if sort and order is None:
        raise HTTPException(404, {"code": "no_such_page", "message": "there is no such order"})
    found = await review_api.fields(intake, project)
    known = [one for one in found if q.lower() in f"{one.label} {shown_value(one.value)} {one.filename}".lower()]
    known.sort(key=order or orders["field"], reverse=sort.startswith("-"))
    values = {"fields": known, "all": len(found), "q": q, "sort": sort or "field", "project": project}
    return site.page("fields.html", request, code=code, problem=problem, **values)


@router.get(REVIEW + "/files/{file_id}")
async def review(intake: GivenIntake, project: GivenProject, file: GivenFile, request: Request) -> HTMLResponse:
    return await show_file(intake, project, file, request)


@dataclass(frozen=True, slots=True)
class Groups:
    """The suggestions of a file by what a person has to do with them."""

    sure: Sequence[schemas.SuggestionOut]
    to_check: Sequence[schemas.SuggestionOut]
    applied: Sequence[schemas.SuggestionOut]
    rejected: Sequence[schemas.SuggestionOut]

    @classmethod
    def of(cls, suggestions: Sequence[schemas.SuggestionOut], order: Mapping[str, int]) -> "Groups":
        """Group suggestions, in the order of the catalogue, with the most likely value of a field first."""
        last = len(order)
        rows = sorted(suggestions, key=lambda one: (order.get(one.field_key, last), -one.confidence, one.id))
        pending = [one for one in rows if one.state == "pending"]
        return cls(
            sure=[one for one in pending if one.confidence >= SURE],
            to_check=[one for one in pending if one.confidence < SURE],
            applied=[one for one in rows if one.state == "applied"],
            rejected=[one for one in rows if one.state == "rejected"],
        )


async def show_file(
    intake: Intake,
    project: Project,
    file: sa.RowMapping,
    request: Request,
    *,
    code: int = 200,
    problem: str | None = None,
) -> HTMLResponse:
    """Show the pages of a file with the evidence marked, beside its suggestions."""
    shown = await api.one_file(intake, file)
    texts = await api.texts_of(intake, file) if shown.facts or shown.suggestions else None
    evidence: dict[int, list[Any]] = {}
    for suggestion in shown.suggestions:
        evidence.setdefault(suggestion.page, []).append(suggestion)
    return site.page(
        "file.html",
        request,
        code=code,
        problem=problem,
        project=project,
        file=shown,
        groups=Groups.of(shown.suggestions, {field.key: at for at, field in enumerate(intake.catalogue.fields)}),
        texts=texts or [],
        evidence=evidence,
        pictures=shown.kind in api.PICTURES,
    )
