"""How many bytes claimed rows take up, so that a process claims no more than it has room for.

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
    """How many bytes the rows of one claim may weigh together, and whether they came to that."""

    most: int
    or_one: bool = True
    """Take one row, whatever it weighs."""
    taken: int = 0
    """Set by the claim: bytes of the rows that its statements took so far."""
    reached: bool = False
    """Set by the claim: rows were left where they are because of their weight."""
    counted: float | None = 0
    """Set by the claim: bytes of its rows, as the database counted them, if all of them are light; None: they may not
    be."""

    def count(self, weight: float | None) -> None:
        """A statement of the claim took rows of so many bytes; None: nobody knows."""
        self.counted = None if weight is None or self.counted is None else self.counted + weight

    @property
    def left(self) -> int:
        return max(self.most - self.taken, 0)

    @property
    def takes_one(self) -> bool:
        """Does the next statement take one row, whatever it weighs?"""
        return self.or_one and not self.taken


LIGHT = 8192
"""Bytes of a row of which a claim may take as many as it likes."""


class RowSizer:
    """Weighs records of one queue, in the order of the columns that come with a claim."""

    def __init__(self, sql: QueueSql) -> None:
        places = {column: place for place, column in enumerate(sql.queue.claimed)}
        self._measures = [
            (itemgetter(places[column]), list_bytes if isinstance(bare(column, sql.dialect), sa.ARRAY) else getsizeof)
            for column in sql.long
        ]

    def weights(self, records: Sequence[Any], within: ByteLimit | None = None) -> list[int]:
        """Return the bytes of each record. Column by column, without a line of Python per row: it has to be cheap for
        rows that weigh nothing. If all of them are known to be light, it is the mean."""
        if records and within is not None and within.counted is not None:
            return [int(within.counted / len(records))] * len(records)
        weights = [ROW] * len(records)
        for value, measure in self._measures:
            weights = list(map(add, weights, map(measure, map(value, records))))
        return weights

    def total(self, records: Sequence[Any]) -> int:
        """Return the bytes of all of them."""
        return sum(self.weights(records))


def list_bytes(value: Any) -> int:
    """Return the bytes of a list and of its parts, but not of theirs."""
    return getsizeof(value) + (sum(map(getsizeof, value)) if isinstance(value, list) else 0)
