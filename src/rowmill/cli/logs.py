"""The log of a worker process: one line per event, as text or JSON. Never contains row contents."""

import json
import logging
import os
import sys
import time
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from rowmill.cli.exits import UsageError

VARIABLE = "ROWMILL_LOG"
LEVELS = ("debug", "info", "warning", "error")
QUIETER = ("aiosqlite", "sqlalchemy", "alembic")
"""Loggers that would print statements with their values, or every migration step."""


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object per line, with the fields of an event beside its name."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
        }
        fields = getattr(record, "rowmill", None)
        if fields is not None and isinstance(record.args, tuple) and record.args:
            line |= {"event": record.args[0], **fields}
        else:
            line["message"] = record.getMessage()
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def text_lines() -> logging.Formatter:
    """Return a formatter for people. Times are UTC (Z), since fleets span time zones."""
    lines = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)-7s [%(process)d] %(message)s", "%Y-%m-%d %H:%M:%S")
    lines.converter = time.gmtime
    return lines


def start_log(level: str | None, style: LogFormat, default: str = "info") -> None:
    """Log to stderr, unless the application has configured logging: then only set the level."""
    chosen = (level or os.environ.get(VARIABLE) or default).lower()
    if chosen not in LEVELS:
        where = "--log-level" if level else VARIABLE
        raise UsageError(f"{where} is {chosen!r}; it may be {', '.join(LEVELS)}")
    for name in QUIETER:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("rowmill").setLevel(chosen.upper())
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style is LogFormat.JSON else text_lines())
    root.addHandler(handler)
    root.setLevel(chosen.upper())
