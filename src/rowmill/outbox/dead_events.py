"""Log one record for each event that died.

Rowmill does not log row contents or error texts elsewhere. This record includes the text of the last failure, because
the person on call has to know what failed. It is what the handler raised or returned, on one line and cut to 1,000
characters. If error texts may contain secrets, set `log_messages=False`: the record then has the error code only.
"""

from typing import Any

from rowmill.model.dead_rows import DeadRow, DeadRowListener
from rowmill.model.errors import one_line
from rowmill.model.queue import QueueSpec
from rowmill.observe.events import Events
from rowmill.outbox.event import EventColumns

LENGTH = 1000


def dead_row_listener(
    queue: QueueSpec[Any], columns: EventColumns, events: Events, *, log_messages: bool
) -> DeadRowListener:
    """Return a listener that logs dead events: after the last attempt, after `Dead`, or buried with their worker."""
    wanted = {"event_type": columns.event_type, "aggregate_id": columns.aggregate_id}

    def log_dead_event(death: DeadRow) -> None:
        facts = {name: death.facts.get(column.name) for name, column in wanted.items()}
        events.dead_event(
            queue.name,
            event_id=death.key if isinstance(death.key, int) else queue.key_text(death.key),
            **facts,
            attempts=death.attempt,
            error_code=death.code,
            last_error=one_line(death.error)[:LENGTH] if log_messages else death.code,
        )

    return DeadRowListener(tuple(wanted.values()), log_dead_event)
