"""Let nobody in without a login.

app.add_middleware(RequireLogin, find=find, cookie=cookie, open_paths=["/login", "/health", "/static"])
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

import rowmill as rm
from rowmill.web.guard import CHANGING, bounded
from rowmill.web.login.cookies import SessionCookie, names_own_origin
from rowmill.web.login.tokens import bearer_token
from rowmill.web.problems import UNREACHABLE, problem_response
from rowmill.web.site import root_of

CALLER = "rowmill.caller"
"""Where the scope of a request has who asks."""
OPEN_BYTES = 64 * 1024
"""What anybody may send."""
NO_LOGIN = {"code": "no_login", "message": "log in first"}
NO_ORIGIN = {"code": "foreign_origin", "message": "a browser did not say that a page of this site asks"}
FindCaller = Callable[[Request, str, bool], Awaitable[Any]]
"""Returns who has a token, or None. The last argument says whether the token came in a cookie."""


class RequireLogin:
    """Refuses requests without a login before anything of them is read: also for paths that do not exist, and for those
    that somebody adds and forgets about. What is under `open_paths` is for anybody.

    A token comes as a bearer token, or in the cookie of a session. With a cookie, a change has to say that a page of
    this application asks for it. Add it before the guard, which then is around it.
    """

    def __init__(self, app: ASGIApp, *, find: FindCaller, cookie: SessionCookie, open_paths: Sequence[str]) -> None:
        self.app, self.open_paths = app, tuple(open_paths)
        self._find, self._cookie = find, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        if self._is_open(request):
            why = f"at most {OPEN_BYTES:,} bytes are taken here"
            await self.app(scope, bounded(request.headers, receive, OPEN_BYTES, why), send)
            return
        bearer = bearer_token(request.headers)
        token = bearer or self._cookie.read(request)
        try:
            caller = None if token is None else await self._find(request, token, bearer is None)
        except rm.errors.DatabaseUnreachable:
            await problem_response(scope, 503, UNREACHABLE)(scope, receive, send)
            return
        if caller is None:
            answer = problem_response(scope, 401, NO_LOGIN, {"www-authenticate": "Bearer"})
            await answer(scope, receive, send)
        elif bearer is None and request.method in CHANGING and not names_own_origin(request.headers):
            await problem_response(scope, 403, NO_ORIGIN)(scope, receive, send)
        else:
            scope[CALLER] = caller
            await self.app(scope, receive, send)

    def _is_open(self, request: Request) -> bool:
        path = request.scope["path"].removeprefix(root_of(request))
        return any(path == each or path.startswith(f"{each}/") for each in self.open_paths)


def caller_of(request: Request) -> Any:
    """Return who asks, as `find` returned it."""
    return request.scope[CALLER]
