"""Dependencies of the endpoints: the system, the reader, and what a path names."""

import uuid
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import Depends, HTTPException, Query, Request

from rowmill_systems.articles import reads
from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.readers import ME
from rowmill_systems.parts.clock import database_time
from rowmill_systems.parts.values import UNSTORABLE


def the_articles(request: Request) -> Articles:
    found: Articles = request.app.state.articles
    return found


GivenArticles = Annotated[Articles, Depends(the_articles)]
ArticleId = uuid.UUID
SourceId = uuid.UUID


def the_reader(
    reader: Annotated[str, Query(min_length=1, max_length=100, description="Whose feed and marks.")] = ME,
) -> str:
    if UNSTORABLE.search(reader):
        raise HTTPException(422, {"code": "invalid", "message": "a reader's name has no NUL"})
    return reader


GivenReader = Annotated[str, Depends(the_reader)]


def no_such_article() -> HTTPException:
    return HTTPException(404, {"code": "no_such_article", "message": "there is no such article"})


def no_such_source() -> HTTPException:
    return HTTPException(404, {"code": "no_such_source", "message": "there is no such source"})


async def the_article(articles: Articles, id: uuid.UUID, reader: str) -> sa.RowMapping:
    found = await articles.mill.run(lambda connection: reads.one_article(connection, id, reader), write=False)
    if found is None:
        raise no_such_article()
    return found


async def the_source(articles: Articles, id: uuid.UUID) -> dict[str, Any]:
    """Return a source, and the time of the database as `now`."""

    def read(connection: sa.Connection) -> dict[str, Any] | None:
        now = database_time(connection)
        row = reads.one_source(connection, id, now)
        return None if row is None else {**row, "now": now}

    found = await articles.mill.run(read, write=False)
    if found is None:
        raise no_such_source()
    return found
