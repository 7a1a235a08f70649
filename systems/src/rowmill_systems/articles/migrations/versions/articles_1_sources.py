"""Sources: the feeds, and when each is fetched next. A table that is there gets what it lacks."""

from urllib.parse import urlsplit

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

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

revision = "articles_1"
down_revision = None
branch_labels = ("articles",)
depends_on = None

JSON = sa.JSON().with_variant(JSONB(), "postgresql")
USUAL_PORTS = {"http": 80, "https": 443}


def table() -> TableToTakeOver:
    return TableToTakeOver(
        "sources",
        by_name(
            key(),
            sa.Column("url", sa.Text, nullable=False),
            sa.Column("host", sa.Text, nullable=False),
            sa.Column("title", sa.Text, nullable=False, server_default=""),
            sa.Column("site_url", sa.Text),
            sa.Column("language", sa.String(20)),
            sa.Column("granular_topics", JSON),
            moment("created_at"),
            moment("updated_at"),
            sa.Column("status", sa.String(20), nullable=False, server_default="due"),
            sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
            sa.Column("available_at", MOMENT),
            sa.Column("lease", sa.BigInteger),
            sa.Column("leased_until", MOMENT),
            sa.Column("error", sa.Text),
            sa.Column("finished_at", MOMENT),
            sa.Column("next_sync_at", MOMENT),
            sa.Column("fixed_interval_seconds", sa.Integer),
            sa.Column("interval_seconds", sa.Integer),
            sa.Column("etag", sa.Text),
            sa.Column("last_modified", sa.Text),
            sa.Column("validators_url", sa.Text),
            sa.Column("moved_to", sa.Text),
            sa.Column("last_sync_at", MOMENT),
            sa.Column("last_success_at", MOMENT),
            sa.Column("last_new_at", MOMENT),
            sa.Column("last_status", sa.Integer),
            sa.Column("last_code", sa.String(60)),
            sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
        ),
        needed={"id": "a uuid", "url": "the address of the feed"},
        indexes={
            "ix_sources_next_sync": IndexToMake(["next_sync_at"], where="status = 'idle'"),
            "ix_sources_host": IndexToMake(["host"]),
            "uq_sources_url": IndexToMake(["url"], unique=True),
        },
        states=("due", "fetching", "idle", "paused", "retired", "failed"),
    )


def upgrade() -> None:
    connection = op.get_bind()
    op.create_table(
        "articles_meta",
        sa.Column("key", sa.String(100), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        if_not_exists=True,
    )
    wanted = table()
    if make_or_complete(connection, wanted) is not None:
        fill_defaults(connection, wanted)
        fill_hosts(connection)
    make_indexes(connection, wanted)


def fill_hosts(connection: sa.Connection) -> None:
    sources = sa.table("sources", sa.column("id", sa.Uuid), sa.column("url", sa.Text), sa.column("host", sa.Text))
    c = sources.c
    change = sa.update(sources).where(c.id == sa.bindparam("of_id")).values(host=sa.bindparam("found"))
    for rows in each_batch(connection, sa.select(c.id, c.url).where(c.host.is_(None)), c.id):
        connection.execute(change, [{"of_id": row.id, "found": host_of(row.url)} for row in rows])


def host_of(url: str) -> str:
    """Return the host of an address in lower case, with a port that is not the usual one. Empty if it has none."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    return host if port is None or USUAL_PORTS.get(parts.scheme.lower()) == port else f"{host}:{port}"


def downgrade() -> None:
    take_back(op.get_bind(), table())
    op.drop_table("articles_meta")
