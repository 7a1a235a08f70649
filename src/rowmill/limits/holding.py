"""Limits that let no row through, for whoever asks why one is not worked on."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection

from rowmill.limits.registry import Limits
from rowmill.limits.state import state_of
from rowmill.model.limits import MEANINGS
from rowmill.model.queue import QueueSpec
from rowmill.operator.browse import RowView
from rowmill.operator.why import Hold, Obstacle
from rowmill.store.limits import declarations, views


def closed_reason(limits: Limits, queue: "QueueSpec[Any]", connection: Connection, row: RowView) -> Iterator[Hold]:
    """Of the limits that all rows of this one's stage share, those that have no room."""
    handler = queue.handlers.get(row.stage or "")
    for name in handler.gate.shared if handler is not None and handler.gate is not None else ():
        ours = limits[name].terms
        holds = declarations.holding(connection, name) or ours.declared
        refuses = state_of(holds, ours.run, views.view(connection, name, views.EVERY)).refuses
        if refuses is not None:
            text = f"limit {name} lets no row through: {MEANINGS[refuses]}. See: rowmill limits"
            yield Hold(Obstacle.LIMIT, text, {"limit": name, "key": "", "why": refuses.value})
