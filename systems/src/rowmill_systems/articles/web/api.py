"""The API: articles, the feed, topics, and how the queue stands."""

import uuid
from datetime import datetime
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, HTTPException, Path, Query, Response

import rowmill as rm
from rowmill.web.problems import problems
from rowmill_systems.articles import reads
from rowmill_systems.articles.articles import Articles
from rowmill_systems.articles.readers import (
    follow_topic,
    interests_of,
    mark_read,
    mark_unread,
    prefer_source,
    unfollow_topic,
)
from rowmill_systems.articles.recommend.explaining import explain
from rowmill_systems.articles.recommend.feed import FeedItem, read_feed, score_one
from rowmill_systems.articles.web import schemas
from rowmill_systems.articles.web.asking import GivenArticles, GivenReader, no_such_article, no_such_source, the_article
from rowmill_systems.articles.web.shown import sanitised
from rowmill_systems.articles.web.topics import names_of, taxonomy_of
from rowmill_systems.parts.clock import database_time
from rowmill_systems.parts.fields import GivenMoment, Health

router = APIRouter()
Limit = Annotated[int, Query(ge=1, le=200)]
After = Annotated[str, Query(max_length=20_000, description="The `next` of the page before.")]
TopicPath = Annotated[schemas.Plain, Path(max_length=200)]
NOT_THERE = problems(s404="no such article")


@router.get("/health", tags=["service"])
async def health(articles: GivenArticles) -> Health:
    """Check that the server and its database answer. See /health/worker for the worker in this process."""
    await articles.mill.run(lambda connection: connection.exec_driver_sql("SELECT 1").close(), write=False)
    return Health()


@router.get("/admin/queue-stats", tags=["service"])
async def queue_stats(articles: GivenArticles) -> schemas.ClassificationCounts:
    """Count the articles in the classification queue by status. Of a big table, finished ones are estimated."""
    return (await read_stats(articles))[0]


async def read_stats(articles: Articles) -> tuple[schemas.ClassificationCounts, bool]:
    """Return the counts, and whether they are exact."""
    found = await articles.requests.counts()
    by_status = {status: found[status] for status in reads.STATUSES}
    return schemas.ClassificationCounts(**by_status, total=sum(by_status.values())), found.exact


@router.get("/stats", tags=["service"])
async def stats(articles: GivenArticles) -> schemas.SystemStats:
    """Return how the queue and the sources stand."""
    counts, exact = await read_stats(articles)

    def read(connection: sa.Connection) -> tuple[float | None, dict[str, int]]:
        return reads.oldest_pending(connection, database_time(connection)), reads.source_states(connection)

    oldest, sources = await articles.mill.run(read, write=False)
    return schemas.SystemStats(queue=counts, exact=exact, oldest_pending_seconds=oldest, sources=sources)


@router.post("/admin/requeue-failed", tags=["service"])
async def requeue_failed(articles: GivenArticles) -> schemas.RequeuedArticles:
    """Classify articles again that failed, with no tries counted."""
    return schemas.RequeuedArticles(requeued=await articles.requests.requeue(state="failed"))


@router.get("/feed", tags=["feed"])
async def feed(
    articles: GivenArticles,
    reader: GivenReader,
    after: After = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    unread: bool = False,
) -> schemas.FeedOut:
    """Return articles for a reader, the best first: by followed topics, sources, freshness and variety.

    An article without topics yet is rated by those of its source, and never left out. Pages neither repeat nor skip an
    article, whatever is added, classified or deleted meanwhile.
    """
    name = names_of(taxonomy_of(articles))

    def read(connection: sa.Connection) -> schemas.FeedOut:
        page = read_feed(connection, reader, after=after, limit=limit, unread=unread)
        now = database_time(connection)
        return schemas.FeedOut(articles=[feed_article(item, now, name) for item in page.items], next=page.next)

    return await articles.mill.run(read, write=False)


def feed_article(item: FeedItem, now: datetime, name: Any) -> schemas.FeedArticle:
    reasons = explain(item.scored, now, source=item.row["source_title"] or item.row["source_host"], name=name)
    more = {
        "is_read": item.scored.candidate.is_read,
        "score": round(item.scored.total, 3),
        "why": schemas.reasons_out(reasons),
    }
    return schemas.FeedArticle.model_validate({**item.row, **more})


@router.get("/articles", tags=["articles"])
async def list_articles(
    articles: GivenArticles,
    reader: GivenReader,
    topic: Annotated[list[schemas.Plain] | None, Query(max_length=20, description="With any of these.")] = None,
    source: uuid.UUID | None = None,
    unread: bool = False,
    classified: bool | None = None,
    q: Annotated[schemas.Plain, Query(max_length=200, description="In titles and texts.")] = "",
    since: GivenMoment | None = None,
    until: GivenMoment | None = None,
    after: After = "",
    limit: Limit = 50,
) -> schemas.ArticleList:
    """List articles, the newest first."""
    wanted = reads.ArticleFilter(
        topics=tuple(topic or ()), source=source, unread=unread, classified=classified, text=q.strip(),
        since=since, until=until,
    )  # fmt: skip

    def read(connection: sa.Connection) -> schemas.ArticleList:
        page = reads.article_page(connection, wanted, reader=reader, after=after, limit=limit)
        found = [schemas.ArticleOut.model_validate(dict(row)) for row in page.rows]
        return schemas.ArticleList(articles=found, next=page.next)

    return await articles.mill.run(read, write=False)


@router.get("/articles/{article_id}", tags=["articles"], responses=NOT_THERE)
async def one_article(articles: GivenArticles, reader: GivenReader, article_id: uuid.UUID) -> schemas.WholeArticle:
    """Return an article with its text."""
    row = await the_article(articles, article_id, reader)
    # Again, as pages do it: others may write to the table.
    description = str(sanitised(row["description"], images=True))
    return schemas.WholeArticle.model_validate({**row, "description": description})


@router.get("/articles/{article_id}/why", tags=["articles"], responses=NOT_THERE)
async def why(articles: GivenArticles, reader: GivenReader, article_id: uuid.UUID) -> schemas.WhyOut:
    """Say in words what an article's score is made of now."""
    row = await the_article(articles, article_id, reader)
    name = names_of(taxonomy_of(articles))

    def read(connection: sa.Connection) -> schemas.WhyOut | None:
        scored = score_one(connection, reader, article_id)
        if scored is None:
            return None
        reasons = explain(
            scored, database_time(connection), source=row["source_title"] or row["source_host"], name=name
        )
        return schemas.WhyOut(score=round(scored.total, 3), why=schemas.reasons_out(reasons))

    found = await articles.mill.run(read, write=False)
    if found is None:
        raise no_such_article()
    return found


@router.put("/articles/{article_id}/read", tags=["articles"], responses=NOT_THERE)
async def put_mark(articles: GivenArticles, reader: GivenReader, article_id: uuid.UUID) -> schemas.MarkOut:
    """Mark an article as read."""
    if not await articles.mill.run(lambda connection: mark_read(connection, [article_id], reader)):
        raise no_such_article()
    return schemas.MarkOut(id=article_id, is_read=True)


@router.delete("/articles/{article_id}/read", tags=["articles"])
async def take_mark(articles: GivenArticles, reader: GivenReader, article_id: uuid.UUID) -> schemas.MarkOut:
    """Mark an article as unread."""
    await articles.mill.run(lambda connection: mark_unread(connection, [article_id], reader))
    return schemas.MarkOut(id=article_id, is_read=False)


@router.delete("/articles/{article_id}", status_code=204, tags=["articles"], responses=NOT_THERE)
async def delete_article(articles: GivenArticles, article_id: uuid.UUID) -> Response:
    """Delete an article, and take it out of the queue. It stays away, also while its feed names it."""
    if not await articles.mill.run(lambda connection: reads.delete_article(connection, article_id)):
        raise no_such_article()
    return Response(status_code=204)


@router.get("/topics", tags=["topics"])
async def list_topics(articles: GivenArticles, reader: GivenReader) -> schemas.TopicList:
    """List the topics of the newest articles and those that the reader follows, the most frequent first."""

    def read(connection: sa.Connection) -> tuple[reads.TopicCounts, dict[str, float]]:
        return reads.topic_counts(connection), interests_of(connection, reader).topics

    counts, weights = await articles.mill.run(read, write=False)
    name = names_of(taxonomy_of(articles))
    number = {each.topic: each.articles for each in counts.topics}
    found = [
        schemas.TopicOut(topic=key, label=name(key), articles=number.get(key, 0), weight=weights.get(key))
        for key in dict.fromkeys([*number, *sorted(weights)])
    ]
    return schemas.TopicList(topics=found, counted=counts.articles, unclassified=counts.unclassified)


@router.get("/following", tags=["topics"])
async def following(articles: GivenArticles, reader: GivenReader) -> schemas.InterestsOut:
    """Return what the reader follows: weights of topics, and of sources by id."""
    found = await articles.mill.run(lambda connection: interests_of(connection, reader), write=False)
    return schemas.InterestsOut.model_validate(found)


@router.put("/following/topics/{topic}", tags=["topics"])
async def follow(
    articles: GivenArticles, reader: GivenReader, topic: TopicPath, given: schemas.WeightIn | None = None
) -> schemas.InterestsOut:
    """Follow a topic, or a group by its name; want less of it, with a weight below zero."""
    weight = (given or schemas.WeightIn()).weight
    return await changed(articles, lambda connection: follow_topic(connection, topic, weight, reader))


@router.delete("/following/topics/{topic}", tags=["topics"])
async def unfollow(articles: GivenArticles, reader: GivenReader, topic: TopicPath) -> schemas.InterestsOut:
    """Neither follow a topic nor want less of it."""
    return await changed(articles, lambda connection: unfollow_topic(connection, topic, reader))


@router.put("/following/sources/{source_id}", tags=["topics"], responses=problems(s404="no such source"))
async def prefer(
    articles: GivenArticles, reader: GivenReader, source_id: uuid.UUID, given: schemas.WeightIn
) -> schemas.InterestsOut:
    """Want more of a source, or less; a weight of 0 forgets it."""
    found = await changed(articles, lambda connection: prefer_source(connection, source_id, given.weight, reader))
    if given.weight and str(source_id) not in found.sources:
        raise no_such_source()
    return found


async def changed(articles: Articles, work: Any) -> schemas.InterestsOut:
    try:
        return schemas.InterestsOut.model_validate(await articles.mill.run(work))
    except rm.errors.BadRequest as error:
        raise HTTPException(422, {"code": "invalid", "message": str(error)}) from None
