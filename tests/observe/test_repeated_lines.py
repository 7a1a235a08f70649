"""The log of thousands of failures: one line of a kind a minute, and how many more there were."""

import json
import logging
from typing import Any

import pytest

from rowmill import Lease, PermanentError
from rowmill.cli.logs import JsonLines
from rowmill.observe.events import Events
from rowmill.observe.repeated_lines import MINUTE, MOST_CODES, RepeatedLines
from tests.work.shop import shop_on


@pytest.fixture
def now() -> list[float]:
    """The time, as a test wants it."""
    return [1000.0]


@pytest.fixture
def events(now: list[float], caplog: pytest.LogCaptureFixture) -> Events:
    caplog.set_level(logging.INFO, "rowmill")
    found = Events()
    found._repeated = RepeatedLines(lambda: now[0])
    return found


def died(events: Events, key: int, code: str = "timeout", queue: str = "files") -> None:
    events.buried_in_claim(queue, "work", str(key), 1, code)


def test_the_first_line_of_a_kind_is_written_and_the_others_are_counted(
    events: Events, now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []
    events.observers.append(lambda name, fields: heard.append(fields["key"]))
    for key in range(813):
        died(events, key)
    died(events, 1, code="broken")
    died(events, 1, queue="other")

    assert [record.getMessage().split()[3] for record in caplog.records] == ["key=0", "key=1", "key=1"]
    assert len(heard) == 815, "observers hear all of them"
    caplog.clear()
    now[0] += MINUTE
    died(events, 900)

    told, first = caplog.records
    assert told.getMessage() == "settled queue=files stage=work move=dead code=timeout: and 812 more like it"
    assert told.levelname == "WARNING"
    line = json.loads(JsonLines().format(told))
    assert (line["event"], line["queue"], line["code"], line["more"]) == ("settled", "files", "timeout", 812)
    assert "key=900" in first.getMessage()


def test_a_code_for_each_row_does_not_fill_the_log(events: Events, caplog: pytest.LogCaptureFixture) -> None:
    for key in range(1000):
        died(events, key, code=f"code_{key}")

    assert len(caplog.records) == MOST_CODES + 1
    caplog.clear()
    events.tell_repeated(all_of_them=True)
    [told] = caplog.records
    assert told.getMessage().endswith(f"and {1000 - MOST_CODES - 1} more like it")


def test_debug_has_every_line(events: Events, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "rowmill")
    for key in range(5):
        died(events, key)

    assert len(caplog.records) == 5


def test_alerts_and_events_that_are_told_once_are_not_left_out(
    events: Events, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        events.alert("BACKLOG", "ERROR", queue="files", value=number)
        events.dead_event("outbox", event_id=number)

    assert len(caplog.records) == 6


async def test_a_worker_tells_at_its_end_how_many_lines_it_left_out(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rowmill")
    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None:
            raise PermanentError("no", code="broken")

        await shop.put(50)
        await shop.drain()

    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("settled ")]
    assert len(lines) == 2
    assert lines[1] == "settled queue=job stage=work move=dead code=broken: and 49 more like it"
