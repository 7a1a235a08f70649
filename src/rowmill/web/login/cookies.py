"""The cookie of a session.

A browser sends it by itself, so pages of other sites could try to make use of it. Three things keep them from it:
SameSite=Lax, the guard, which refuses changes that another origin asks for, and `names_own_origin` for changes with a
cookie that do not say who asks. A token inside of each form would add nothing to that.
"""

from dataclasses import dataclass

from fastapi import Request
from starlette.datastructures import Headers
from starlette.responses import Response

from rowmill.web.guard import is_foreign
from rowmill.web.site import root_of


@dataclass(frozen=True, slots=True)
class SessionCookie:
    """Reads and writes the cookie of an application. Give each application a name of its own: all ports of a host share
    their cookies.

    Scripts can't read it. It is limited to the path that the application is mounted at. `secure` limits it to HTTPS,
    and lets browsers refuse one that another host of the same domain sets: its name then begins with `__Host-`, or with
    `__Secure-` under a path.
    """

    name: str
    secure: bool = False

    def read(self, request: Request) -> str | None:
        return request.cookies.get(self._name(request)) or None

    def write(self, request: Request, response: Response, token: str, seconds: float) -> None:
        """Have the browser send the token for this number of seconds."""
        response.set_cookie(
            self._name(request),
            token,
            max_age=int(seconds),
            path=self._path(request),
            secure=self.secure,
            httponly=True,
            samesite="lax",
        )

    def clear(self, request: Request, response: Response) -> None:
        """Have the browser forget it."""
        response.delete_cookie(
            self._name(request), path=self._path(request), secure=self.secure, httponly=True, samesite="lax"
        )

    def _path(self, request: Request) -> str:
        return root_of(request) or "/"

    def _name(self, request: Request) -> str:
        if not self.secure:
            return self.name
        return f"{'__Host-' if self._path(request) == '/' else '__Secure-'}{self.name}"


def names_own_origin(headers: Headers) -> bool:
    """Does a browser say that a page of this application asks? Ask it before a change with a cookie.

    Every browser says who asks for a change. A request with a cookie that does not is made by none, or its headers were
    taken away on the way.
    """
    return not is_foreign(headers) and ("sec-fetch-site" in headers or "origin" in headers)
