"""The part of "why is this row not worked on" that concerns limits."""

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


def limit_obstacles(limits: Limits, queue: "QueueSpec[Any]", connection: Connection, row: RowView) -> Iterator[Hold]:
    """Yield the limits that keep the row waiting: those that all rows of its stage share and that have no permit
    free."""
    handler = queue.handlers.get(row.stage or "")
    for name in handler.gate.shared if handler is not None and handler.gate is not None else ():
        ours = limits[name].terms
        holds = declarations.holding(connection, name) or ours.declared
        refuses = state_of(holds, ours.run, views.view(connection, name, views.EVERY)).refuses
        if refuses is not None:
            text = f"limit {name} lets no row through: {MEANINGS[refuses]}. See: rowmill limits"
            yield Hold(Obstacle.LIMIT, text, {"limit": name, "key": "", "why": refuses.value})
