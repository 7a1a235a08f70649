"""Dependencies of the endpoints: the system, and the project and file of the path."""

from typing import Annotated

import sqlalchemy as sa
from fastapi import Depends, HTTPException, Path, Request

from rowmill_systems.intake import reads
from rowmill_systems.intake.intake import Intake
from rowmill_systems.intake.reads import Project

PREFIX = "/organizations/{organization_id}/projects/{project_id}"
LARGEST_ID = 2**31 - 1
LARGEST_FILE_ID = 2**63 - 1

ProjectId = Annotated[int, Path(ge=1, le=LARGEST_ID)]
FileId = Annotated[int, Path(ge=1, le=LARGEST_FILE_ID)]


def the_intake(request: Request) -> Intake:
    found: Intake = request.app.state.intake
    return found


def the_project(organization_id: ProjectId, project_id: ProjectId) -> Project:
    return Project(organization_id, project_id)


GivenIntake = Annotated[Intake, Depends(the_intake)]
GivenProject = Annotated[Project, Depends(the_project)]


async def the_file(intake: GivenIntake, project: GivenProject, file_id: FileId) -> sa.RowMapping:
    found = await intake.mill.run(lambda connection: reads.one_file(connection, project, file_id), write=False)
    if found is None:
        raise HTTPException(404, {"code": "no_such_file", "message": f"this project has no file {file_id}"})
    return found


GivenFile = Annotated[sa.RowMapping, Depends(the_file)]
