"""How sources do, in words."""

from datetime import timedelta
from typing import Any

import pytest

from rowmill_systems.articles.health import SourceHealth, fault_in_words, health_of, per_day
from systems.tests.articles.shelf import NOW

OK = {
    "status": "idle", "failures": 0, "last_code": None, "last_status": 200, "last_success_at": NOW, "last_new_at": NOW,
    "created_at": NOW,
}  # fmt: skip


@pytest.mark.parametrize(
    ("row", "health", "reason"),
    [
        ({}, SourceHealth.OK, ""),
        ({"status": "due", "last_success_at": None}, SourceHealth.NEW, "It has not been fetched yet"),
        ({"failures": 1, "last_code": "dns"}, SourceHealth.FAILING, "Once in a row: the host has no address"),
        ({"failures": 1200, "last_code": None}, SourceHealth.FAILING, "1,200 times in a row: it could not be fetched"),
        ({"status": "paused", "failures": 3}, SourceHealth.PAUSED, "You paused it"),
        ({"status": "retired"}, SourceHealth.RETIRED, "Its server says that it is gone for good (410)"),
        ({"last_new_at": NOW - timedelta(days=45)}, SourceHealth.SILENT, "Nothing new for 45 days"),
        ({"last_new_at": None, "created_at": NOW - timedelta(days=2)}, SourceHealth.OK, ""),
    ],
)
def test_health(row: dict[str, Any], health: SourceHealth, reason: str) -> None:
    found = health_of(OK | row, NOW)
    assert (found.health, found.reason) == (health, reason)


def test_a_source_that_breaks_workers() -> None:
    assert health_of(OK | {"status": "failed"}, NOW).health is SourceHealth.FAILED


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        (None, None, ""), ("http_503", 503, "the server answered 503 Service Unavailable"),
        ("http_599", 599, "the server answered 599"), ("some_new_code", None, "some new code"),
        ("http_404", 404, "there is no feed at this address (404)"),
    ],
)  # fmt: skip
def test_faults(code: str | None, status: int | None, words: str) -> None:
    assert fault_in_words(code, status) == words


@pytest.mark.parametrize(("articles", "words"), [(0, "none"), (3, "3 a week"), (7, "1 a day"), (7000, "1,000 a day")])
def test_rates(articles: int, words: str) -> None:
    assert per_day(articles, 7) == words
