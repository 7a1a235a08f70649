"""Measures the bytes of claimed rows, so that a process claims no more than it has room for.

A row weighs what its values of variable length take up, and a fixed amount for the rest. The columns of the queue
itself do not count: the state is a word, and a claim clears the error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import add, itemgetter
from sys import getsizeof
from typing import Any

import sqlalchemy as sa

from rowmill.store.queue_sql import ROW, QueueSql, bare


@dataclass(slots=True)
class ByteLimit:
    """How many bytes the rows of one claim may have together, and whether that limit was reached."""

    most: int
    or_one: bool = True
    """Take one row, however large."""
    taken: int = 0
    """Set by the claim: the bytes of the rows that its statements took so far."""
    reached: bool = False
    """Set by the claim: rows were left because of their size."""
    counted: float | None = 0
    """Set by the claim: the bytes of its rows as the database counted them, if all are small; None if they may not
    be."""

    def count(self, weight: float | None) -> None:
        """Add the bytes of the rows that a statement of the claim took; None if they are not known."""
        self.counted = None if weight is None or self.counted is None else self.counted + weight

    @property
    def left(self) -> int:
        return max(self.most - self.taken, 0)

    @property
    def takes_one(self) -> bool:
        """Whether the next statement takes one row, however large."""
        return self.or_one and not self.taken


LIGHT = 8192
"""A claim may take any number of rows of at most so many bytes."""


class RowSizer:
    """Measures records of one queue, in the order of the columns that a claim reads."""

    def __init__(self, sql: QueueSql) -> None:
        places = {column: place for place, column in enumerate(sql.queue.claimed)}
        self._measures = [
            (itemgetter(places[column]), list_bytes if isinstance(bare(column, sql.dialect), sa.ARRAY) else getsizeof)
            for column in sql.long
        ]

    def weights(self, records: Sequence[Any], within: ByteLimit | None = None) -> list[int]:
        """Return the bytes of each record. Works column by column, without Python code per row, to be cheap for small
        rows. If all are known to be small, returns their mean."""
        if records and within is not None and within.counted is not None:
            return [int(within.counted / len(records))] * len(records)
        weights = [ROW] * len(records)
        for value, measure in self._measures:
            weights = list(map(add, weights, map(measure, map(value, records))))
        return weights

    def total(self, records: Sequence[Any]) -> int:
        """Return the bytes of all records."""
        return sum(self.weights(records))


def list_bytes(value: Any) -> int:
    """Return the bytes of a list and its items, but not of what these contain."""
    return getsizeof(value) + (sum(map(getsizeof, value)) if isinstance(value, list) else 0)
