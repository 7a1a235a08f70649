"""The queue that is measured: a narrow table of a user's."""

import sqlalchemy as sa

import rowmill as rm

MOMENT = sa.DateTime(timezone=True)
STATES = rm.States(ready="queued", running="processing", done="completed", dead="failed")


def narrow(metadata: sa.MetaData, name: str = "bench_narrow") -> sa.Table:
    """As narrow as the peers' own tables: a key, a payload, and what the queue needs."""
    return sa.Table(
        name,
        metadata,
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("payload", sa.JSON),
        sa.Column("state", sa.Text, nullable=False, server_default="queued"),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("available_at", MOMENT, nullable=False, server_default=sa.func.now()),
        sa.Column("lease", sa.BigInteger),
        sa.Column("leased_until", MOMENT),
        sa.Column("error", sa.Text),
        sa.Column("finished_at", MOMENT),
    )


def declare(url: str) -> tuple[rm.Mill, rm.Queue[rm.Record]]:
    mill = rm.Mill(url)
    return mill, mill.queue(narrow(sa.MetaData()), states=STATES)
