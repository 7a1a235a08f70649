"""What stands before every request: how much may be sent, and from where."""

from urllib.parse import urlsplit

from fastapi import HTTPException
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}
ENVELOPE = 64 * 1024
"""What the form around a file may take."""
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "testserver")
"""Names of this machine, for itself."""
CHANGING = ("POST", "PUT", "PATCH", "DELETE")


class Guard:
    """Refuses bodies over a size while they come in, and changes that a page of another site asks for. Sets the
    headers that keep a browser from running what somebody uploaded."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self.most = app, most + ENVELOPE

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if scope["method"] in CHANGING and is_foreign(headers):
            refused = JSONResponse({"code": "foreign_origin", "message": "this was asked by another site"}, 403)
            await refused(scope, receive, send)
            return
        await self.app(scope, self._bounded(headers, receive), self._marked(send))

    def _bounded(self, headers: Headers, receive: Receive) -> Receive:
        length, seen = headers.get("content-length", ""), 0
        why = {"code": "too_large", "message": f"a file may have {self.most - ENVELOPE:,} bytes"}
        # The server goes on reading, and throws away: who is hung up on in the middle never hears the reason.
        refused = HTTPException(413, why)

        async def bounded() -> Message:
            nonlocal seen
            if length.isdecimal() and int(length) > self.most:
                raise refused
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.most:
                raise refused
            return message

        return bounded

    def _marked(self, send: Send) -> Send:
        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                more = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in there]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        return marked


def is_foreign(headers: Headers) -> bool:
    """Does a browser say that the page of another site asks? Programs say nothing of the kind."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host")
