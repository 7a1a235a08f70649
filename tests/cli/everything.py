"""An application that has something for every command."""

from typing import Any

import sqlalchemy as sa

import rowmill as rm
from tests.cli.example import progress

metadata = sa.MetaData()
jobs = sa.Table(
    "jobs", metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("state", sa.Text, nullable=False, server_default="ready"),
    *progress(),
)  # fmt: skip

# The database is named by the command: this one is never opened.
mill = rm.Mill("sqlite:///nowhere/at/all.db")
queue = mill.queue(jobs, states=rm.States(cancelled="cancelled"))
mill.outbox()
mill.limit("api", concurrent=2)
mill.reconciliation(
    "agree",
    inventories={"rows": rm.reconcile.rows(jobs), "others": rm.reconcile.inventory(lambda: iter([]))},
    rules=[rm.reconcile.missing("gone", present="rows", absent="others")],
)


@queue.handler
async def handle(job: rm.Lease[Any]) -> None: ...


@mill.schedule("beat", cron="0 3 * * *")
async def beat(tick: rm.schedules.Tick) -> None: ...
