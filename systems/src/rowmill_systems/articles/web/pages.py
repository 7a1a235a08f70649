"""Pages for people: the feed, all articles, one article, topics, sources, the queue. Rendered here, and fit for
reading without a script."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import HTMLResponse

from rowmill_systems.articles import reads
from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.health import health_of
from rowmill_systems.articles.readers import ME, Interests, interests_of
from rowmill_systems.articles.recommend.explaining import Reason, explain
from rowmill_systems.articles.recommend.feed import read_feed, score_one
from rowmill_systems.articles.web import api
from rowmill_systems.articles.web.asking import GivenArticles, the_article, the_source
from rowmill_systems.articles.web.shown import WITH_IMAGES, site
from rowmill_systems.articles.web.topics import names_of, taxonomy_of, topic_groups
from rowmill_systems.parts.clock import database_time
from rowmill_systems.parts.values import storable

ON_A_PAGE = 50
router = APIRouter(include_in_schema=False)
After = Annotated[str, Query(max_length=20_000)]
Text = Annotated[str, Query(max_length=200)]
Show = Annotated[str, Query(max_length=20)]
SHOWN = [("unread", "Unread")]
CLASSIFIED = [("yes", "Yes"), ("no", "Not yet")]
STATUSES = [(status, status.capitalize()) for status in reads.STATUSES]


@router.get("/")
async def feed(articles: GivenArticles, request: Request, show: Show = "", after: After = "") -> HTMLResponse:
    """Show articles for the reader, the best first."""
    name = names_of(taxonomy_of(articles))

    def read(connection: sa.Connection) -> dict[str, Any]:
        page = read_feed(connection, ME, after=after, unread=show == "unread")
        now = database_time(connection)
        return {
            "items": [
                {**item.row, "is_read": item.scored.candidate.is_read, "why": why_of(item.scored, item.row, now, name)}
                for item in page.items
            ],
            "next": page.next,
            "followed": interests_of(connection).topics,
            "sources": reads.source_states(connection) if not page.items else {},
        }

    found = await articles.mill.run(read, write=False)
    return site.page("feed.html", request, **found, name=name, show=show, shows=SHOWN, after=after)


def why_of(scored: Any, row: Any, now: datetime, name: Any) -> list[Reason]:
    return explain(scored, now, source=row["source_title"] or row["source_host"], name=name)


@router.get("/browse")
async def browse(
    articles: GivenArticles,
    request: Request,
    q: Text = "",
    topic: Text = "",
    source: Annotated[str, Query(max_length=40)] = "",
    show: Show = "",
    classified: Show = "",
    since: Text = "",
    until: Text = "",
    after: After = "",
) -> HTMLResponse:
    """Show articles, the newest first, by filters."""
    taxonomy = taxonomy_of(articles)
    name = names_of(taxonomy)
    of_source = source_id(source)
    wanted = reads.ArticleFilter(
        topics=topics_of(taxonomy, storable(topic)),
        source=of_source,
        unread=show == "unread",
        classified={"yes": True, "no": False}.get(classified),
        text=storable(q).strip(),
        since=day(since),
        until=day(until, 1),
    )

    def read(connection: sa.Connection) -> dict[str, Any]:
        page = reads.article_page(connection, wanted, after=after, limit=ON_A_PAGE)
        now = database_time(connection)
        return {
            "items": [{**row, "why": []} for row in page.rows],
            "next": page.next,
            "followed": interests_of(connection).topics,
            "of_source": reads.one_source(connection, of_source, now) if of_source else None,
        }

    found = await articles.mill.run(read, write=False)
    options = [] if taxonomy is None else [(key, name(key)) for key in [*taxonomy.groups, *taxonomy.topics]]
    if topic and topic not in dict(options):
        options.append((topic, name(topic)))
    return site.page(
        "browse.html", request, **found, name=name, q=q, topic=topic, source=source, show=show, shows=SHOWN,
        classified=classified, choices=CLASSIFIED, since=since, until=until, after=after,
        topics=sorted(options, key=lambda option: option[1]),
    )  # fmt: skip


def topics_of(taxonomy: Any, topic: str) -> tuple[str, ...]:
    """Return a topic, or all topics of a group: articles have topics, not groups."""
    if not topic:
        return ()
    members = taxonomy.members(topic) if taxonomy is not None and topic in taxonomy.groups else ()
    return (topic, *members)


def source_id(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text) if text else None
    except ValueError:
        raise HTTPException(404, {"code": "no_such_source", "message": "there is no such source"}) from None


def day(text: str, later: int = 0) -> datetime | None:
    """Return the beginning of a day in UTC, some days later; None if there is none, or it can't be."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) + timedelta(days=later) if text else None
    except (ValueError, OverflowError):
        return None


@router.get("/read/{article_id}")
async def read_article(
    articles: GivenArticles, request: Request, article_id: uuid.UUID, images: bool = False
) -> HTMLResponse:
    return await show_article(articles, request, article_id, images=images)


async def show_article(
    articles: Articles,
    request: Request,
    id: uuid.UUID,
    *,
    images: bool = False,
    code: int = 200,
    problem: str | None = None,
) -> HTMLResponse:
    """Show an article. Its images are loaded from other servers only if the reader asks for them."""
    row = await the_article(articles, id, ME)
    name = names_of(taxonomy_of(articles))

    def read(connection: sa.Connection) -> tuple[list[Reason], Interests]:
        scored = score_one(connection, ME, id)
        reasons = why_of(scored, row, database_time(connection), name) if scored else []
        return reasons, interests_of(connection)

    why, followed = await articles.mill.run(read, write=False)
    page = site.page(
        "article.html", request, code=code, problem=problem, article=row, why=why, followed=followed.topics,
        preference=followed.sources.get(str(row["source_id"]), 0.0), images=images, name=name,
        # Opening it marks it, where there are scripts. Not so the answer to "Mark unread".
        marks_itself=not row["is_read"] and "hx-request" not in request.headers,
    )  # fmt: skip
    if images:
        page.headers.update(WITH_IMAGES)
    return page


async def show_item(articles: Articles, request: Request, id: uuid.UUID) -> HTMLResponse:
    """Show one article as lists have it: what a list puts in the place of the one that was changed."""
    row = await the_article(articles, id, ME)
    name = names_of(taxonomy_of(articles))

    def read(connection: sa.Connection) -> tuple[list[Reason], Interests]:
        scored = score_one(connection, ME, id)
        reasons = why_of(scored, row, database_time(connection), name) if scored else []
        return reasons, interests_of(connection)

    why, followed = await articles.mill.run(read, write=False)
    return site.page("item.html", request, item={**row, "why": why}, followed=followed.topics, name=name)


@router.get("/interests")
async def interests(articles: GivenArticles, request: Request) -> HTMLResponse:
    return await show_interests(articles, request)


async def show_interests(
    articles: Articles, request: Request, *, code: int = 200, problem: str | None = None
) -> HTMLResponse:
    """Show all topics, how many articles each has, and what the reader follows."""

    def read(connection: sa.Connection) -> tuple[reads.TopicCounts, Interests]:
        return reads.topic_counts(connection), interests_of(connection)

    counts, followed = await articles.mill.run(read, write=False)
    groups = topic_groups(taxonomy_of(articles), counts, followed.topics)
    return site.page(
        "interests.html", request, code=code, problem=problem, groups=groups, counts=counts, followed=followed.topics
    )


@router.get("/subscriptions")
async def subscriptions(
    articles: GivenArticles, request: Request, show: Show = "", after: After = "", added: Text = ""
) -> HTMLResponse:
    return await show_sources(articles, request, show=show, after=after, message=added)


async def show_sources(
    articles: Articles,
    request: Request,
    *,
    show: str = "",
    after: str = "",
    message: str = "",
    address: str = "",
    code: int = 200,
    problem: str | None = None,
) -> HTMLResponse:
    """Show sources, and how each does."""

    def read(connection: sa.Connection) -> dict[str, Any]:
        now = database_time(connection)
        page = reads.source_page(connection, failing=show == "failing", after=after, limit=ON_A_PAGE, now=now)
        return {
            "sources": [{**row, "found": health_of(row, now)} for row in page.rows],
            "next": page.next,
            "states": reads.source_states(connection),
        }

    found = await articles.mill.run(read, write=False)
    busy = any(row["status"] in ("due", "fetching") for row in found["sources"])
    return site.page(
        "sources.html", request, code=code, problem=problem, **found, show=show, shows=[("failing", "Failing")],
        after=after, message=message, address=address, busy=busy,
    )  # fmt: skip


@router.get("/subscriptions/{source_id}")
async def subscription(articles: GivenArticles, request: Request, source_id: uuid.UUID) -> HTMLResponse:
    return await show_source(articles, request, source_id)


async def show_source(
    articles: Articles, request: Request, id: uuid.UUID, *, code: int = 200, problem: str | None = None
) -> HTMLResponse:
    """Show a source: how it does, and what can be changed of it."""
    row = await the_source(articles, id)
    followed = await articles.mill.run(interests_of, write=False)
    return site.page(
        "source.html", request, code=code, problem=problem, source=row, found=health_of(row, row["now"]),
        preference=followed.sources.get(str(id), 0.0),
    )  # fmt: skip


@router.get("/queue")
async def queue(articles: GivenArticles, request: Request, status: Show = "failed", after: After = "") -> HTMLResponse:
    return await show_queue(articles, request, status=status, after=after)


async def show_queue(
    articles: Articles,
    request: Request,
    *,
    status: str = "failed",
    after: str = "",
    code: int = 200,
    problem: str | None = None,
) -> HTMLResponse:
    """Show how many articles wait for their topics, and those of one status."""
    if status not in reads.STATUSES:
        raise HTTPException(404, {"code": "no_such_status", "message": "there is no such status"})
    counts, exact = await api.read_stats(articles)

    def read(connection: sa.Connection) -> tuple[Any, float | None]:
        page = reads.request_page(connection, status, after=after, limit=ON_A_PAGE)
        return page, reads.oldest_pending(connection, database_time(connection))

    page, oldest = await articles.mill.run(read, write=False)
    return site.page(
        "queue.html", request, code=code, problem=problem, counts=counts, exact=exact, oldest=oldest, rows=page.rows,
        next=page.next, after=after, status=status, statuses=STATUSES, with_worker=articles.settings.ml_enabled,
        busy=bool(counts.pending or counts.processing),
    )  # fmt: skip
