"""What went wrong, as every endpoint says it: a code and a message."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

import rowmill as rm


class Problem(BaseModel):
    """What went wrong: a stable code, and words for people."""

    code: str = Field(examples=["too_large"])
    message: str


class Changed(Problem):
    """A problem with something that changed meanwhile."""

    state: str | None = Field(description="What it is now; null: it is gone.")


EVERYWHERE = {
    "s400": "a request that can't be read, or for a host that this server does not answer to",
    "s403": "asked by a page of another site",
    "s405": "no such method here",
    "s413": "too many bytes",
    "s422": "a value that can't be",
    "s503": "the database, or the storage, does not answer",
}
"""What every endpoint may answer: for `FastAPI(responses=problems(**EVERYWHERE))`."""


def problems(**why: str) -> dict[int | str, dict[str, Any]]:
    """For OpenAPI: `problems(s404="no such file")`."""
    return {int(name[1:]): {"model": Problem, "description": text} for name, text in why.items()}


def answer_with_problems(app: FastAPI, status: Mapping[type[rm.errors.WorkError], int]) -> None:
    """Every error of the application has a code, also those of the framework. `status` is for errors of its own."""

    async def work_error(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, rm.errors.WorkError)
        usual = 503 if error.retryable else 422
        return JSONResponse({"code": error.code, "message": str(error)}, status.get(type(error), usual))

    app.add_exception_handler(rm.errors.WorkError, work_error)
    app.add_exception_handler(rm.errors.DatabaseUnreachable, _unreachable)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)


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
