"""Save the entries of a feed as articles, and queue what has to be classified.

Articles are locked before their rows in the queue, as the cascade of a DELETE does it: two transactions never wait for
each other. A worker that writes topics has the row in the queue first; it waits for no article (see `processing`).
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from rowmill_systems.articles.feeds.entries import FeedEntry
from rowmill_systems.articles.identity import by_link, hashed, stored_identity, text_hash
from rowmill_systems.articles.models import CONTENTS, QUEUE, Content, DeletedArticle
from rowmill_systems.articles.settings import (
    FRESH_HOURS,
    FRESH_PRIORITY,
    OLD_PRIORITY,
    RECENT_HOURS,
    RECENT_PRIORITY,
)
from rowmill_systems.parts.clock import now
from rowmill_systems.parts.database import upsert_into
from rowmill_systems.parts.values import storable

BATCH = 500
"""Entries that are saved by one set of statements."""
FUTURE_HOURS = 24
"""A feed may be wrong about its time zone. What claims to be of a later day has no age, and comes last."""
LONGEST_LANGUAGE = 20
HOUR = 3600.0
WRITTEN = (
    "url", "title", "author", "description", "text", "image_url", "language", "text_hash", "entry_hash", "published_at",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SavedEntries:
    new: int = 0
    updated: int = 0
    """Articles that changed, their text or not."""
    unchanged: int = 0
    queued: int = 0
    """Put into the classification queue: new articles, and those whose text changed."""

    def __add__(self, other: "SavedEntries") -> "SavedEntries":
        return SavedEntries(
            self.new + other.new, self.updated + other.updated, self.unchanged + other.unchanged,
            self.queued + other.queued,
        )  # fmt: skip


def save_entries(connection: sa.Connection, source_id: uuid.UUID, entries: Sequence[FeedEntry]) -> SavedEntries:
    """Save new articles without topics and change those that are there, with their rows in the classification queue.

    In the caller's transaction, by a fixed number of statements per 500 entries. An article whose text changed is
    classified again, from its first try on, whatever became of it before. It shows the topics of its former text until
    then: they nearly always fit, and NULL would mean that nobody has looked at it yet. If a worker has it just now, the
    worker's lease ends, so that topics of the former text are not written.
    """
    saved = SavedEntries()
    rows = {row["identity"]: row for row in (_row(source_id, entry) for entry in reversed(entries))}
    ordered = sorted(rows)  # in one order: two workers that save the same feed do not lock each other out
    for start in range(0, len(ordered), BATCH):
        saved += _save(connection, source_id, [rows[identity] for identity in ordered[start : start + BATCH]])
    return saved


def _row(source_id: uuid.UUID, entry: FeedEntry) -> dict[str, Any]:
    """Return an entry as a row, without what a database can't store."""
    title, text, description = storable(entry.title), storable(entry.text), storable(entry.description)
    url, author, image = (
        None if each is None else storable(each) for each in (entry.url, entry.author, entry.image_url)
    )
    language = storable(entry.language)[:LONGEST_LANGUAGE] if entry.language else None
    published = _in_utc(entry.published_at)
    return {
        "source_id": source_id,
        "identity": stored_identity(storable(entry.identity)),
        "url": url,
        "title": title,
        "author": author,
        "description": description,
        "text": text,
        "image_url": image,
        "language": language,
        "text_hash": text_hash(title, text),
        "entry_hash": hashed(
            [
                url,
                title,
                author,
                description,
                text,
                image,
                language,
                None if published is None else published.isoformat(),
            ]
        ),
        "published_at": published,
    }


def _in_utc(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:  # in the first or the last year
        return None


def _save(connection: sa.Connection, source_id: uuid.UUID, rows: Sequence[dict[str, Any]]) -> SavedEntries:
    known = _known(connection, source_id, rows)
    changed = [row for row in rows if known.get(row["identity"], (None, None))[1] != row["entry_hash"]]
    deleted = _deleted(connection, source_id, [row for row in changed if row["identity"] not in known])
    changed = [row for row in changed if row["identity"] not in deleted]
    if not changed:
        return SavedEntries(unchanged=len(rows))
    written = _write(connection, changed)
    new = [identity for identity in written if identity not in known]
    hashes = {row["identity"]: row["text_hash"] for row in changed}
    queued = [
        written[identity] for identity in written if identity not in known or known[identity][0] != hashes[identity]
    ]
    if queued:
        queue_articles(connection, queued)
    return SavedEntries(len(new), len(written) - len(new), len(rows) - len(written), len(queued))


# served by: uq_contents_identity
def _known(
    connection: sa.Connection, source_id: uuid.UUID, rows: Sequence[dict[str, Any]]
) -> dict[str, tuple[str | None, str | None]]:
    """Return the hashes of the articles that are there, by identity: that of the text, that of the whole entry.

    Articles that were there before articles was are found by their links, and get the identity that the feed gives.
    """
    links = {by_link(row["url"]): row["identity"] for row in rows if row["url"]}
    identities = [row["identity"] for row in rows]
    c = Content
    found = connection.execute(
        sa.select(c.id, c.identity, c.text_hash, c.entry_hash).where(
            c.source_id == source_id, c.identity.in_([*identities, *links])
        )
    ).all()
    known = {row.identity: (row.text_hash, row.entry_hash) for row in found if row.identity not in links}
    of_before = [row for row in found if row.identity in links and links[row.identity] not in known]
    if of_before:
        change = sa.update(CONTENTS).where(CONTENTS.c.id == sa.bindparam("of_id"))
        renamed = [{"of_id": row.id, "found": links[row.identity]} for row in of_before]
        connection.execute(change.values(identity=sa.bindparam("found")), renamed)
        known |= {links[row.identity]: (row.text_hash, row.entry_hash) for row in of_before}
    return known


# served by: the primary key
def _deleted(connection: sa.Connection, source_id: uuid.UUID, rows: Sequence[dict[str, Any]]) -> set[str]:
    """Return the identities of the articles that a person deleted: by them, or by their links if they were deleted
    before a sync had found them."""
    if not rows:
        return set()
    named = {row["identity"]: row["identity"] for row in rows}
    named |= {by_link(row["url"]): row["identity"] for row in rows if row["url"]}
    gone = DeletedArticle
    wanted = sa.select(gone.identity).where(gone.source_id == source_id, gone.identity.in_(list(named)))
    return {named[identity] for identity in connection.scalars(wanted)}


# served by: uq_contents_identity
def _write(connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> dict[str, uuid.UUID]:
    """Insert or change articles. Return the keys of those that were written, by identity: not of those that another
    worker has saved meanwhile, just so."""
    current = now(connection.dialect.name)
    # `shown_at` is not among what an update writes: pages of the feed go by it, and feeds change their dates.
    published = sa.bindparam("published", type_=CONTENTS.c.published_at.type)
    earlier = sa.func.least if connection.dialect.name == "postgresql" else sa.func.min
    shown = sa.func.coalesce(earlier(published, current), current)
    insert = upsert_into(connection, CONTENTS).values(shown_at=shown)
    values = {name: insert.excluded[name] for name in WRITTEN} | {"updated_at": current}
    statement = insert.on_conflict_do_update(
        index_elements=["source_id", "identity"],
        set_=values,
        where=CONTENTS.c.entry_hash.is_distinct_from(insert.excluded.entry_hash),
    ).returning(CONTENTS.c.identity, CONTENTS.c.id)
    given = [{**row, "published": row["published_at"]} for row in rows]
    return {row.identity: row.id for row in connection.execute(statement, given)}


# served by: the primary key of contents, uq_classification_queue_content
def queue_articles(connection: sa.Connection, keys: Sequence[uuid.UUID]) -> None:
    """Put articles into the classification queue, each with the priority of its age, ready now, with all tries left.

    Without a look at the status: a claim may come between the look and the change. Whoever works on a row loses it.
    """
    dialect = connection.dialect.name
    current, pending = now(dialect), sa.literal_column("'pending'", sa.String)
    articles = sa.select(Content.id, pending, _priority(dialect), current, current).where(Content.id.in_(keys))
    insert = upsert_into(connection, QUEUE).from_select(
        ["content_id", "status", "priority", "created_at", "updated_at"],
        articles.order_by(Content.id),
        include_defaults=False,
    )
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=["content_id"],
            set_={
                "status": pending, "priority": insert.excluded.priority, "retry_count": 0, "error_message": None,
                "available_at": None, "lease": None, "leased_until": None, "processed_at": None, "updated_at": current,
            },
        )
    )  # fmt: skip


def _priority(dialect: str) -> "sa.ColumnElement[int]":
    """Return the priority of an article by its age, on the database's clock. Without a date it has the lowest."""
    published = Content.published_at
    steps = ((FRESH_HOURS, FRESH_PRIORITY), (RECENT_HOURS, RECENT_PRIORITY))
    return sa.case(
        (published > now(dialect, FUTURE_HOURS * HOUR), OLD_PRIORITY),
        *((published > now(dialect, -hours * HOUR), priority) for hours, priority in steps),
        else_=OLD_PRIORITY,
    )
