"""A worker and a beat of Celery as processes: doubled ticks, a warm shutdown, a worker that is killed."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa

import rowmill as rm
from tests.integrations.celery.shop import FOLDER
from tests.integrations.parcels import BEGUN_FILE, HOLD_FILE, put, states
from tests.support.python import ROOT, Python
from tests.support.waiting import until

SECONDS = 60.0
Start = Callable[..., "Python"]


@pytest.fixture
def start(database_url: str, tmp_path: Path) -> Iterator[Start]:
    """Starts `python -m celery …`. Its output is in `log`. At the end, every process and its children are gone."""
    (tmp_path / "broker").mkdir()
    variables = os.environ | {
        "DATABASE_URL": database_url, FOLDER: str(tmp_path / "broker"), "PYTHONPATH": str(ROOT),
        BEGUN_FILE: str(tmp_path / "begun"), HOLD_FILE: str(tmp_path / "go"),
    }  # fmt: skip
    started: list[Python] = []

    def start(*arguments: str, **more: str) -> Python:
        with (tmp_path / "log").open("ab") as log:
            command = ("celery", "-A", "tests.integrations.celery.shop", *arguments, "--loglevel", "INFO")
            process = Python("-m", *command, env=variables | more, cwd=tmp_path, stdout=log, stderr=log)
        started.append(process)
        return process

    yield start
    for process in started:
        kill(process)


def worker(start: Start, pool: str, *arguments: str) -> Python:
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    return start("worker", "--pool", pool, "--concurrency", "2", *quiet, *arguments)


def kill(process: Python) -> None:
    """Kill a process and its children, all at once."""
    with suppress(psutil.NoSuchProcess):
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for each in family:
            each.suspend()
        for each in family:
            each.kill()
    process.wait(SECONDS)


def attempts(mill: rm.Mill) -> set[int]:
    """How often rows were claimed."""
    table = mill["parcel"].table
    return set(asyncio.run(mill.run(lambda c: c.scalars(sa.select(table.c.attempts)).all())))


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_two_beats_and_a_worker_that_is_killed_in_the_middle_of_a_drain(
    mill: rm.Mill, start: Start, tmp_path: Path
) -> None:
    put(mill, "a", "hold", "b")
    first = worker(start, "prefork", "--beat")
    start("beat", "--schedule", str(tmp_path / "second"))
    until(lambda: states(mill) == {"done": 2, "running": 1}, SECONDS)
    put(mill, "c")
    log = tmp_path / "log"
    # A tick that another child of the pool takes while the first one drains.
    until(lambda: "'skipped': 1" in log.read_text(), SECONDS)
    until(lambda: states(mill) == {"done": 3, "running": 1}, SECONDS)
    kill(first)
    assert states(mill) == {"done": 3, "running": 1}

    (tmp_path / "go").touch()
    worker(start, "solo")
    until(lambda: states(mill) == {"done": 4}, SECONDS)
    assert attempts(mill) == {1, 2}


@pytest.mark.parametrize(
    ("pool", "database_url"), [("prefork", "postgres"), ("solo", "sqlite")], indirect=["database_url"]
)
def test_a_warm_shutdown_loses_nothing(mill: rm.Mill, start: Start, tmp_path: Path, pool: str) -> None:
    put(mill, "a", "hold", "b")
    process = worker(start, pool, *(["--beat"] if pool == "prefork" else []))
    if pool == "solo":
        start("beat")
    until(lambda: states(mill) == {"done": 2, "running": 1}, SECONDS)

    process.send_signal(signal.SIGTERM)

    assert process.wait(SECONDS) == 0, (tmp_path / "log").read_text()
    assert states(mill) == {"done": 2, "ready": 1}
