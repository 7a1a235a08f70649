"""The application."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files as resources
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import JSONResponse
from starlette.staticfiles import StaticFiles

import rowmill as rm
from rowmill.systems.intake.errors import EmptyFile, FileTooLarge, MissingObject
from rowmill.systems.intake.intake import Intake
from rowmill.systems.intake.web import files, pages, review
from rowmill.systems.intake.web.guard import Guard

LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "testserver")
STATUS: dict[type[rm.WorkError], int] = {EmptyFile: 422, FileTooLarge: 413, MissingObject: 404}


def create_app(intake: Intake, *, hosts: Sequence[str] = LOOPBACK) -> FastAPI:
    """Intake over HTTP. It answers to these names alone, so that no other site's name can be pointed at it."""

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
    )
    app.state.intake = intake
    app.include_router(files.router)
    app.include_router(review.router)
    app.include_router(pages.router)
    app.mount("/static", StaticFiles(directory=str(resources(__package__) / "static")), name="static")
    app.add_middleware(Guard, most=intake.settings.max_file_bytes)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.add_exception_handler(rm.WorkError, _work_error)
    app.add_exception_handler(rm.DatabaseUnreachable, _unreachable)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    return app


async def _work_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, rm.WorkError)
    usual = 503 if isinstance(error, rm.TransientError) else 422
    return JSONResponse({"code": error.code, "message": str(error)}, STATUS.get(type(error), usual))


async def _unreachable(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"code": "database", "message": "the database does not answer"}, 503)


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    given: Any = error.detail
    detail = given if isinstance(given, dict) else {"code": "refused", "message": str(given)}
    return JSONResponse(detail, error.status_code, error.headers)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    where = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return JSONResponse({"code": "invalid", "message": where}, 422)
