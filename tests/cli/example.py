"""An application with queues of many kinds, for the command line to find."""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

import rowmill as rm

metadata = sa.MetaData()
MOMENT = sa.DateTime(timezone=True)

ODD = 'Odd "Table".x'


def progress(**renamed: str) -> list["sa.Column[Any]"]:
    """The columns of a queue, under the names that a table has for them."""
    named = {role: renamed.get(role, role) for role in ("attempts", "available_at", "lease", "leased_until")}
    named |= {role: renamed.get(role, role) for role in ("error", "finished_at")}
    return [
        sa.Column(named["attempts"], sa.Integer, nullable=False, server_default="0"),
        sa.Column(named["available_at"], MOMENT),
        sa.Column(named["lease"], sa.BigInteger),
        sa.Column(named["leased_until"], MOMENT),
        sa.Column(named["error"], sa.Text),
        sa.Column(named["finished_at"], MOMENT),
    ]


files = sa.Table(
    "files", metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("path", sa.Text, nullable=False, server_default="secret-path"),
    sa.Column("slot", sa.Text),
    sa.Column("status", sa.String(20), nullable=False),
    *progress(),
    sa.Column("created_at", MOMENT),
    sa.Index("files_slot", "slot", unique=True, postgresql_where=sa.text("status = 'queued'"),
             sqlite_where=sa.text("status = 'queued'")),
)  # fmt: skip
entities = sa.Table(
    "entities", metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("state", sa.Text, nullable=True),
    *progress(),
    sa.Column("code", sa.Text),
    sa.Column("updated_at", MOMENT),
)  # fmt: skip
events = sa.Table(
    "events", metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("aggregate", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    *progress(),
)  # fmt: skip
odd = sa.Table(
    ODD, metadata,
    sa.Column("Part 1", sa.Text, primary_key=True),
    sa.Column("order", sa.Integer, primary_key=True),
    sa.Column("State?", sa.Text, nullable=False),
    *progress(error="Last Error", lease="select"),
)  # fmt: skip
codes = sa.Table(
    "codes", metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("state", sa.SmallInteger, nullable=False),
    sa.Column("rank", sa.Integer),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("available_at", sa.BigInteger),
    sa.Column("lease", sa.BigInteger),
    sa.Column("leased_until", sa.BigInteger),
    sa.Column("error", sa.Text),
    sa.Column("finished_at", sa.BigInteger),
)  # fmt: skip

# The database is named by the command: this one is never opened.
mill = rm.Mill("sqlite:///nowhere/at/all.db")

files_queue = mill.queue(
    files,
    columns=rm.Columns(state="status", created_at="created_at"),
    states=rm.States(ready="queued", running="processing", done="completed", dead="failed"),
    retry=rm.Retry(attempts=2, backoff=rm.fixed(600)),
)
entities_queue = mill.queue(
    entities,
    columns=rm.Columns(error_code="code", updated_at="updated_at"),
    states=rm.States(done="COMPLETE", dead="FAILED", cancelled="CANCELLED"),
    stages=[
        rm.Stage("link", ready="PENDING", running="LINKING", waiting="LINK_FAILED"),
        rm.Stage("enrich", ready="LINKED", running="ENRICHING", waiting="ENRICH_FAILED"),
    ],
    retry=rm.Retry(attempts=1),
    retention=rm.Retention(done=rm.days(7), dead=rm.days(30)),
)
events_queue = mill.queue(
    events, states=rm.States(cancelled="cancelled"), order_per_key=rm.OrderPerKey(per="aggregate")
)
odd_queue = mill.queue(
    odd,
    columns=rm.Columns(state="State?", error="Last Error", lease="select"),
    states=rm.States(cancelled="can'celled"),
)
codes_queue = mill.queue(
    codes,
    states=rm.States(ready=0, running=1, done=2, dead=3, waiting=4),
    order=rm.Order(priority="rank"),
    epoch="ms",
)

blobs: list[int] = []
"""The keys of objects in a bucket, as a test wants them; a negative one is an outage."""


def listed() -> Iterator[int]:
    for key in blobs:
        if key < 0:
            raise rm.errors.ProviderDown("no answer", code="bucket_down")
        yield key


mill.reconciliation(
    "files",
    inventories={"rows": rm.reconcile.rows(files, facts=["status"]), "blobs": rm.reconcile.inventory(listed)},
    rules=[
        rm.reconcile.missing("row_without_blob", present="rows", absent="blobs"),
        rm.reconcile.missing("blob_without_row", present="blobs", absent="rows"),
    ],
    correct={"row_without_blob": rm.reconcile.requeue(files_queue)},
    cap=2,
    alert_above=2,
)


eqc = mill.limit("eqc", rate=rm.limits.Rate(2, per=3600.0), concurrent=2, budget=rm.limits.Budget(1000, per="day"))


@files_queue.handler()
async def ingest(file: rm.Lease[Any]) -> None:
    if file.row.slot == "transient":
        raise rm.TransientError("try later", code="later")
    if file.row.slot == "broken":
        raise rm.PermanentError("no use", code="broken")


@entities_queue.handler(stage="link")
async def link(entity: rm.Lease[Any]) -> None:
    if entity.row.id.int == 1:
        raise rm.PermanentError("not linked", code="link_broken")


@entities_queue.handler(stage="enrich")
async def enrich(entity: rm.Lease[Any]) -> None:
    if entity.row.id.int == 2:
        raise rm.PermanentError("not enriched", code="enrich_broken")


@events_queue.handler(limits=[eqc])
async def dispatch(event: rm.Lease[Any]) -> None:
    pass
