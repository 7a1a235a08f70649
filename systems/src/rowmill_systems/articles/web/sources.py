"""The API: sources, and lists of them in OPML."""

import uuid
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, HTTPException, Query, Request, Response

import rowmill as rm
from rowmill.web.problems import problems
from rowmill_systems.articles import reads
from rowmill_systems.articles.adding import add_address, add_opml, add_source, export_opml
from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.managing import (
    SourceChange,
    change_source,
    checked_topics,
    delete_source,
    fetch_now,
    pause_source,
)
from rowmill_systems.articles.web import schemas
from rowmill_systems.articles.web.asking import GivenArticles, the_source
from rowmill_systems.parts.clock import database_time

router = APIRouter(tags=["sources"])
NOT_THERE = problems(s404="no such source")
OPML = {"requestBody": {"required": True, "content": {"text/x-opml": {"schema": {"type": "string"}}}}}


@router.get("/sources")
async def list_sources(
    articles: GivenArticles,
    failing: Annotated[bool, Query(description="Only those whose last fetch failed.")] = False,
    after: Annotated[str, Query(max_length=6000)] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> schemas.SourceList:
    """List sources in the order of their addresses, with their health."""

    def read(connection: sa.Connection) -> schemas.SourceList:
        now = database_time(connection)
        page = reads.source_page(connection, failing=failing, after=after, limit=limit, now=now)
        return schemas.SourceList(sources=[schemas.SourceOut.of(row, now) for row in page.rows], next=page.next)

    return await articles.mill.run(read, write=False)


@router.post("/sources", status_code=201, responses=problems(s422="no address, or no feed there"))
async def add(articles: GivenArticles, given: schemas.SourceIn, response: Response) -> list[schemas.AddedOut]:
    """Add a feed, by its address or by that of a page that names it. It is fetched soon. One that is there stays."""
    with refused():
        topics = checked_topics(given.topics)
        if given.discover:
            found = await add_address(articles, given.url, title=given.title, topics=topics or None)
        else:
            found = [
                await articles.mill.run(
                    lambda connection: add_source(connection, given.url, title=given.title, topics=topics or None)
                )
            ]
    if not any(each.created for each in found):
        response.status_code = 200
    return [schemas.AddedOut.model_validate(each) for each in found]


class refused:
    """Turn what a request asks wrongly into 422, with its code."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, rm.errors.WorkError):
            raise HTTPException(422, {"code": error.code, "message": str(error)}) from None
        if isinstance(error, rm.errors.BadRequest):
            raise HTTPException(422, {"code": "invalid", "message": str(error)}) from None


@router.get("/sources/{source_id}", responses=NOT_THERE)
async def one(articles: GivenArticles, source_id: uuid.UUID) -> schemas.SourceOut:
    """Return a source with its health."""
    row = await the_source(articles, source_id)
    return schemas.SourceOut.of(row, row["now"])


@router.patch("/sources/{source_id}", responses=problems(s404="no such source", s409="it is being fetched"))
async def change(articles: GivenArticles, source_id: uuid.UUID, given: schemas.SourceChangeIn) -> schemas.SourceOut:
    """Change topics, title or interval of a source; pause or resume it."""
    wanted = SourceChange(given.title, given.topics, given.interval_seconds)
    await apply(articles, source_id, wanted, given.paused)
    return await one(articles, source_id)


async def apply(articles: Articles, id: uuid.UUID, wanted: SourceChange, paused: bool | None) -> None:
    """Change a source. Nothing is changed if it can't be paused."""

    def work(connection: sa.Connection) -> None:
        change_source(connection, id, wanted)
        if paused:
            pause_source(connection, id)

    try:
        await articles.mill.run(work)
    except rm.errors.BadRequest as error:
        raise HTTPException(422, {"code": "invalid", "message": str(error)}) from None
    if paused is False and (await the_source(articles, id))["status"] == "paused":
        await fetch_now(articles, id)


@router.post("/sources/{source_id}/sync", status_code=202, responses=NOT_THERE)
async def sync(articles: GivenArticles, source_id: uuid.UUID) -> schemas.SourceOut:
    """Fetch a source as soon as a worker is free, whatever its state."""
    await fetch_now(articles, source_id)
    return await one(articles, source_id)


@router.delete(
    "/sources/{source_id}", status_code=204, responses=problems(s404="no such source", s409="it is being fetched")
)
async def delete(articles: GivenArticles, source_id: uuid.UUID) -> Response:
    """Delete a source with its articles."""
    await delete_source(articles, source_id)
    return Response(status_code=204)


@router.get("/opml", response_class=Response, responses={200: {"content": {"text/x-opml": {}}}})
async def export(articles: GivenArticles) -> Response:
    """Download all sources but the retired ones as a list in OPML."""
    found = await articles.mill.run(lambda c: export_opml(c, database_time(c)), write=False)
    name = {"content-disposition": 'attachment; filename="feeds.opml"'}
    return Response(found, media_type="text/x-opml; charset=utf-8", headers=name)


@router.post("/opml", openapi_extra=OPML, responses=problems(s422="no OPML"))
async def import_list(articles: GivenArticles, request: Request) -> schemas.AddedListOut:
    """Add the feeds of a list in OPML. Those that are there stay as they are."""
    content = await request.body()
    with refused():
        found = await add_opml(articles, content)
    there = len(found.added) - found.created
    return schemas.AddedListOut(created=found.created, there_already=there, refused=found.refused)
