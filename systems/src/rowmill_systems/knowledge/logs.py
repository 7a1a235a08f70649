"""The log of the system: events with fields. Counts, codes and keys only."""

import logging
from typing import Any

log = logging.getLogger("rowmill.systems.knowledge")


def log_event(event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event. Its fields are in the text, and attributes of the record."""
    if log.isEnabledFor(level):
        text = "".join(f" {field}={value}" for field, value in fields.items())
        log.log(level, "%s%s", event, text, extra={"event": event, **fields})
