"""`rowmill work` and `rowmill drain`: what is wrong is said before anything starts, what was done at the end."""

import asyncio
import json
import logging
import sys
import time
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import rowmill
from rowmill.cli.logs import JsonLines, LogFormat, start_log, text_lines
from rowmill.cli.main import run
from rowmill.cli.process import Progress, log_start
from rowmill.cli.supervisor import describe_exit, worker_command
from rowmill.model.errors import BadRequest
from rowmill.observe.events import Events
from rowmill.worker import WorkerSettings
from rowmill.worker.settings import from_environment
from tests.work.shop import job_table, shop_on, until

APPLICATION = """
import sqlalchemy as sa
import rowmill as rm

class Base(sa.orm.DeclarativeBase): ...

class Job(rm.QueueMixin, Base):
    __tablename__ = "job"
    id: sa.orm.Mapped[int] = sa.orm.mapped_column(primary_key=True)
    title: sa.orm.Mapped[str]

class Note(rm.QueueMixin, Base):
    __tablename__ = "note"
    id: sa.orm.Mapped[int] = sa.orm.mapped_column(primary_key=True)

mill = rm.Mill("sqlite:///{path}")
jobs, notes = mill.queue(Job, retry=rm.Retry(attempts=2, backoff=rm.fixed(3600))), mill.queue(Note)

{handler}
"""
HANDLER = """
@jobs.handler()
async def handle(job):
    if job.row.title == "bad":
        raise rm.PermanentError("no good")
    if job.row.title == "later":
        raise rm.TransientError("not now")
"""


@pytest.fixture(autouse=True)
def quiet_log() -> Iterator[None]:
    """Leave the log of the test run as it was."""
    names = ("", "rowmill", "aiosqlite", "sqlalchemy")
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module with a mill on a fresh file."""
    name = f"application_{abs(hash(tmp_path))}"
    write(tmp_path, name, HANDLER)
    monkeypatch.chdir(tmp_path)
    yield name
    sys.modules.pop(name, None)


def write(folder: Path, name: str, handler: str) -> None:
    path = folder / "work.db"
    (folder / f"{name}.py").write_text(APPLICATION.format(path=path, handler=handler))


def put(application: str, *titles: str) -> None:
    module = sys.modules[application]
    asyncio.run(module.jobs.load([{"title": title} for title in titles]))


def test_a_drain_says_what_it_did(application: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--app", application, "migrate", "--tables"]) == 0
    put(application, "a", "b", "bad", "later")
    capsys.readouterr()

    assert run(["drain", application, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {key: answer[key] for key in ("claimed", "done", "dead", "again")} == {
        "claimed": 4, "done": 2, "dead": 1, "again": 1,
    }  # fmt: skip
    assert run(["drain", application]) == 0
    assert capsys.readouterr().out.startswith("nothing was ready (")


def test_a_drain_says_what_it_left_because_of_a_pause(application: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(["--app", application, "migrate", "--tables"])
    put(application, "a")
    run(["--app", application, "pause", "job"])
    capsys.readouterr()

    assert run(["drain", application]) == 0
    assert "stage work of job is paused. Go on with: rowmill resume job" in capsys.readouterr().err


def test_a_drain_in_words(application: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(["--app", application, "migrate", "--tables"])
    put(application, "a", "bad")
    capsys.readouterr()

    assert run(["--app", application, "drain", "--queue", "job"]) == 0
    assert capsys.readouterr().out.startswith("1 done, 1 dead (")


@pytest.mark.parametrize("command", ["work", "drain"])
def test_a_mill_without_handlers_has_nothing_to_run(
    application: str, tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, application, "")

    assert run([command, application]) == 2
    assert "this mill has no handlers to run; its queues: job, note" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["work", "drain"])
def test_a_queue_without_a_handler_or_unknown_is_said(
    application: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, application, "--queue", "note"]) == 2
    assert "queue note has no handler" in capsys.readouterr().err
    assert run([command, application, "--queue", "nots"]) == 2
    assert "this mill has no queue nots. It has: job, note. Did you mean note?" in capsys.readouterr().err


def test_two_mills_can_not_be_named(application: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["work", application, "--app", "another:mill"]) == 2
    assert "two mills are named" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--processes", "0"],
        ["--grace", "-1"],
        ["--poll-max", "0"],
        ["--log-format", "xml"],
        ["--claimed-bytes", "0"],
        ["--claimed-bytes", "much"],
    ],
)
def test_an_option_that_makes_no_sense_is_refused(application: str, arguments: list[str]) -> None:
    assert run(["work", application, *arguments]) == 2


def test_the_wrong_level_is_said(
    application: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["drain", application, "--log-level", "loud"]) == 2
    assert "--log-level is 'loud'; it may be debug, info, warning, error" in capsys.readouterr().err
    monkeypatch.setenv("ROWMILL_LOG", "silent")
    assert run(["drain", application]) == 2
    assert "ROWMILL_LOG is 'silent'" in capsys.readouterr().err


def test_a_database_without_our_tables_is_a_mismatch(application: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["drain", application]) == 4
    assert "Run: rowmill migrate" in capsys.readouterr().err


def test_every_setting_is_read_from_the_environment() -> None:
    given: dict[str, Any] = {field.name: True if field.type is bool else 7 for field in fields(WorkerSettings)}
    environment = {f"ROWMILL_{name.upper()}": str(value).lower() for name, value in given.items()}

    assert from_environment(environment=environment) == WorkerSettings(**given)


def test_what_the_environment_does_not_say_stays_as_it_is() -> None:
    given = WorkerSettings(grace=3.0)

    assert from_environment(given, {"ROWMILL_POLL_MAX": "1.5", "ROWMILL_HEARTBEAT": " "}) == WorkerSettings(
        grace=3.0, poll_max=1.5
    )


def test_all_that_is_wrong_with_the_environment_is_said_at_once() -> None:
    environment = {
        "ROWMILL_POLL_MAX": "soon",
        "ROWMILL_RESCUE_MOST": "1.5",
        "ROWMILL_HEARTBEAT": "0",
        "ROWMILL_GRACE": "-1",
        "ROWMILL_POLL_BASE": "nan",
    }
    with pytest.raises(BadRequest) as caught:
        from_environment(environment=environment)

    for said in (
        "ROWMILL_POLL_MAX is 'soon': a number of seconds is needed",
        "ROWMILL_RESCUE_MOST is '1.5': a whole number is needed",
        "ROWMILL_HEARTBEAT is '0': it must be more than 0",
        "ROWMILL_GRACE is '-1': it must be 0 or more",
        "ROWMILL_POLL_BASE is 'nan': it must be more than 0",
    ):
        assert said in str(caught.value)


def test_a_wrong_environment_is_a_usage_error(application: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWMILL_POLL_MAX", "soon")

    assert run(["drain", application]) == 2


def test_an_event_is_one_line_of_json(caplog: pytest.LogCaptureFixture) -> None:
    Events().rescued("job", "work", 3, 1)
    line = json.loads(JsonLines().format(caplog.records[-1]))

    assert line["event"] == "rescued"
    assert (line["queue"], line["stage"], line["rows"], line["buried"]) == ("job", "work", 3, 1)
    assert line["level"] == "warning"
    assert line["time"].endswith("+00:00")


def test_a_line_of_text_has_its_time_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        record = logging.makeLogRecord({"created": 1772366400.103, "msecs": 103.0, "levelname": "INFO", "msg": "hello"})
        assert text_lines().format(record).startswith("2026-03-01 12:00:00.103Z INFO    [")
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("way", ["option", "environment", "neither"])
def test_tracebacks_are_asked_for_by_an_option_or_by_the_environment(
    application: str, way: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["--app", application, "migrate", "--tables"])
    put(application, "bad")
    if way == "environment":
        monkeypatch.setenv("ROWMILL_TRACEBACKS", "on")

    assert run(["drain", application, *(["--tracebacks"] if way == "option" else [])]) == 0
    capsys.readouterr()
    assert run(["--app", application, "show", "job", "1"]) == 0

    assert ("in handle" in capsys.readouterr().out) is (way != "neither")


def test_processes_are_given_the_option_for_tracebacks() -> None:
    for wanted in (True, False, None):
        command = worker_command(["work"], {"--tracebacks": wanted, "--grace": 5.0, "--queue": ["a", "b"]})

        assert ("--tracebacks" in command) is (wanted is True)
        assert command[-6:] == ["--grace", "5.0", "--queue", "a", "--queue", "b"]


async def test_a_worker_sums_up_what_it_did_since_the_last_time(database_url: str) -> None:
    async with shop_on(database_url) as shop:

        @shop.jobs.handler()
        async def handle(job: rowmill.Lease[Any]) -> None:
            if job.key == 1:
                raise rowmill.PermanentError("no")

        await shop.put(3)
        await shop.put(2, available_at=datetime(2999, 1, 1, tzinfo=UTC))
        async with shop.working() as working:
            progress = Progress(shop.mill, working.worker, every=60.0)
            await until(lambda: sum(working.worker.report.settled.values()) == 3)
            working.worker.report.count("hold", 1000)  # rows that a limit sent back: nothing was done
            await progress.tell()
            await progress.tell()
            assert shop.named("progress") == [{"settled": 3, "failed": 1, "per_minute": 3.0, "ready": "2"}]


def test_a_worker_says_at_its_start_what_it_works_on(caplog: pytest.LogCaptureFixture) -> None:
    mill = rowmill.Mill("postgresql://worker:hush@db.example/app?sslpassword=hush")
    table = job_table()
    jobs = mill.queue(table)

    @jobs.handler(concurrency=7)
    async def handle(job: rowmill.Lease[Any]) -> None: ...

    async def introduced() -> None:
        log_start(rowmill.worker.Worker(mill.store, [jobs]), mill)

    with caplog.at_level(logging.INFO, "rowmill"):
        asyncio.run(introduced())

    assert "works on job/work x7 in postgresql://worker:***@db.example/app" in caplog.text
    assert "hush" not in caplog.text


def test_at_no_level_do_drivers_tell_values() -> None:
    start_log("debug", LogFormat.TEXT)

    for name in ("aiosqlite", "sqlalchemy.engine"):
        assert not logging.getLogger(name).isEnabledFor(logging.INFO)


def test_the_end_of_a_process_in_words() -> None:
    assert [describe_exit(3), describe_exit(-9), describe_exit(-200)] == [
        "ended with code 3",
        "was killed by SIGKILL",
        "was killed by signal 200",
    ]
