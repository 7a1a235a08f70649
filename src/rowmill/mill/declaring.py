"""A queue, out of what `Mill.queue` is given."""

from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from rowmill.mill.queue import Queue
from rowmill.model import claim_filter, declare
from rowmill.model.alerts import Alerts
from rowmill.model.queue import Columns, Counts, CrashCodes, EpochUnit, FinishedOn, Order, OrderPerKey, Retention
from rowmill.model.retry import Retry
from rowmill.model.states import Stage, States, as_value, vocabulary
from rowmill.store.own import schema
from rowmill.store.queue_sql import condition_text, literal_word


class QueueOptions(TypedDict, total=False):
    """What `Mill.queue` takes by name."""

    name: str | None
    columns: Columns | None
    states: States | None
    stages: Sequence[Stage]
    order: Order | None
    order_per_key: OrderPerKey | None
    retry: Retry | None
    lease: float
    timeout: float | None
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
    *,
    name: str | None = None,
    columns: Columns | None = None,
    states: States | None = None,
    stages: Sequence[Stage] = (),
    order: Order | None = None,
    order_per_key: OrderPerKey | None = None,
    retry: Retry | None = None,
    lease: float = 60.0,
    timeout: float | None = None,
    crash_codes: CrashCodes | None = None,
    epoch: EpochUnit = "s",
    counts: Counts = "attempts",
    finished_on: FinishedOn = "final",
    alerts: Alerts | None = None,
    retention: Retention | None = None,
    load: Sequence[str] | None = None,
    where: "sa.ColumnElement[bool] | None" = None,
) -> Queue[Any]:
    """The queue, checked, beside the others of its mill. What is wrong is said at once, all of it."""
    table, mapper = declare.inspect_source(source)
    names = declare.columns_by_name(table, mapper)
    chosen = name or table.name
    checked = declare.DeclarationChecker(chosen, table, names)
    mapped = checked.columns(columns or getattr(source, "__rowmill_columns__", None) or Columns())
    words = vocabulary(
        states or getattr(source, "__rowmill_states__", None) or States(),
        tuple(stages), retry or Retry(), lease, timeout,
    )  # fmt: skip
    checked.words(words, state := mapped.get("state"))
    if state is not None and not checked.problems:
        checked.spelling(words, state, lambda word: literal_word(state, word, dialect))
    spelled = [] if state is None else [
        str(as_value(word, state.type)) for word in (*(word for word, _ in words.meanings()), *words.others)
    ]  # fmt: skip
    crash_codes = crash_codes or CrashCodes()
    checked.spellings([*spelled, crash_codes.requeued, crash_codes.buried], schemas=dialect.name != "sqlite")
    checked.policies(words)
    checked.retention(retention or Retention(), words)
    order = order or Order()
    priority, order_by = checked.order(order)
    per, per_by = checked.order_per_key(order_per_key)
    checked.epoch(epoch, mapped)
    checked.meanings(counts, finished_on, retention or Retention(), mapped)
    loaded = None if load is None else checked.listed(load, "load=...")
    mine, unfit = claim_filter.checked(where, table, lambda condition: condition_text(condition, dialect))
    checked.problems += unfit
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
        where=mine,
    )  # fmt: skip
    queue.alerts = alerts or Alerts()
    return queue
