"""Create the FastAPI application of intake."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI

import rowmill as rm
from rowmill.web.guard import LOOPBACK, Guard, KnownHosts
from rowmill.web.problems import EVERYWHERE, answer_with_problems, problems
from rowmill_systems.intake.errors import EmptyFile, FileTooLarge, MissingObject, ObjectTooLarge
from rowmill_systems.intake.intake import Intake
from rowmill_systems.intake.web import files, forms, pages, review

STATUS: dict[type[rm.errors.WorkError], int] = {
    EmptyFile: 422,
    FileTooLarge: 413,
    ObjectTooLarge: 413,
    MissingObject: 404,
}


def create_app(intake: Intake, *, hosts: Sequence[str] = LOOPBACK) -> FastAPI:
    """Create the API and the pages. Requests for other host names are refused, against DNS rebinding."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with intake.opened():
            yield

    app = FastAPI(
        title="Document intake",
        description="Files are read in the background, fields are suggested with evidence, a person decides.",
        version=rm.__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        responses=problems(**EVERYWHERE),
    )
    app.state.intake = intake
    app.include_router(files.router)
    app.include_router(review.router)
    app.include_router(pages.router)
    app.include_router(forms.router)
    app.add_middleware(Guard, most=intake.settings.max_file_bytes)
    app.add_middleware(KnownHosts, names=hosts)
    pages.site.install(app)
    answer_with_problems(app, STATUS)
    return app
