"""Change sources: pause, resume, fetch now, topics, interval, delete."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.articles.models import Content, FeedSource
from rowmill_systems.articles.readers import LONGEST_TOPIC
from rowmill_systems.parts.clock import database_time, now
from rowmill_systems.parts.values import UNSTORABLE

if TYPE_CHECKING:
    from rowmill_systems.articles.articles import Articles

DELETED_AT_ONCE = 500
MOST_TOPICS = 20
SHORTEST_INTERVAL, LONGEST_INTERVAL = 60, 30 * 86_400
LONGEST_TITLE = 500


class UnknownSource(rm.errors.PermanentError):
    """There is no such source."""

    code = "no_such_source"


class SourceBusy(rm.errors.PermanentError):
    """A source is being fetched just now."""

    code = "source_busy"


@dataclass(frozen=True, slots=True)
class SourceChange:
    """What is changed of a source; None leaves it as it is."""

    title: str | None = None
    topics: Sequence[str] | None = None
    interval_seconds: int | None = None
    """Fetched so often, whatever the feed says; 0: the interval adapts again."""


def checked_topics(topics: Sequence[str]) -> list[str]:
    """Return topics without blanks and repetitions. Raises BadRequest for too many or too long ones."""
    found = list(dict.fromkeys(topic.strip() for topic in topics if topic.strip()))
    if len(found) > MOST_TOPICS or any(len(each) > LONGEST_TOPIC or UNSTORABLE.search(each) for each in found):
        raise rm.errors.BadRequest(f"a source has at most {MOST_TOPICS} topics of {LONGEST_TOPIC} characters")
    return found


# served by: the primary key
def change_source(connection: sa.Connection, id: uuid.UUID, change: SourceChange) -> None:
    """Change a source. Raises UnknownSource, or BadRequest for a value that can't be."""
    values: dict[str, Any] = {}
    if change.title is not None:
        title = change.title.strip()
        if len(title) > LONGEST_TITLE or UNSTORABLE.search(title):
            raise rm.errors.BadRequest(f"a title has at most {LONGEST_TITLE} characters")
        values["title"] = title
    if change.topics is not None:
        values["granular_topics"] = checked_topics(change.topics) or None
    if change.interval_seconds is not None:
        seconds = change.interval_seconds
        if seconds and not SHORTEST_INTERVAL <= seconds <= LONGEST_INTERVAL:
            raise rm.errors.BadRequest(
                f"an interval is between {SHORTEST_INTERVAL} and {LONGEST_INTERVAL} seconds, or 0"
            )
        values["fixed_interval_seconds"] = seconds or None
        if seconds:
            # Otherwise a feed that was to be fetched tomorrow would be, for the last time.
            soon = database_time(connection) + timedelta(seconds=seconds)
            values["next_sync_at"] = sa.case((FeedSource.next_sync_at > soon, soon), else_=FeedSource.next_sync_at)
    values["updated_at"] = now(connection.dialect.name)
    if not connection.execute(sa.update(FeedSource).where(FeedSource.id == id).values(values)).rowcount:
        raise UnknownSource("there is no such source")


# served by: the primary key
def pause_source(connection: sa.Connection, id: uuid.UUID) -> None:
    """Leave a source alone until somebody resumes it. Idempotent. Raises UnknownSource, or SourceBusy if it is being
    fetched: a worker has it."""
    free = sa.update(FeedSource).where(FeedSource.id == id, FeedSource.status != "fetching")
    values = {"status": "paused", "available_at": None, "updated_at": now(connection.dialect.name)}
    if connection.execute(free.values(values)).rowcount:
        return
    if connection.execute(sa.select(FeedSource.id).where(FeedSource.id == id)).first() is None:
        raise UnknownSource("there is no such source")
    raise SourceBusy("it is being fetched just now. Try again in a moment")


async def fetch_now(articles: "Articles", id: uuid.UUID) -> None:
    """Make a source due, whatever its state: also one that was paused, retired or failed. Raises UnknownSource.

    One that is being fetched stays as it is.
    """
    if await articles.sources.requeue(id):
        return
    there = sa.select(FeedSource.id).where(FeedSource.id == id)
    if await articles.mill.run(lambda connection: connection.execute(there).first(), write=False) is None:
        raise UnknownSource("there is no such source")


async def delete_source(articles: "Articles", id: uuid.UUID) -> None:
    """Delete a source with its articles, some at a time: a worker or reader never waits for all of it. Raises
    UnknownSource, or SourceBusy if it is being fetched. Interrupted, the same call goes on."""
    await articles.mill.run(lambda connection: pause_source(connection, id))
    some = sa.select(Content.id).where(Content.source_id == id).limit(DELETED_AT_ONCE).scalar_subquery()
    while await articles.mill.run(
        lambda connection: connection.execute(sa.delete(Content).where(Content.id.in_(some))).rowcount
    ):
        pass
    await articles.mill.run(
        lambda connection: connection.execute(sa.delete(FeedSource).where(FeedSource.id == id)).close()
    )
