"""A queue and leases on it, without a database."""

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

import rowmill as rm


def table(name: str = "thing", *more: sa.Column[Any]) -> sa.Table:
    moment = sa.DateTime(timezone=True)
    return sa.Table(
        name,
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("title", sa.Text),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("available_at", moment),
        sa.Column("lease", sa.BigInteger),
        sa.Column("leased_until", moment),
        sa.Column("error", sa.Text),
        sa.Column("finished_at", moment),
        *more,
    )


def queue(**options: Any) -> rm.Queue[rm.Record]:
    return rm.Mill("sqlite:///never-opened.db").queue(table(), **options)


def lease(of: rm.Queue[rm.Record] | None = None, attempt: int = 1, stage: str | None = None) -> rm.Lease[rm.Record]:
    chosen = of or queue()
    return rm.Lease(chosen, chosen.step(stage), 1, 7, attempt, datetime.now(UTC), (), lambda _: rm.Record({}))
