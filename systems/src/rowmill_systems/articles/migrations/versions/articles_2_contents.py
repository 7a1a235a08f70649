"""Contents: the articles. A table that is there gets what it lacks; its articles keep their topics.

An article of before has no guid. Its identity is its link, marked as such: the next sync that finds the link in the
feed gives the article its real identity, and makes no second one.
"""

from collections import Counter
from html import unescape
from typing import Any

import nh3
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from rowmill_systems.articles.feeds.links import canonical_link
from rowmill_systems.articles.feeds.texts import sanitised
from rowmill_systems.articles.identity import by_link, text_hash
from rowmill_systems.articles.migrations.taking_over import (
    MOMENT,
    IndexToMake,
    TableToTakeOver,
    by_name,
    each_batch,
    fill_defaults,
    key,
    make_indexes,
    make_or_complete,
    moment,
    take_back,
)

revision = "articles_2"
down_revision = "articles_1"
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(JSONB(), "postgresql")


def table() -> TableToTakeOver:
    source = sa.ForeignKey("sources.id", ondelete="CASCADE")
    return TableToTakeOver(
        "contents",
        by_name(
            key(),
            sa.Column("source_id", sa.Uuid, source, nullable=False),
            sa.Column("identity", sa.Text, nullable=False),
            sa.Column("url", sa.Text),
            sa.Column("title", sa.Text, nullable=False, server_default=""),
            sa.Column("author", sa.Text),
            sa.Column("description", sa.Text, nullable=False, server_default=""),
            sa.Column("text", sa.Text, nullable=False, server_default=""),
            sa.Column("image_url", sa.Text),
            sa.Column("language", sa.String(20)),
            sa.Column("text_hash", sa.String(64), nullable=False),
            sa.Column("entry_hash", sa.String(64)),
            sa.Column("published_at", MOMENT),
            moment("shown_at"),
            moment("created_at"),
            moment("updated_at"),
            sa.Column("topics", JSON),
            sa.Column("topic_scores", JSON),
        ),
        needed={"id": "a uuid", "source_id": "the key of the article's source", "title": "the title"},
        indexes={
            "uq_contents_identity": IndexToMake(["source_id", "identity"], unique=True),
            "idx_contents_topics": IndexToMake(["topics"], options={"postgresql_using": "gin"}),
            "ix_contents_shown": IndexToMake(["shown_at", "id"]),
            "ix_contents_source": IndexToMake(["source_id", "shown_at", "id"]),
            "ix_contents_text": IndexToMake(["source_id", "text_hash"]),
        },
    )


def upgrade() -> None:
    connection = op.get_bind()
    wanted = table()
    added = make_or_complete(connection, wanted)
    if added is not None:
        fill_defaults(connection, wanted)
        if "shown_at" in added:
            fill_shown_at(connection)
        fill(connection)
    make_indexes(connection, wanted)


def fill_shown_at(connection: sa.Connection) -> None:
    """Give articles of before their place in lists: when they were published, but not later than they were saved."""
    names = ("shown_at", "published_at", "created_at")
    contents = sa.table("contents", *(sa.column(name, MOMENT) for name in names))
    published, created = contents.c.published_at, contents.c.created_at
    time = sa.case((published < created, published), else_=created)
    connection.execute(sa.update(contents).values(shown_at=time))


def fill(connection: sa.Connection) -> None:
    """Fill in identities, texts and hashes where they are missing, and sanitise descriptions: pages and endpoints show
    them as HTML."""
    contents = sa.table("contents", *(sa.column(name, column.type) for name, column in table().columns.items()))
    c = contents.c
    wanted = sa.select(c.id, c.source_id, c.url, c.title, c.description, c.text, c.identity).where(
        sa.or_(c.identity.is_(None), c.text_hash.is_(None))
    )
    change = (
        sa.update(contents)
        .where(c.id == sa.bindparam("of_id"))
        .values(
            identity=sa.bindparam("found"), description=sa.bindparam("clean"), text=sa.bindparam("words"),
            text_hash=sa.bindparam("hash"),
        )
    )  # fmt: skip
    seen: Counter[tuple[Any, str]] = Counter()
    for rows in each_batch(connection, wanted, c.id):
        values = []
        for row in rows:
            # As a sync has it: a link with marks of tracking would not be found, and the article be there twice.
            link = canonical_link(row.url) or row.url
            identity = row.identity or (by_link(link) if link else f"id:{row.id}")
            seen[row.source_id, identity] += 1
            if seen[row.source_id, identity] > 1:
                identity = f"id:{row.id}"  # one source with two articles of the same link
            words = row.text or plain(row.description or "")
            clean = sanitised(row.description or "", row.url)
            hash = text_hash(row.title, words)
            values.append({"of_id": row.id, "found": identity, "clean": clean, "words": words, "hash": hash})
        connection.execute(change, values)


def plain(markup: str) -> str:
    """Return the words of HTML."""
    return unescape(nh3.clean(markup, tags=set())).strip()


def downgrade() -> None:
    take_back(op.get_bind(), table())
