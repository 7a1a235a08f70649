"""Upload, list, read, download and requeue files."""

from collections.abc import AsyncIterator
from typing import Annotated
from urllib.parse import quote

import sqlalchemy as sa
from fastapi import APIRouter, Form, HTTPException, Query, Request, Response, UploadFile
from fastapi.responses import StreamingResponse

from rowmill.web.problems import problems
from rowmill.web.site import root_of
from rowmill_systems.intake import reads
from rowmill_systems.intake.intake import Intake
from rowmill_systems.intake.reads import Project
from rowmill_systems.intake.upload import Upload, add
from rowmill_systems.intake.web import schemas
from rowmill_systems.intake.web.asking import LARGEST_FILE_ID, PREFIX, GivenFile, GivenIntake, GivenProject, the_file
from rowmill_systems.parts.documents import packing
from rowmill_systems.parts.documents.document import Kind
from rowmill_systems.parts.fields import Health

CHUNK = 256 * 1024
PICTURES = (Kind.PDF, Kind.IMAGE)
router = APIRouter()


@router.get("/health", tags=["service"])
async def health(intake: GivenIntake) -> Health:
    """Check that the server and its database answer."""
    await intake.mill.run(lambda connection: connection.exec_driver_sql("SELECT 1").close(), write=False)
    return Health()


@router.get("/catalogue", tags=["fields"])
async def catalogue(intake: GivenIntake) -> list[schemas.CatalogueField]:
    """List the fields that are searched in documents."""
    return [schemas.CatalogueField.model_validate(field) for field in intake.catalogue.fields]


@router.post(
    PREFIX + "/files",
    status_code=201,
    tags=["files"],
    responses=problems(s413="too many bytes", s422="an empty file, or a form that is not complete"),
)
async def upload_file(
    intake: GivenIntake,
    project: GivenProject,
    file: UploadFile,
    request: Request,
    response: Response,
    doc_type: Annotated[str | None, Form(max_length=100)] = None,
) -> schemas.File:
    """Upload a file, to be read in the background. Its type is detected from its bytes."""
    number = await take(intake, project, file, doc_type)
    row = await the_file(intake, project, number)
    response.headers["location"] = (
        f"{root_of(request)}/organizations/{project.organization_id}/projects/{project.project_id}/files/{number}"
    )
    return schemas.File.model_validate(row)


async def take(intake: Intake, project: Project, file: UploadFile, doc_type: str | None) -> int:
    """Store an uploaded file and enqueue it. Returns its id."""
    upload = Upload(
        project.organization_id, project.project_id, file.filename or "", file.content_type, doc_type or None
    )
    return await add(intake, upload, chunks_of(file))


async def chunks_of(file: UploadFile) -> AsyncIterator[bytes]:
    while chunk := await file.read(CHUNK):
        yield chunk


@router.get(PREFIX + "/files", tags=["files"])
async def list_files(
    intake: GivenIntake,
    project: GivenProject,
    status: schemas.Status | None = None,
    before: Annotated[
        int | None, Query(ge=1, le=LARGEST_FILE_ID, description="Files with a smaller id than this one.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> schemas.FileList:
    """List the files, the latest first, and count them by state."""

    def read(connection: sa.Connection) -> schemas.FileList:
        rows = reads.files(connection, project, state=status, before=before, most=limit + 1)
        found = [schemas.File.model_validate(row) for row in rows[:limit]]
        more = found[-1].id if len(rows) > limit else None
        return schemas.FileList(files=found, counts=reads.counts(connection, project), next=more)  # type: ignore[arg-type]

    return await intake.mill.run(read, write=False)


@router.get(PREFIX + "/files/{file_id}", tags=["files"], responses=problems(s404="no such file"))
async def one_file(intake: GivenIntake, file: GivenFile) -> schemas.FileWithSuggestions:
    """Return a file with its suggestions and their evidence."""
    labels = {field.key: field.label for field in intake.catalogue.fields}

    def read(connection: sa.Connection) -> schemas.FileWithSuggestions:
        found = reads.analysis(connection, file) if file["processing_status"] == "completed" else None
        return schemas.FileWithSuggestions.model_validate(
            {
                **file,
                "suggestions": [
                    schemas.SuggestionOut.of(row, labels) for row in reads.suggestions(connection, file["id"])
                ],
                "unmapped": reads.notes(connection, file["id"]),
                "facts": found["document"]["facts"] if found else {},
            }
        )

    return await intake.mill.run(read, write=False)


@router.get(PREFIX + "/files/{file_id}/content", tags=["files"], responses=problems(s404="no such file, or no bytes"))
async def content(intake: GivenIntake, file: GivenFile) -> StreamingResponse:
    """Download the file as it was uploaded."""
    stream = await intake.storage.open(file["storage_key"])
    return StreamingResponse(
        stream,
        media_type="application/octet-stream",  # never as what the uploader says: a browser might run it
        headers={
            "content-disposition": f"attachment; filename*=UTF-8''{quote(file['filename'])}",
            "content-length": str(file["size_bytes"]),
        },
    )


@router.get(
    PREFIX + "/files/{file_id}/pages", tags=["files"], responses=problems(s404="no such file", s409="not read yet")
)
async def page_texts(intake: GivenIntake, file: GivenFile) -> list[schemas.PageText]:
    """Return the text that was read in a file, page by page."""
    found = await texts_of(intake, file)
    if found is None:
        raise HTTPException(409, {"code": "not_read", "message": f"file {file['id']} is {file['processing_status']}"})
    return found


async def texts_of(intake: Intake, file: sa.RowMapping) -> list[schemas.PageText] | None:
    """Return the texts of the pages; None if the file was not read yet."""
    found = await intake.mill.run(lambda connection: reads.analysis(connection, file), write=False)
    if found is None:
        return None
    return [schemas.PageText.model_validate(page) for page in packing.from_json(found["document"]).pages]


@router.get(
    PREFIX + "/files/{file_id}/pages/{number}.png",
    tags=["files"],
    response_class=Response,
    responses={200: {"content": {"image/png": {}}}, **problems(s404="no such file, page or picture")},
)
async def page_picture(intake: GivenIntake, file: GivenFile, number: int) -> Response:
    """Return a page of a PDF or an image as a picture."""
    if file["kind"] not in PICTURES or not 1 <= number <= (file["page_count"] or 0):
        raise HTTPException(
            404, {"code": "no_picture", "message": f"file {file['id']} has no picture of page {number}"}
        )
    content = await intake.storage.get(file["storage_key"], most=intake.settings.max_file_bytes)
    picture = await intake.pictures.render(content, Kind(file["kind"]), number)
    return Response(picture, media_type="image/png", headers={"cache-control": "private, max-age=3600"})


@router.post(
    PREFIX + "/files/{file_id}/requeue",
    status_code=202,
    tags=["files"],
    responses=problems(s404="no such file", s409="it is being processed"),
)
async def requeue(
    intake: GivenIntake, project: GivenProject, file: GivenFile, how: schemas.Requeue | None = None
) -> schemas.File:
    """Read a file again, with attempts at zero. Suggestions that a person decided stay."""
    busy = HTTPException(409, {"code": "processing", "message": f"file {file['id']} is being processed"})
    if file["processing_status"] == "processing":
        raise busy
    if how is None or how.fresh:
        await intake.mill.run(lambda connection: reads.outdate_analysis(connection, file))
    changed = await intake.files.requeue(file["id"])
    now = await the_file(intake, project, file["id"])
    if not changed and now["processing_status"] == "processing":  # otherwise it is ours that is processed by now
        raise busy
    return schemas.File.model_validate(now)
