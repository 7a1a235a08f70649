"""The log of companies: events with fields, by Python's logging or by structlog. Counts, codes and keys only."""

import logging
from importlib import import_module
from typing import Any

import rowmill as rm

NAME = "rowmill.systems.companies"


class EventLog:
    """Writes events with fields.

    With `structlog`, through the application's structlog. Otherwise through Python's logging, where the fields are in
    the text, and attributes of the record.
    """

    def __init__(self, *, structlog: bool = False) -> None:
        self._structured: Any = None
        self._plain = logging.getLogger(NAME)
        if structlog:
            try:
                self._structured = import_module("structlog").get_logger(NAME)
            except ImportError:
                raise rm.errors.BadRequest(
                    "WDH_STRUCTLOG is on, and structlog is not installed. Run: pip install structlog"
                ) from None

    def info(self, event: str, **fields: Any) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._write(logging.WARNING, event, fields)

    def _write(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if self._structured is not None:
            (self._structured.info if level == logging.INFO else self._structured.warning)(event, **fields)
            return
        text = " ".join(f"{name}={value}" for name, value in fields.items())
        self._plain.log(level, "%s %s", event, text, extra={"rowmill": fields, **fields})
