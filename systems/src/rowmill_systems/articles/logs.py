"""The log of the classification worker: events with fields. Counts, codes and keys only.

The events are `classification_worker.` and one of started, processing, success, item_failed, content_not_found, error,
stopped, started_on_startup, stopped_on_shutdown.
"""

import logging
from typing import Any, Literal

log = logging.getLogger("rowmill.systems.articles")

WorkerEvent = Literal[
    "started", "processing", "success", "item_failed", "content_not_found", "error", "stopped",
    "started_on_startup", "stopped_on_shutdown",
]  # fmt: skip
WARNINGS = frozenset({"item_failed", "content_not_found", "error"})


def log_event(event: WorkerEvent, **fields: Any) -> None:
    """Log an event. Its fields are in the text, and attributes of the record."""
    level = logging.WARNING if event in WARNINGS else logging.INFO
    if log.isEnabledFor(level):
        name = f"classification_worker.{event}"
        text = "".join(f" {field}={value}" for field, value in fields.items())
        log.log(level, "%s%s", name, text, extra={"event": name, **fields})
