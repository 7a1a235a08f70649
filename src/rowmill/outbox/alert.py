"""One record in the log for each event that died.

Elsewhere nothing that is in a row, nor what a handler said of it, reaches a log. Here the text of the last failure
does: whoever is woken by the record has to know what failed. It is what the handler raised or answered, cut to 1,000
characters and to one line. Where errors may carry what no log should, `log_messages=False` leaves the code alone.
"""

from typing import Any

from rowmill.model.dead_rows import DeadRow, DeadRowListener
from rowmill.model.queue import QueueSpec
from rowmill.observe.events import Events
from rowmill.outbox.event import EventColumns

LENGTH = 1000


def dead_row_listener(
    queue: QueueSpec[Any], columns: EventColumns, events: Events, *, log_messages: bool
) -> DeadRowListener:
    """Tells of events that are dead: by their last attempt, by a handler's word, or buried with their worker."""
    wanted = {"event_type": columns.event_type, "aggregate_id": columns.aggregate_id}

    def told(death: DeadRow) -> None:
        facts = {name: death.facts.get(column.name) for name, column in wanted.items()}
        events.dead_event(
            queue.name,
            event_id=death.key if isinstance(death.key, int) else queue.key_text(death.key),
            **facts,
            attempts=death.attempt,
            error_code=death.code,
            last_error=one_line(death.error)[:LENGTH] if log_messages else death.code,
        )

    return DeadRowListener(tuple(wanted.values()), told)


def one_line(text: str) -> str:
    """Without what would begin a new line, or another record, in a log of text."""
    return "".join(char if char.isprintable() else " " for char in text)
