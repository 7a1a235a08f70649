"""Create the FastAPI application of knowledge."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response, Security
from fastapi.security import HTTPBearer

import rowmill as rm
from rowmill.web.guard import LOOPBACK, Guard, KnownHosts
from rowmill.web.login.required import RequireLogin
from rowmill.web.problems import EVERYWHERE, answer_with_problems, problem_response, problems
from rowmill_systems.knowledge.accounts import errors as accounts
from rowmill_systems.knowledge.errors import DocumentMissing, KbMissing, UploadExpired
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.web import (
    administration,
    consistency,
    documents,
    forms,
    forms_admin,
    health,
    kbs,
    login_pages,
    logins,
    pages,
    pages_admin,
    pages_search,
    searching,
)
from rowmill_systems.knowledge.web.asking import find_who_asks, session_cookie
from rowmill_systems.knowledge.web.shown import site
from rowmill_systems.parts.objects.errors import MissingObject, ObjectTooLarge

OPEN_PATHS = ("/login", "/api/v1/login", "/health", "/static")
"""What anybody may ask for. All else needs a login."""
STATUS: dict[type[rm.errors.WorkError], int] = {
    KbMissing: 404,
    DocumentMissing: 404,
    MissingObject: 404,
    ObjectTooLarge: 413,
    UploadExpired: 409,
    accounts.WrongLogin: 401,
    accounts.EmailTaken: 409,
    accounts.LastAdministrator: 409,
    accounts.TooManyTokens: 409,
    accounts.AccountMissing: 404,
    accounts.TokenMissing: 404,
}
DESCRIBED = {
    **EVERYWHERE,
    "s401": "no login, or it has ended",
    "s403": "a page of another site asks, or your role is not enough",
}


def create_app(knowledge: Knowledge, *, hosts: Sequence[str] = LOOPBACK) -> FastAPI:
    """Create the API and the pages. Requests for other host names are refused, against DNS rebinding."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with knowledge.opened():
            yield

    app = FastAPI(
        title="Knowledge",
        description="Documents are read, split and embedded in the background, and searched by meaning and by words.",
        version=rm.__version__,
        lifespan=lifespan,
        responses=problems(**DESCRIBED),
        # Only to describe it: the middleware decides, before anything of a request is read.
        dependencies=[Security(HTTPBearer(auto_error=False, description="Of /api/v1/login or /api/v1/me/tokens."))],
        docs_url=None,
        redoc_url=None,
    )
    app.state.knowledge = knowledge
    app.state.comparing = asyncio.Lock()
    apis = (health, logins, kbs, documents, searching, consistency, administration)
    for_people = (login_pages, pages, forms, pages_search, pages_admin, forms_admin)
    for module in (*apis, *for_people):
        app.include_router(module.router)
    app.add_middleware(RequireLogin, find=find_who_asks, cookie=session_cookie(knowledge), open_paths=OPEN_PATHS)
    app.add_middleware(Guard, most=knowledge.settings.max_file_bytes)
    app.add_middleware(KnownHosts, names=hosts)
    site.install(app)
    answer_with_problems(app, STATUS)
    app.add_exception_handler(accounts.LoginsBlocked, logins.answer_blocked)
    app.add_exception_handler(rm.errors.ReconciliationBusy, consistency.answer_busy)
    app.add_exception_handler(rm.errors.BadRequest, answer_bad_request)
    return app


async def answer_bad_request(request: Request, error: Exception) -> Response:
    return problem_response(request.scope, 422, {"code": "invalid", "message": str(error)})
