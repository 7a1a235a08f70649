"""A watcher raises alerts on what it sees, once, and says when they are over."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill import Dead, Mill, Queue, Retry
from rowmill.maintenance.watcher import Watcher
from rowmill.model.alerts import Alert, AlertSeverity
from rowmill.observe import Alerts
from rowmill.observe.events import Events
from rowmill.store.clock import moment
from rowmill.store.own.schema import own_tables
from tests.conformance.fleet import Member, jobs, worker
from tests.support.postgres import TemporaryPostgres

NEVER = Alerts(backlog=None, oldest=None, died=None, unattended=None)


def plain(mill: Mill) -> Queue[Any]:
    return mill.queue(jobs(), retry=Retry(attempts=1))


@asynccontextmanager
async def watched(url: str, limits: Alerts, **options: Any) -> AsyncIterator[tuple[Member, Watcher, list[Any]]]:
    """A worker's queue, somebody who watches it through connections of its own, and what is told."""
    told: list[Any] = []

    async def hook(fields: Mapping[str, Any]) -> None:
        told.append((fields["alert"], fields["status"], fields["value"]))

    async with worker(url, plain) as member:
        mill = Mill(url)
        watcher = Watcher(mill.store, [(plain(mill), limits)], Events(), [hook], **options)
        try:
            yield member, watcher, told
        finally:
            await mill.store.close()


async def test_a_backlog_is_counted_no_further_than_needed(database_url: str) -> None:
    async with watched(database_url, Alerts(2, None, None, None)) as (member, watcher, _):
        await member.put({}, {})
        assert await watcher.look() == []
        await member.put({}, {}, {})
        assert await watcher.look() == [Alert("BACKLOG_HIGH", AlertSeverity.WARNING, "jobs", 3, 2)]


async def test_rows_that_wait_too_long(database_url: str) -> None:
    async with watched(database_url, Alerts(None, 60.0, None, None)) as (member, watcher, _):
        await member.put({"available_at": datetime.now(UTC)})
        assert await watcher.look() == []
        await member.bench.advance(300)
        [found] = await watcher.look()
        assert (found.alert, found.severity, found.limit) == ("ROWS_WAIT_TOO_LONG", AlertSeverity.ERROR, 60.0)
        assert found.value is not None
        assert 299 <= found.value < 400


async def test_rows_that_died_by_their_handler_or_with_their_worker(database_url: str) -> None:
    async with watched(database_url, Alerts(None, None, 0, None)) as (member, watcher, _):
        await member.put({}, {}, {})
        first, second, third = await member.claim(3)
        await member.settle((first, None))
        assert await watcher.look() == []
        await member.settle((second, Dead("bad")))
        assert await watcher.look() == [Alert("ROWS_DIED", AlertSeverity.ERROR, "jobs", 1, 0)]
        del third
        await member.expire()
        await member.rescue()
        assert await watcher.look() == [Alert("ROWS_DIED", AlertSeverity.ERROR, "jobs", 2, 0)]


async def test_a_queue_at_which_nobody_works(database_url: str) -> None:
    async with watched(database_url, Alerts(None, None, None, 60.0)) as (member, watcher, _):
        assert await watcher.look() == []
        table = own_tables(member.store.dialect.name).worker
        ago = moment(member.store.dialect.name, -300.0)
        await member.mill.run(lambda c: c.execute(sa.update(table).values(seen_at=ago)).close())
        [found] = await watcher.look()
        assert (found.alert, found.severity) == ("NOBODY_WORKS", AlertSeverity.CRITICAL)
        assert found.value is not None
        assert 299 <= found.value < 400
        await member.mill.run(lambda c: c.execute(sa.update(table).values(queues="others")).close())
        assert await watcher.look() == [Alert("NOBODY_WORKS", AlertSeverity.CRITICAL, "jobs", None, 60.0)]


async def test_what_is_not_asked_about_is_not_told(database_url: str) -> None:
    async with watched(database_url, NEVER) as (member, watcher, _):
        await member.put({"available_at": datetime.now(UTC)})
        await member.bench.advance(1e6)
        assert await watcher.look() == []


async def test_an_alert_is_told_once_and_its_end_too(database_url: str) -> None:
    async with watched(database_url, Alerts(0, None, None, None)) as (member, watcher, told):
        await member.put({})
        for _ in range(3):
            await watcher.tell(await watcher.look())
        assert told == [("BACKLOG_HIGH", "firing", 1)]
        await member.claim()
        await watcher.tell(await watcher.look())
        assert told[1:] == [("BACKLOG_HIGH", "over", 1)]
        await watcher.tell(await watcher.look())
        assert len(told) == 2


async def test_it_is_told_again_while_it_lasts(database_url: str) -> None:
    async with watched(database_url, Alerts(0, None, None, None), remind=0.0) as (member, watcher, told):
        await member.put({})
        for _ in range(3):
            await watcher.tell(await watcher.look())
        assert [status for _, status, _ in told] == ["firing", "still", "still"]


async def test_the_record_carries_alert_and_severity(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with watched(database_url, Alerts(0, None, None, None)) as (member, watcher, _):
        await member.put({})
        await watcher.tell(await watcher.look())
    [record] = [record for record in caplog.records if getattr(record, "alert", None)]
    assert (record.levelno, record.__dict__["alert"], record.__dict__["severity"]) == (
        logging.WARNING, "BACKLOG_HIGH", "WARNING",
    )  # fmt: skip
    assert record.__dict__["rowmill"]["queue"] == "jobs"


async def test_a_queue_that_can_not_be_looked_at_is_told_and_takes_nothing_back(database_url: str) -> None:
    async with watched(database_url, Alerts(0, None, None, None)) as (member, watcher, told):
        await member.put({})
        await watcher.tell(await watcher.look())
        await member.sql("ALTER TABLE jobs RENAME TO jobs_elsewhere")
        await watcher.tell(await watcher.look())
        assert [(alert, status) for alert, status, _ in told] == [
            ("BACKLOG_HIGH", "firing"), ("QUEUE_NOT_SEEN", "firing"),
        ]  # fmt: skip
        await member.sql("ALTER TABLE jobs_elsewhere RENAME TO jobs")
        await watcher.tell(await watcher.look())
        assert [(alert, status) for alert, status, _ in told[2:]] == [("QUEUE_NOT_SEEN", "over")]


async def test_a_database_that_is_away_is_told_and_takes_nothing_back() -> None:
    with TemporaryPostgres() as server:
        async with watched(server.url, Alerts(0, None, None, None)) as (member, watcher, told):
            await member.put({})
            await watcher.tell(await watcher.look())
            server.down()
            for _ in range(2):
                await watcher.tell(await watcher.look())
            assert [(alert, status) for alert, status, _ in told] == [
                ("BACKLOG_HIGH", "firing"), ("DATABASE_UNREACHABLE", "firing"),
            ]  # fmt: skip
            server.up()
            await watcher.tell(await watcher.look())
            assert [(alert, status) for alert, status, _ in told[2:]] == [("DATABASE_UNREACHABLE", "over")]


async def test_a_hook_that_fails_keeps_nobody_else_from_hearing(database_url: str) -> None:
    heard: list[str] = []
    events: list[str] = []

    async def broken(fields: Mapping[str, Any]) -> None:
        raise OSError("https://chat.example/secret")

    async def good(fields: Mapping[str, Any]) -> None:
        heard.append(fields["alert"])

    async with watched(database_url, Alerts(0, None, None, None)) as (member, watcher, _):
        watcher._hooks = [broken, good]
        watcher._events = Events([lambda name, fields: events.append(f"{name} {dict(fields)}")])
        await member.put({})
        await watcher.tell(await watcher.look())
    assert heard == ["BACKLOG_HIGH"]
    assert [event.split()[0] for event in events] == ["alert", "unsent"]
    assert "secret" not in "".join(events)
