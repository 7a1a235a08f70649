"""RETURNING keeps no order: this puts claimed rows back into the order of the claim."""

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from rowmill.model.queue import Queue

CLASSES: dict[type, int] = {type(None): 0, int: 1, float: 1, str: 2, bytes: 3}
"""SQLite's order of values of different types, which any column may hold."""


def in_sequence(queue: Queue[Any]) -> Callable[[list[Any]], list[Any]]:
    """A function that sorts records of a queue, in the order of the columns that come with a claim."""
    columns = list(queue.claimed)
    places = [columns.index(column) for column in (queue.columns["available_at"], *queue.order_by, *queue.key)]
    level = None if queue.priority is None else columns.index(queue.priority)
    sign = 1 if queue.lower_first else -1
    plainly = itemgetter(*places)

    def key(record: Any) -> Any:
        first = [] if level is None else [sign * (record[level] or 0)]
        return first + [(CLASSES.get(type(record[place]), 1), record[place]) for place in places]

    def ordered(records: list[Any]) -> list[Any]:
        if level is None:
            try:
                return sorted(records, key=plainly)
            except TypeError:  # values of different types
                pass
        return sorted(records, key=key)

    return ordered
