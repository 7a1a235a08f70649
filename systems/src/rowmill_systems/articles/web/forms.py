"""The forms of the pages. If something can't be done, the page shows why."""

import uuid
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, HTTPException, Request, UploadFile
from fastapi.responses import Response

import rowmill as rm
from rowmill.web.problems import reason
from rowmill.web.site import local_path, see_other
from rowmill_systems.articles import reads
from rowmill_systems.articles.adding import add_address, add_opml
from rowmill_systems.articles.feeds.opml import MOST_BYTES
from rowmill_systems.articles.managing import (
    SourceBusy,
    SourceChange,
    UnknownSource,
    checked_topics,
    delete_source,
    fetch_now,
)
from rowmill_systems.articles.readers import follow_topic, mark_read, mark_unread, prefer_source, unfollow_topic
from rowmill_systems.articles.web import sources as api
from rowmill_systems.articles.web.asking import GivenArticles, no_such_article, no_such_source
from rowmill_systems.articles.web.pages import (
    show_interests,
    show_item,
    show_queue,
    show_source,
    show_sources,
)
from rowmill_systems.articles.web.schemas import LONGEST_ADDRESS
from rowmill_systems.parts.values import storable

router = APIRouter(include_in_schema=False)
Written = Annotated[str, Form(max_length=4000)]


def back_to(request: Request, path: str, otherwise: str = "/") -> Response:
    """Send the browser back to the page of this application that it came from."""
    return see_other(request, local_path(path, otherwise))


@router.post("/read/{article_id}/mark")
async def mark(
    articles: GivenArticles, request: Request, article_id: uuid.UUID, read: Annotated[bool, Form()], back: Written = "/"
) -> Response:
    """Mark an article as read or unread. A list with a script gets the changed article alone, so that it stays as it
    is."""

    if read:
        there = await articles.mill.run(lambda connection: mark_read(connection, [article_id]))
        if not there:
            raise no_such_article()
    else:
        await articles.mill.run(lambda connection: mark_unread(connection, [article_id]))
    if "hx-request" in request.headers and not back.startswith("/read/"):
        return await show_item(articles, request, article_id)
    return back_to(request, back)


@router.post("/read/{article_id}/delete")
async def delete(articles: GivenArticles, request: Request, article_id: uuid.UUID) -> Response:
    if not await articles.mill.run(lambda connection: reads.delete_article(connection, article_id)):
        raise no_such_article()
    return see_other(request, "/")


@router.post("/interests")
async def follow(
    articles: GivenArticles, request: Request, topic: Written, choice: Written, back: Written = "/interests"
) -> Response:
    """Follow a topic, want less of it, or neither."""
    weights = {"follow": 1.0, "more": 2.0, "less": -1.0}
    name = storable(topic)
    try:
        if choice in weights:
            await articles.mill.run(lambda connection: follow_topic(connection, name, weights[choice]))
        else:
            await articles.mill.run(lambda connection: unfollow_topic(connection, name))
    except rm.errors.BadRequest as error:
        return await show_interests(articles, request, code=422, problem=f"Not done: {error}.")
    return back_to(request, back, "/interests")


@router.post("/subscriptions")
async def add(articles: GivenArticles, request: Request, address: Written = "", topics: Written = "") -> Response:
    """Add the feed at an address, or the one that the page there names."""
    given = storable(address).strip()
    if not given:
        return await show_sources(articles, request, code=422, problem="Not added: write an address.")
    if len(given) > LONGEST_ADDRESS:
        problem = f"Not added: an address has at most {LONGEST_ADDRESS:,} characters."
        return await show_sources(articles, request, code=422, problem=problem)
    try:
        found = await add_address(articles, given, topics=checked_topics(storable(topics).split(",")) or None)
    except (rm.errors.WorkError, rm.errors.BadRequest) as error:
        return await show_sources(articles, request, code=422, address=given, problem=f"Not added: {error}.")
    added = found[0]
    if not added.created:
        return see_other(request, f"/subscriptions/{added.id}")
    what = f"Added: {added.title or added.url}"[:200]
    return see_other(request, f"/subscriptions?{urlencode({'added': what})}")


@router.post("/subscriptions/opml")
async def upload(articles: GivenArticles, request: Request, file: UploadFile) -> Response:
    """Add the feeds of a list in OPML."""
    content = await file.read(MOST_BYTES + 1)
    try:
        found = await add_opml(articles, content)
    except rm.errors.WorkError as error:
        return await show_sources(articles, request, code=422, problem=f"Not added: {error}.")
    words = [f"{found.created:,} added"]
    if there := len(found.added) - found.created:
        words.append(f"{there:,} were there")
    if found.refused:
        words.append(f"{len(found.refused):,} have an address that can't be")
    return see_other(request, f"/subscriptions?{urlencode({'added': ', '.join(words)})}")


@router.post("/subscriptions/{source_id}")
async def change(
    articles: GivenArticles,
    request: Request,
    source_id: uuid.UUID,
    choice: Written = "save",
    title: Written = "",
    topics: Written = "",
    minutes: Written = "",
    back: Written = "",
) -> Response:
    """Change a source: what it is called, its topics, its interval; pause, resume, fetch now, prefer, delete."""
    try:
        match choice:
            case "save":
                seconds = 0 if not minutes.strip() else whole_minutes(minutes) * 60
                wanted = SourceChange(storable(title), storable(topics).split(","), seconds)
                await api.apply(articles, source_id, wanted, None)
            case "pause":
                await api.apply(articles, source_id, SourceChange(), True)
            case "fetch":
                await fetch_now(articles, source_id)
            case "more" | "less" | "neither":
                weight = {"more": 1.0, "less": -1.0}.get(choice, 0.0)
                await articles.mill.run(lambda connection: prefer_source(connection, source_id, weight))
            case "delete":
                await delete_source(articles, source_id)
                return see_other(request, "/subscriptions")
            case _:
                raise HTTPException(422, {"code": "invalid", "message": "there is no such choice"})
    except UnknownSource:
        raise no_such_source() from None
    except SourceBusy as error:
        return await show_source(articles, request, source_id, code=409, problem=f"Not done: {error}.")
    except HTTPException as error:
        return await show_source(
            articles, request, source_id, code=error.status_code, problem=f"Not done: {reason(error)}."
        )
    return back_to(request, back or f"/subscriptions/{source_id}")


def whole_minutes(text: str) -> int:
    if not text.strip().isdecimal() or len(text) > 8:
        raise HTTPException(422, {"code": "invalid", "message": "the interval is a number of minutes, or empty"})
    return int(text)


@router.post("/queue/requeue")
async def requeue_all(articles: GivenArticles, request: Request) -> Response:
    """Classify all articles again that failed."""
    await articles.requests.requeue(state="failed")
    return see_other(request, "/queue?status=pending")


@router.post("/queue/{request_id}/requeue")
async def requeue_one(articles: GivenArticles, request: Request, request_id: uuid.UUID) -> Response:
    if not await articles.requests.requeue(request_id):
        return await show_queue(articles, request, code=409, problem="Not done: it is gone, or being classified.")
    return see_other(request, "/queue")
