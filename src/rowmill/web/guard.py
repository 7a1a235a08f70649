"""Check every request before the application sees it: how much is sent, to which host name, and from where."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rowmill.web.headers import HEADERS
from rowmill.web.problems import problem_response

ENVELOPE = 64 * 1024
"""What the form around a file may take."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "testserver")
"""Names of this machine, for itself."""
CHANGING = ("POST", "PUT", "PATCH", "DELETE")
TO_ANYBODY = {"access-control-allow-origin": "*"}
"""Without credentials: a browser sends none to who answers so, and a page gets to see what everybody does."""
PREFLIGHT = {
    **TO_ANYBODY,
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "content-type",
    "access-control-max-age": "86400",
}


class KnownHosts:
    """Refuses requests for other names than these, with a problem as every endpoint answers it. `*.example.org` stands
    for every name under it, `*` for all."""

    def __init__(self, app: ASGIApp, names: Sequence[str]) -> None:
        self.app, self.names = app, tuple(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and not self._knows(Headers(scope=scope).get("host", "")):
            problem = {"code": "unknown_host", "message": "the server is not known by that host name: see --name"}
            await problem_response(scope, 400, problem)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _knows(self, host: str) -> bool:
        address, closed, _ = host.lower().partition("]")
        name = f"{address}]" if closed else address.split(":")[0]
        return any(
            one in ("*", name) or (one.startswith("*.") and name.endswith(one.removeprefix("*"))) for one in self.names
        )


class Guard:
    """Refuses bodies over a size while they come in, and changes that a page of another site asks for. Sets the
    headers that keep a browser from running what somebody uploaded.

    `open_paths`: what is under them changes nothing, also by POST, and may be asked by pages of any site."""

    def __init__(self, app: ASGIApp, most: int, open_paths: Sequence[str] = ()) -> None:
        self.app, self.most, self.open_paths = app, most, tuple(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, is_open = Headers(scope=scope), self._is_open(scope)
        if is_open and scope["method"] == "OPTIONS":
            await Response(None, 204, PREFLIGHT)(scope, receive, send)
            return
        asks = is_open and scope["method"] == "POST"
        if scope["method"] in CHANGING and not asks and is_foreign(headers):
            problem = {"code": "foreign_origin", "message": "this was asked by another site"}
            await problem_response(scope, 403, problem)(scope, receive, send)
            return
        taken = bounded(headers, receive, self.most + ENVELOPE, f"a file may have {self.most:,} bytes")
        await self.app(scope, taken, self._marked(send, is_open))

    def _is_open(self, scope: Scope) -> bool:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        return any(path == each or path.startswith(f"{each}/") for each in self.open_paths)

    def _marked(self, send: Send, is_open: bool) -> Send:
        wanted = HEADERS | TO_ANYBODY if is_open else HEADERS

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                more = [(n.encode(), v.encode()) for n, v in wanted.items() if n.encode() not in there]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        return marked


def bounded(headers: Headers, receive: Receive, most: int, why: str) -> Receive:
    """What comes in, until it is more than so many bytes."""
    length, seen = headers.get("content-length", ""), 0
    # The server goes on reading, and throws away: who is hung up on in the middle never hears the reason.
    refused = HTTPException(413, {"code": "too_large", "message": why})

    async def taken() -> Message:
        nonlocal seen
        if length.isdecimal() and int(length) > most:
            raise refused
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise refused
        return message

    return taken


def is_foreign(headers: Headers) -> bool:
    """Does a browser say that the page of another site asks? Programs say nothing of the kind."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host")
