"""Pages for people: upload, watch, review. Rendered here; the script only sends and refreshes."""

import json
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from rowmill.web.pages import Pages
from rowmill_systems.intake import reads
from rowmill_systems.intake.models import ProjectFile
from rowmill_systems.intake.web import files as api
from rowmill_systems.intake.web.asking import GivenFile, GivenIntake, GivenProject

REVIEW = "/review/{organization_id}/{project_id}"
FILES_ON_A_PAGE = 200
router = APIRouter(include_in_schema=False)


def shown_value(value: Any) -> str:
    """A value in one line, for people."""
    match value:
        case {"amount": amount, "currency": currency}:
            return f"{amount} {currency or ''}".strip()
        case list():
            return f"{len(value)} rows" if value and isinstance(value[0], dict) else ", ".join(map(str, value))
        case str():
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)


def size(number: int) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number //= 1000
    return f"{number} GB"


page = Pages(__package__, value=shown_value, size=size).show


@router.get("/")
async def projects(intake: GivenIntake, request: Request) -> HTMLResponse:
    """All projects that have files."""
    waiting = sa.func.count().filter(ProjectFile.processing_status.in_(("queued", "processing")))
    counted = (
        sa.select(
            ProjectFile.organization_id, ProjectFile.project_id, sa.func.count().label("files"), waiting.label("open")
        )
        .group_by(ProjectFile.organization_id, ProjectFile.project_id)
        .order_by(ProjectFile.organization_id, ProjectFile.project_id)
    )
    rows = await intake.mill.run(lambda connection: connection.execute(counted).mappings().all(), write=False)
    return page("projects.html", request, projects=rows)


@router.get(REVIEW)
async def project(
    intake: GivenIntake, project: GivenProject, request: Request, part: Annotated[bool, Query()] = False
) -> HTMLResponse:
    """The files of a project, and where to drop more. `part`: the list alone, for the script."""

    def read(connection: sa.Connection) -> dict[str, Any]:
        return {
            "files": reads.files(connection, project, most=FILES_ON_A_PAGE),
            "counts": reads.counts(connection, project),
        }

    found = await intake.mill.run(read, write=False)
    types = sorted({kind for field in intake.catalogue.fields for kind in field.doc_types})
    return page("list.html" if part else "project.html", request, project=project, doc_types=types, **found)


@router.get(REVIEW + "/files/{file_id}")
async def review(
    intake: GivenIntake,
    project: GivenProject,
    file: GivenFile,
    request: Request,
    part: Annotated[bool, Query()] = False,
) -> HTMLResponse:
    """One file: its pages, with the evidence marked in them, beside what is suggested."""
    shown = await api.one_file(intake, file)
    texts = await api.texts_of(intake, file) if shown.facts or shown.suggestions else None
    evidence: dict[int, list[Any]] = {}
    for suggestion in shown.suggestions:
        evidence.setdefault(suggestion.page, []).append(suggestion)
    return page(
        "suggestions.html" if part else "file.html",
        request,
        project=project,
        file=shown,
        texts=texts or [],
        evidence=evidence,
        pictures=shown.kind in api.PICTURES,
    )
