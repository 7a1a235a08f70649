"""Makes a checked queue out of the options of `Mill.queue`."""

from collections.abc import Iterable, Sequence
from typing import Any, TypedDict, Unpack

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from rowmill.mill.queue import Queue
from rowmill.model import claim_filter, declare
from rowmill.model.alerts import Alerts
from rowmill.model.duration import Duration
from rowmill.model.queue import Columns, Counts, CrashCodes, EpochUnit, FinishedOn, Order, OrderPerKey, Retention
from rowmill.model.retry import Retry
from rowmill.model.states import Stage, States, as_value, vocabulary
from rowmill.store.own import schema
from rowmill.store.queue_sql import condition_text, literal_word


class QueueOptions(TypedDict, total=False):
    """The options of `Mill.queue`."""

    name: str | None
    columns: Columns | None
    states: States | None
    stages: Sequence[Stage]
    order: Order | None
    order_per_key: OrderPerKey | None
    retry: Retry | None
    lease: Duration
    timeout: Duration | None
    crash_codes: CrashCodes | None
    epoch: EpochUnit
    counts: Counts
    """What the attempts column holds at rest: all tries ("attempts"), or the failed ones ("failures")."""
    finished_on: FinishedOn
    """Which ends set `finished_at`: every final state ("final"), or success alone ("done")."""
    alerts: Alerts | None
    retention: Retention | None
    load: Sequence[str] | None
    where: "sa.ColumnElement[bool] | None"
    """The rows that this application may claim, as a condition over the table's own columns."""


def declare_queue(
    source: Any,
    dialect: Dialect,
    others: Iterable[Queue[Any]],
    **options: Unpack[QueueOptions],
) -> Queue[Any]:
    """Check a declaration and make a queue of it. `others` are the queues that its mill has already. Raise
    DeclarationError with everything that is wrong."""
    table, mapper = declare.inspect_source(source)
    names = declare.columns_by_name(table, mapper)
    chosen = options.get("name") or table.name
    order, order_per_key = options.get("order") or Order(), options.get("order_per_key")
    counts, finished_on, epoch = (
        options.get("counts", "attempts"), options.get("finished_on", "final"), options.get("epoch", "s")
    )  # fmt: skip
    retention, crash_codes = options.get("retention") or Retention(), options.get("crash_codes") or CrashCodes()
    checked = declare.DeclarationChecker(chosen, table, names)
    mapped = checked.columns(options.get("columns") or getattr(source, "__rowmill_columns__", None) or Columns())
    words = vocabulary(
        options.get("states") or getattr(source, "__rowmill_states__", None) or States(),
        tuple(options.get("stages", ())), options.get("retry") or Retry(), options.get("lease", 60.0),
        options.get("timeout"),
    )  # fmt: skip
    checked.words(words, state := mapped.get("state"))
    if state is not None and not checked.problems:
        checked.spelling(words, state, lambda word: literal_word(state, word, dialect))
    spelled = [] if state is None else [
        str(as_value(word, state.type)) for word in (*(word for word, _ in words.meanings()), *words.others)
    ]  # fmt: skip
    checked.spellings([*spelled, crash_codes.requeued, crash_codes.buried], schemas=dialect.name != "sqlite")
    checked.policies(words)
    checked.retention(retention, words)
    priority, order_by = checked.order(order)
    per, per_by = checked.order_per_key(order_per_key)
    checked.epoch(epoch, mapped)
    checked.meanings(counts, finished_on, retention, mapped)
    load = options.get("load")
    loaded = None if load is None else checked.listed(load, "load=...")
    where, problems = claim_filter.checked(
        options.get("where"), table, lambda condition: condition_text(condition, dialect)
    )
    checked.problems += problems
    for other in others:
        if other.name == chosen:
            checked.problem("this mill has a queue of that name already: pass name=...")
        if schema.same_table(other.table, table, dialect.name):
            checked.problem(
                f"table {table.name} is declared already, as queue {other.name}: one set of words per table"
            )
    checked.check()
    queue: Queue[Any] = Queue(
        name=chosen, table=table, mapper=mapper, columns=mapped, names=names, vocabulary=words,
        priority=priority, lower_first=order.lower_first, order_by=order_by,
        per=per, per_by=per_by, dead_blocks=order_per_key is None or order_per_key.on_dead == "block",
        crash_codes=crash_codes, epoch=epoch, counts=counts, finished_on=finished_on,
        retention=retention, loaded=loaded,
        where=where,
    )  # fmt: skip
    queue.alerts = options.get("alerts") or Alerts()
    return queue
