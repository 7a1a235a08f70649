"""The tables of the benchmarks: one as narrow as the peers' own, and a realistic wide one."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

import rowmill as rm

MOMENT = sa.DateTime(timezone=True)
STATES = rm.States(ready="queued", running="processing", done="completed", dead="failed")
TEXT = 2000
"""Characters of the text in the wide table."""


def of_the_queue() -> "list[sa.Column[Any]]":
    return [
        sa.Column("state", sa.Text, nullable=False, server_default="queued"),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("available_at", MOMENT, nullable=False, server_default=sa.func.now()),
        sa.Column("lease", sa.BigInteger),
        sa.Column("leased_until", MOMENT),
        sa.Column("error", sa.Text),
        sa.Column("finished_at", MOMENT),
    ]


def narrow(metadata: sa.MetaData, name: str = "bench_narrow") -> sa.Table:
    """Return a table with a key, a payload, and the queue's columns."""
    return sa.Table(
        name,
        metadata,
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), sa.Identity(), primary_key=True),
        sa.Column("payload", sa.JSON),
        *of_the_queue(),
    )


def wide(metadata: sa.MetaData, name: str = "bench_wide") -> sa.Table:
    """Return a table with twenty columns, two thousand characters of text, a result, and two more indexes."""
    return sa.Table(
        name,
        metadata,
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("language", sa.String(8), nullable=False, server_default="en"),
        sa.Column("author", sa.Text),
        sa.Column("url", sa.Text),
        sa.Column("published_at", MOMENT, server_default=sa.func.now()),
        sa.Column("tenant", sa.Integer, nullable=False),
        sa.Column("words", sa.Integer),
        sa.Column("score", sa.Float),
        sa.Column("result", JSONB),
        sa.Column("created_at", MOMENT, server_default=sa.func.now()),
        *of_the_queue(),
        sa.Index(f"{name}_by_tenant", "tenant", "published_at"),
        sa.Index(f"{name}_by_source", "source"),
    )


def effect(metadata: sa.MetaData) -> sa.Table:
    """Return the table that handlers write to."""
    return sa.Table(
        "bench_effect",
        metadata,
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), sa.Identity(), primary_key=True),
        sa.Column("job", sa.BigInteger, nullable=False),
    )


FILL_NARROW = "INSERT INTO bench_narrow (payload) SELECT '{}' FROM generate_series(1, :rows)"
FILL_WIDE = f"""
INSERT INTO bench_wide (title, body, source, author, url, tenant, words, score)
SELECT 'Title ' || g,
       (SELECT string_agg(md5((g * 100 + part)::text), ' ') FROM generate_series(1, {TEXT // 33}) AS part),
       'source ' || g % 50, 'author ' || g % 1000, 'https://example.org/' || g, g % 200, 300, 0.5
FROM generate_series(1, :rows) AS g
"""
RESULT = {"topic": "economy", "confidence": 0.93, "entities": ["a", "b", "c"]}
"""What a handler of the wide table returns."""
