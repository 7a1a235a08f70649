"""Pages for people, rendered here. What all systems have in common lies beside this file: how a page is built, how it
looks, and the script that sends and refreshes."""

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.staticfiles import StaticFiles


def folder_of(package: str, name: str) -> str:
    return str(files(package) / name)


class Pages:
    """The templates of a package, before those that are common. They escape whatever they are given."""

    def __init__(self, package: str, **filters: Callable[..., Any]) -> None:
        folders = [folder_of(package, "templates"), folder_of(__package__, "templates")]
        self._templates = Environment(loader=FileSystemLoader(folders), autoescape=True, undefined=StrictUndefined)
        self._templates.filters |= filters

    def show(self, name: str, request: Request, *, code: int = 200, **values: Any) -> HTMLResponse:
        return HTMLResponse(self._templates.get_template(name).render(request=request, **values), code)


def serve_static(app: FastAPI, package: str) -> None:
    """What the pages of a package load: its own under /static, and what is common."""
    app.mount("/static/common", StaticFiles(directory=folder_of(__package__, "static")), name="common")
    app.mount("/static", StaticFiles(directory=folder_of(package, "static")), name="static")
