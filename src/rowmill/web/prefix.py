"""Follow a proxy that serves the application under a prefix and says so."""

import re

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+")
"""No empty segment: `//example.org` would be the address of another host."""

FOLLOWED = "rowmill.prefix"


class ForwardedPrefix:
    """Puts X-Forwarded-Prefix before the path, so that links and redirects lead through the proxy.

    The header shapes only the links of the answer to the request that carries it, and a page of another site can't make
    a browser send it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            prefix = Headers(scope=scope).get("x-forwarded-prefix", "").rstrip("/")
            # Once only: an application may be mounted in another one that follows the prefix too.
            if PREFIX.fullmatch(prefix) and not scope.get(FOLLOWED):
                # In place, so that the page for a failure, which is made outside of here, has the right links.
                scope["root_path"] = prefix + scope.get("root_path", "")
                scope["path"], scope[FOLLOWED] = prefix + scope["path"], True
        await self.app(scope, receive, send)
