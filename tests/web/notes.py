"""A small application with every component on its pages, behind a real server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import sqlalchemy as sa
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel

from rowmill.web.guard import LOOPBACK, Guard, KnownHosts
from rowmill.web.keyset import Keyset, contains
from rowmill.web.problems import answer_with_problems
from rowmill.web.site import NavLink, Site
from tests.support.web import client_of

notes = sa.Table(
    "notes", sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True), sa.Column("title", sa.Text), sa.Column("size", sa.Integer),
    sa.Column("added", sa.DateTime(timezone=True)), sa.Column("state", sa.Text),
)  # fmt: skip
KEYSET = Keyset({"title": notes.c.title, "size": notes.c.size, "added": notes.c.added}, notes.c.id, default="-added")
BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


class Note(BaseModel):
    title: str


def database(titles: list[str]) -> sa.Engine:
    # One connection for all threads: the database is in memory.
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool, connect_args={"check_same_thread": False})
    notes.metadata.create_all(engine)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    with engine.begin() as connection:
        for number, title in enumerate(titles):
            row = {"title": title, "size": number % 3, "added": start + timedelta(hours=number), "state": "open"}
            connection.execute(notes.insert().values(row))
    return engine


def create_app(titles: list[str] | None = None) -> FastAPI:
    engine = database(["one", "two", "three", "four", "five"] if titles is None else titles)
    site = Site("Notes", "tests.web.package", pages=[NavLink("All", "/notes"), NavLink("API", "/docs")])
    app = FastAPI(title="Notes", description="Short texts.", docs_url=None, redoc_url=None)

    @app.get("/", include_in_schema=False)
    @app.get("/notes", include_in_schema=False)
    async def show(request: Request, q: str = "", state: str = "", sort: str = "", after: str = "") -> HTMLResponse:
        wanted = sa.select(notes).where(contains(notes.c.title, q))
        with engine.connect() as connection:
            part = KEYSET.read(connection, wanted, sort=sort, after=after, limit=2)
            return site.page("notes.html", request, part=part, q=q, state=state, sort=sort, after=after)

    @app.get("/notes/{number}", include_in_schema=False)
    async def one(request: Request, number: int) -> HTMLResponse:
        with engine.connect() as connection:
            found = connection.execute(sa.select(notes).where(notes.c.id == number)).mappings().first()
        if found is None:
            raise HTTPException(404, {"code": "no_such_note", "message": "there is no such note"})
        return site.page("note.html", request, note=found)

    @app.get("/api/notes", tags=["notes"])
    async def listed() -> list[Note]:
        """All notes."""
        with engine.connect() as connection:
            return [Note(title=row.title) for row in connection.execute(sa.select(notes))]

    @app.post("/notes", tags=["notes"])
    async def add(note: Note) -> Note:
        """Add a note."""
        return note

    @app.get("/broken", include_in_schema=False)
    async def broken() -> Any:
        raise RuntimeError("secret of the application")

    app.add_middleware(Guard, most=1000)
    app.add_middleware(KnownHosts, names=LOOPBACK)
    site.install(app)
    answer_with_problems(app, {})
    return app


@asynccontextmanager
async def browser_on(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that asks for pages, as a browser does."""
    async with client_of(app) as client:
        client.headers.update(BROWSER)
        yield client
