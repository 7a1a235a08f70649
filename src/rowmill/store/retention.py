"""Finished rows that are kept no longer are deleted, a batch at a time, by the same code as `rowmill prune`."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from rowmill.model.lifecycle import Kind
from rowmill.store.clauses import in_words, raw_key
from rowmill.store.filters import instant
from rowmill.store.index_plans import index_plans
from rowmill.store.keys import Key
from rowmill.store.operate import Batch, Changed, change_rows, keys_of, one_batch
from rowmill.store.targets import Condition
from rowmill.store.terms import Terms

BATCH = 500
"""Rows that are deleted in one transaction: few enough that nobody has to wait for them."""


def old(terms: Terms, kind: Kind, age: float) -> Condition:
    """Rows that reached this final state so many seconds ago."""
    finished = terms.queue.columns[terms.queue.aged_by(kind)]
    before: sa.ColumnElement[Any] = sa.literal_column(instant(terms, finished, timedelta(seconds=age)))
    return sa.and_(in_words(terms, terms.queue.vocabulary.of(kind)), finished <= before)


# served by: the index on (finished_at, or what stands for it, and the key) of the rows in this final state
def delete_some(
    connection: Connection, terms: Terms, kind: Kind, age: float, after: Key | None, limit: int = BATCH
) -> Batch:
    """Delete the next rows that are old enough, the oldest first, from a position on. The condition is in the DELETE: a
    row that was requeued since it was looked at stays. So does one that another table refers to and does not let go."""
    condition = old(terms, kind, age)
    order = [sa.literal_column(f"{terms.table}.{terms.role(terms.queue.aged_by(kind))}"), *raw_key(terms)]

    def change(connection: Connection, rows: Sequence[Any]) -> Changed:
        # In a form from which the planner proves nothing: with old statistics it might walk the whole index of finished
        # rows for each batch, instead of looking these few up by their keys.
        guard = sa.func.coalesce(condition, sa.false())
        return change_rows(connection, terms, sa.delete(terms.queue.table), keys_of(terms.queue, rows), guard)

    with index_plans(connection):
        return one_batch(terms, condition, change, order, after, limit, connection)
