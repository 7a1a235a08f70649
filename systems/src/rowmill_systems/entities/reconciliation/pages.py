"""Pages of a thing: a whole page, a preview for a frame, and a flyout."""

import base64
import hashlib
from importlib.resources import files as resources
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rowmill_systems.entities.kb.thing import Thing
from rowmill_systems.entities.properties.catalogue import catalogue
from rowmill_systems.entities.reconciliation.extending import shown
from rowmill_systems.entities.reconciliation.vocabulary import types_of

FOLDER = resources(__package__) / "templates"
STYLE = (FOLDER / "thing.css").read_text("utf-8")
HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors "
"""No script, no picture, nothing of others: all that may differ is who may show it in a frame."""

templates = Environment(loader=FileSystemLoader(str(FOLDER)), autoescape=True, undefined=StrictUndefined)


def link(value: Any) -> str | None:
    """Return the value if it is an http(s) address, which may be a link on a page; None otherwise."""
    return value if isinstance(value, str) and value.startswith(("https://", "http://")) else None


templates.filters |= {"shown": shown, "link": link}


def preview(thing: Thing | None) -> HTMLResponse:
    """Return the preview. Any site may show it in a frame: OpenRefine runs on an address of its own."""
    return _page("preview.html", thing, frames="*")


def view(thing: Thing | None) -> HTMLResponse:
    known = thing.properties if thing else {}
    facts = [(property, known[key]) for key, property in catalogue().items() if key in known]
    return _page("view.html", thing, frames="'none'", facts=facts)


def flyout(name: str, description: str) -> str:
    """Return a piece of HTML that the client inserts into its page."""
    return templates.get_template("flyout.html").render(name=name, description=description)


def _page(template: str, thing: Thing | None, frames: str, **more: Any) -> HTMLResponse:
    name = template if thing else "missing.html"
    types = [each["name"] for each in types_of(thing.types)] if thing else []
    text = templates.get_template(name).render(style=STYLE, thing=thing, types=types, **more)
    return HTMLResponse(text, 200 if thing else 404, {"content-security-policy": POLICY + frames})
