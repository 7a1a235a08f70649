"""How a source does, in a word and a reason. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import sqlalchemy as sa

from rowmill_systems.parts.database import in_utc
from rowmill_systems.parts.fetching.errors import MESSAGES

SILENT_DAYS = 30
"""A source that has had nothing new for so long is called silent."""


class SourceHealth(StrEnum):
    OK = "ok"
    NEW = "new"
    SILENT = "silent"
    FAILING = "failing"
    FAILED = "failed"
    PAUSED = "paused"
    RETIRED = "retired"


FAULTS = {
    "not_a_feed": "there is a page or something else, but no feed",
    "parsing_crashed": "the feed broke the program that reads it",
    "http_401": "the server wants a password",
    "http_403": "the server does not let us in (403)",
    "http_404": "there is no feed at this address (404)",
    "http_410": "the feed was taken down for good (410)",
    "http_429": "the server asks us to come less often (429)",
}
"""Words for codes of failures, besides those of fetching; other codes speak for themselves."""


@dataclass(frozen=True, slots=True)
class HealthReport:
    health: SourceHealth
    reason: str
    """A sentence without its full stop; "" where there is nothing to say."""


def health_of(source: sa.RowMapping | Mapping[str, Any], now: datetime) -> HealthReport:
    """Judge a source by its row."""
    status, failures = source["status"], source["failures"] or 0
    fault = fault_in_words(source["last_code"], source["last_status"])
    match status:
        case "paused":
            return HealthReport(SourceHealth.PAUSED, "You paused it")
        case "retired":
            return HealthReport(SourceHealth.RETIRED, "Its server says that it is gone for good (410)")
        case "failed":
            return HealthReport(
                SourceHealth.FAILED,
                "Fetching it broke the worker, so that it is left alone. Fetch it again once that is mended",
            )
    if failures:
        often = "Once" if failures == 1 else "Twice" if failures == 2 else f"{failures:,} times"
        return HealthReport(SourceHealth.FAILING, f"{often} in a row: {fault or 'it could not be fetched'}")
    if source["last_success_at"] is None:
        return HealthReport(SourceHealth.NEW, "It has not been fetched yet")
    latest = source["last_new_at"] or source["created_at"]
    if latest is not None and now - in_utc(latest) > timedelta(days=SILENT_DAYS):
        return HealthReport(SourceHealth.SILENT, f"Nothing new for {(now - in_utc(latest)).days} days")
    return HealthReport(SourceHealth.OK, "")


def fault_in_words(code: str | None, status: int | None) -> str:
    """Return why a fetch failed: "the server answered 503 Service Unavailable"."""
    if not code:
        return ""
    if words := FAULTS.get(code) or MESSAGES.get(code):
        return words
    # Codes as http_404 and http_error say less than the status itself.
    if code.startswith("http") and status:
        try:
            return f"the server answered {status} {HTTPStatus(status).phrase}"
        except ValueError:
            return f"the server answered {status}"
    return code.replace("_", " ")


def per_day(articles: int, days: int) -> str:
    """Return a rate for people: "12 a day", "3 a week", "none"."""
    if not articles:
        return "none"
    if articles >= days:
        return f"{round(articles / days):,} a day"
    return f"{articles} a week" if days == 7 else f"{articles} in {days} days"
