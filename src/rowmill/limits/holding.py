"""Limits that let no row through, for whoever asks why one is not worked on."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection

from rowmill.limits.registry import Limits
from rowmill.limits.state import state_of
from rowmill.model.lifecycle import Kind
from rowmill.model.limits import MEANINGS
from rowmill.model.queue import Queue
from rowmill.store.browse import RowView
from rowmill.store.limiting import views
from rowmill.store.why import Hold, Reason


def with_limits(
    connection: Connection, limits: Limits, queue: "Queue[Any]", row: RowView, holds: list[Hold]
) -> list[Hold]:
    """What holds a row, and the limits that would refuse it when its turn came, whether or not it has asked yet."""
    if row.kind not in (Kind.READY, Kind.WAITING):
        return holds
    asked = {hold.facts["limit"] for hold in holds if hold.reason is Reason.LIMIT}
    found = [hold for hold in _shut(connection, limits, queue, row) if hold.facts["limit"] not in asked]
    return [hold for hold in holds if hold.reason is not Reason.READY or not found] + found


def _shut(connection: Connection, limits: Limits, queue: "Queue[Any]", row: RowView) -> Iterator[Hold]:
    handler = queue.handlers.get(row.stage or "")
    for name in handler.gate.whole if handler is not None and handler.gate is not None else ():
        refuses = state_of(limits[name], views.view(connection, name, views.EVERY)).refuses
        if refuses is not None:
            text = f"limit {name} lets no row through: {MEANINGS[refuses]}. See: rowmill limits"
            yield Hold(Reason.LIMIT, text, {"limit": name, "key": "", "why": refuses.value})
