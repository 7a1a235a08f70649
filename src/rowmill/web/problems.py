"""Errors as every endpoint answers them: a code and a message, as JSON, or as a page for a browser."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

import rowmill as rm
from rowmill.web.headers import HEADERS
from rowmill.web.keyset import UnknownPage
from rowmill.web.site import Site, to_login


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


TITLES = {
    400: "That request can't be read",
    401: "Log in first",
    403: "Not allowed",
    404: "Page not found",
    405: "Not allowed here",
    409: "It changed meanwhile",
    413: "Too large",
    422: "That can't be done",
    429: "Too many tries",
    500: "Something went wrong",
    503: "Not available right now",
}
UNREACHABLE = {"code": "database", "message": "the database does not answer"}
BROKEN = "The server failed to answer. Its log says why."
PLAIN = {404: "There is nothing at this address.", 405: "This address can't be used in that way."}
"""What pages say in the place of the framework's two words."""


def answer_with_problems(app: FastAPI, status: Mapping[type[rm.errors.WorkError], int]) -> None:
    """Give every error of the application a code, also those of the framework. `status` is for errors of its own."""

    async def work_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, rm.errors.WorkError)
        usual = 503 if error.retryable else 422
        problem = {"code": error.code, "message": str(error)}
        return problem_response(request.scope, status.get(type(error), usual), problem)

    app.add_exception_handler(rm.errors.WorkError, work_error)
    app.add_exception_handler(rm.errors.DatabaseUnreachable, _unreachable)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(UnknownPage, _unknown_page)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _broken)


def problem_response(
    scope: Scope, code: int, problem: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> Response:
    """Return a problem as a page if a browser asks and the application has a site, otherwise as JSON. Who has to log in
    first is sent to the page for that, if there is one."""
    site: Site | None = getattr(scope["app"].state, "site", None) if "app" in scope else None
    if not wants_page(Headers(scope=scope)):
        site = None
    answer: Response
    if site is not None and site.login is not None and code == 401:
        answer = to_login(Request(scope), site.login)
    elif site is not None:
        message = str(problem["message"])
        if code in PLAIN and message == HTTPStatus(code).phrase:
            message = PLAIN[code]
        values = {"title": TITLES.get(code, "That did not work"), "message": message[:1].upper() + message[1:]}
        answer = site.page("rowmill/problem.html", Request(scope), code=code, **values)
    else:
        answer = JSONResponse(dict(problem), code)
    # Also here: the answer to a failure of the application does not pass the guard.
    for name, value in {**HEADERS, **(headers or {})}.items():
        answer.headers.setdefault(name, value)
    return answer


def wants_page(headers: Headers) -> bool:
    """Whether the client names text/html, as browsers do, and not JSON before it."""
    kinds = [kind.split(";")[0].strip() for kind in headers.get("accept", "").lower().split(",")]
    first = next((kind for kind in kinds if kind in ("text/html", "application/json")), None)
    return first == "text/html"


def reason(error: HTTPException) -> str:
    """Return what an error says, for a page that shows it beside the form that was sent."""
    detail: Any = error.detail
    return str(detail["message"]) if isinstance(detail, dict) else str(detail)


async def _unknown_page(request: Request, error: Exception) -> Response:
    return problem_response(request.scope, 404, {"code": "no_such_page", "message": str(error)})


async def _unreachable(request: Request, error: Exception) -> Response:
    return problem_response(request.scope, 503, UNREACHABLE)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    given: Any = error.detail
    detail = given if isinstance(given, dict) else {"code": "refused", "message": str(given)}
    return problem_response(request.scope, error.status_code, detail, error.headers)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    where = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return problem_response(request.scope, 422, {"code": "invalid", "message": where})


async def _broken(request: Request, error: Exception) -> Response:
    return problem_response(request.scope, 500, {"code": "internal", "message": BROKEN})
