"""Makes an outbox out of the options of `Mill.outbox`."""

from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import sqlalchemy as sa

from rowmill.model import declare
from rowmill.model.duration import Duration
from rowmill.model.errors import DeclarationError
from rowmill.model.queue import Counts, EpochUnit, FinishedOn, Order, OrderPerKey
from rowmill.model.retry import Retry, steps
from rowmill.model.states import States
from rowmill.outbox.outbox import Outbox
from rowmill.outbox.table import WORDS, OutboxColumns, outbox_table

if TYPE_CHECKING:
    from rowmill.mill.mill import Mill

RETRY = Retry(attempts=5, backoff=steps(10, 40, 160, 600), jitter=0.2)
"""Five attempts over a quarter of an hour: what was away may be back by then."""


class OutboxOptions(TypedDict, total=False):
    """The options of `Mill.outbox`."""

    name: str | None
    columns: OutboxColumns | None
    states: States | None
    by: tuple[str, ...] | None
    """The columns that order the events of one aggregate, if the key does not."""
    on_dead: Literal["block", "skip"]
    """Whether a dead event blocks the later ones of its aggregate, or is skipped."""
    retry: Retry | None
    lease: Duration
    timeout: Duration | None
    concurrency: int
    """How many events are handled at once, in each process."""
    source: str | None
    """The source that relayed messages name; the name of the queue by default."""
    log_messages: bool
    """Whether the alert of a dead event may contain the message of its failure. It always contains the code."""
    epoch: EpochUnit
    counts: Counts
    """What the attempts column holds at rest: all tries ("attempts"), or the failed ones ("failures")."""
    finished_on: FinishedOn
    """Which ends set `processed_at`: every final state ("final"), or success alone ("done")."""


def declare_outbox(
    mill: "Mill",
    source_table: Any,
    **options: Unpack[OutboxOptions],
) -> Outbox:
    """Declare the queue of an outbox, and return the outbox. Without a table, make one."""
    name, concurrency = options.get("name"), options.get("concurrency", 10)
    table = outbox_table(sa.MetaData(), name or "outbox") if source_table is None else source_table
    columns = options.get("columns") or getattr(table, "__rowmill_columns__", None) or OutboxColumns()
    order = _checked(table, name, columns, options.get("by"), concurrency)
    queue = mill.queue(
        table,
        name=name,
        columns=columns,
        states=options.get("states") or getattr(table, "__rowmill_states__", None) or WORDS,
        order=Order(by=order),
        order_per_key=OrderPerKey(per=columns.aggregate_id, by=order, on_dead=options.get("on_dead", "block")),
        retry=options.get("retry") or RETRY,
        lease=options.get("lease", 60.0),
        timeout=options.get("timeout"),
        epoch=options.get("epoch", "s"),
        counts=options.get("counts", "attempts"),
        finished_on=options.get("finished_on", "final"),
    )
    queue.loaded = tuple(queue.table.columns)  # an event is made of all of them, deferred or not
    outbox = Outbox(
        mill, queue, columns, concurrency=concurrency, source=options.get("source"),
        log_messages=options.get("log_messages", True),
    )  # fmt: skip
    mill.outboxes[queue.name] = outbox
    return outbox


def _checked(
    source: Any, name: str | None, columns: OutboxColumns, by: tuple[str, ...] | None, concurrency: int
) -> tuple[str, ...]:
    """Check what only an outbox needs of a table. Return the columns that order the events of one aggregate."""
    table, mapper = declare.inspect_source(source)
    found = declare.DeclarationChecker(name or table.name, table, declare.columns_by_name(table, mapper))
    if not isinstance(columns, OutboxColumns):
        raise DeclarationError(found.name, ["columns=... of an outbox are OutboxColumns(...)"])
    for role in ("event_type", "aggregate_id", "payload"):
        found.column(getattr(columns, role), f"OutboxColumns({role}=...)")
    if concurrency < 1:
        found.problem(f"concurrency must be 1 or more, not {concurrency}")
    if by is None:
        by = _order(found, columns)
    found.check()
    return by


def _order(found: declare.DeclarationChecker, columns: OutboxColumns) -> tuple[str, ...]:
    """Return the columns that order events: none for a numeric key, which is an order itself; `created_at` for others,
    such as uuids."""
    key = list(found.table.primary_key.columns)
    if len(key) == 1 and isinstance(declare.undecorated(key[0]), sa.Integer):
        return ()
    created = None if columns.created_at is None else found.names.get(columns.created_at)
    if created is not None and not created.nullable:
        return (str(columns.created_at),)
    found.problem(
        "its key is no number, so it does not say which event of an aggregate came first. Name columns that do: "
        'by=("created_at",); they must be NOT NULL'
    )
    return ()
