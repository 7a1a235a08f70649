"""The pages of an application: one layout, one set of components, and the templates of a package on top of them.

site = Site("Articles", __package__, pages=[NavLink("Articles", "/")])
site.install(app)
return site.page("articles.html", request, articles=rows)
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from rowmill.web import api_docs, shown
from rowmill.web.headers import HEADERS
from rowmill.web.login.roles import RankedRole
from rowmill.web.prefix import ForwardedPrefix

COMMON = Path(str(files(__package__)))
SIBLINGS = "rowmill.siblings"
"""Where the scope of a request names the applications that are mounted side by side."""
SIGNED_IN = "rowmill.signed_in"
"""Where the scope of a request names who is logged in."""
FOREVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Who is logged in. Pages show the name, with a link to `page` if there is one, and a button that posts to
    `logout`."""

    name: str
    role: RankedRole
    page: str | None = None
    logout: str = "/logout"

    def shown_on(self, request: Request) -> None:
        """Have the pages that answer this request show it."""
        request.scope[SIGNED_IN] = self


@dataclass(frozen=True, slots=True)
class NavLink:
    """A page in the navigation. `path` is relative to the application; `within` names paths that belong to it too.

    With `needs`, only who is logged in with that role, or a higher one, sees the link.
    """

    label: str
    path: str
    within: Sequence[str] = ()
    needs: RankedRole | None = None

    def is_for(self, signed_in: SignedIn | None) -> bool:
        return self.needs is None or (signed_in is not None and signed_in.role.may(self.needs))

    def is_current(self, path: str) -> bool:
        if path == self.path:
            return True
        places = [self.path, *self.within]
        return any(path.startswith(f"{place.rstrip('/')}/") for place in places if place != "/")


class Site:
    """Renders the templates of a package, and of this one under `rowmill/`. They escape whatever they are given.

    The package has a folder `templates`, and may have a folder `static`, which is served at /static. `filters` are
    added to those of Jinja2 and of `rowmill.web.shown`. With `login`, the path of a page, a browser that asks for
    something without a login (401) is sent there, and the navigation is for those who are logged in.
    """

    def __init__(
        self,
        title: str,
        package: str,
        *,
        pages: Sequence[NavLink] = (),
        login: str | None = None,
        **filters: Callable[..., Any],
    ) -> None:
        self.title, self.pages, self.login = title, tuple(pages), login
        home = Path(str(files(package)))
        self._static = home / "static"
        own, common = FileSystemLoader(home / "templates"), FileSystemLoader(COMMON / "templates")
        self._templates = Environment(
            loader=ChoiceLoader([own, PrefixLoader({"rowmill": common})]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= shown.FILTERS | filters
        self._templates.globals |= {"site": self, "url": _url, "here": _here, "static": self._static_url}

    def install(self, app: FastAPI, *, docs: bool = True) -> None:
        """Serve what pages load, and the description of the API at /docs. Follow X-Forwarded-Prefix.

        Call it after other middleware was added: their refusals have links, too.
        """
        app.state.site = self
        app.mount("/static/rowmill", CachedFiles(directory=COMMON / "static"), name="rowmill-static")
        if self._static.is_dir():
            app.mount("/static", CachedFiles(directory=self._static), name="static")
        app.add_middleware(ForwardedPrefix)
        if docs:
            app.add_api_route("/docs", self._show_docs, include_in_schema=False)

    async def _show_docs(self, request: Request) -> HTMLResponse:
        return self.page("rowmill/docs.html", request, api=api_docs.describe(request.app.openapi()))

    def page(self, template: str, request: Request, *, code: int = 200, **values: Any) -> HTMLResponse:
        """Render a template. `problem`, if given, is shown above the page as the reason why something was not done."""
        signed_in: SignedIn | None = request.scope.get(SIGNED_IN)
        nobody = self.login is not None and signed_in is None
        links = [] if nobody else [link for link in self.pages if link.is_for(signed_in)]
        usual = {"problem": None, "siblings": request.scope.get(SIBLINGS, ()), "signed_in": signed_in, "links": links}
        values = usual | values
        text = self._templates.get_template(template).render(request=request, **values)
        return HTMLResponse(text, code, {**HEADERS, "cache-control": "private, no-cache"})

    def current(self, path: str) -> NavLink | None:
        """The page of the navigation that a path belongs to; the most specific one."""
        found = [link for link in self.pages if link.is_current(path)]
        return max(found, key=lambda link: len(link.path), default=None)

    @property
    def icon(self) -> str:
        return "icon.svg" if (self._static / "icon.svg").exists() else "rowmill/icon.svg"

    @pass_context
    def _static_url(self, context: Context, name: str) -> str:
        """The address of a static file, with its version: browsers keep it until it changes."""
        path = COMMON / "static" / name.removeprefix("rowmill/") if name.startswith("rowmill/") else self._static / name
        return f"{root_of(context['request'])}/static/{name}?v={_version(path)}"


class CachedFiles(StaticFiles):
    """Static files. Those asked for with their version may be kept forever."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        scope: Scope = arguments[2] if len(arguments) > 2 else options["scope"]
        response = super().file_response(*arguments, **options)
        response.headers["cache-control"] = FOREVER if b"v=" in scope["query_string"] else "no-cache"
        return response


def see_other(request: Request, path: str) -> RedirectResponse:
    """Send a browser to a page of the application after a form. A reload of that page sends nothing again."""
    return RedirectResponse(f"{root_of(request)}{path}", 303)


def local_path(text: str, otherwise: str = "/") -> str:
    """Return the text if it is the path of a page of this server, so that a link can't lead elsewhere."""
    is_local = text.startswith("/") and not text.startswith("//") and text.isprintable() and "\\" not in text
    return text if is_local else otherwise


def to_login(request: Request, path: str) -> Response:
    """Send a browser to the page for logging in, which then leads back to the page that was asked for."""
    if "hx-request" in request.headers:  # a part of a page: the whole page has to go
        return Response(None, 401, {"hx-redirect": f"{root_of(request)}{path}"})
    here = request.scope["path"].removeprefix(root_of(request))
    asked = {"next": f"{here}?{request.url.query}".rstrip("?")} if request.method == "GET" and here != "/" else {}
    return see_other(request, f"{path}{_query(asked)}")


def root_of(request: Request) -> str:
    """Where the application is mounted, as the browser sees it: "" or "/tools"."""
    return str(request.scope.get("root_path", "")).rstrip("/")


@cache
def _version(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _query(values: Mapping[str, Any]) -> str:
    given = {name: value for name, value in values.items() if value is not None and value != ""}
    return f"?{urlencode(given)}" if given else ""


@pass_context
def _url(context: Context, path: str, **query: Any) -> str:
    """The address of a page of the application, wherever it is mounted."""
    return f"{root_of(context['request'])}{path}{_query(query)}"


@pass_context
def _here(context: Context, **changes: Any) -> str:
    """The address of this page, with some parameters changed. None and "" take one away."""
    request: Request = context["request"]
    path: str = request.url.path
    return f"{path}{_query({**request.query_params, **changes})}"
