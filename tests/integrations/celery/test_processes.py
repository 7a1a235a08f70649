"""A worker and a beat of Celery as processes: doubled ticks, a warm shutdown, a worker that is killed."""

import asyncio
import importlib.util
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

import rowmill as rm
from tests.integrations.celery.shop import BROKER, FOLDER
from tests.integrations.parcels import BEGUN_FILE, HOLD_FILE, put, states
from tests.support.celery_processes import SECONDS, CeleryProcesses, celery_processes, kill
from tests.support.waiting import until


@pytest.fixture
def processes(database_url: str, tmp_path: Path) -> Iterator[CeleryProcesses]:
    folder = tmp_path / "broker"
    folder.mkdir()
    files = {BEGUN_FILE: str(tmp_path / "begun"), HOLD_FILE: str(tmp_path / "go"), FOLDER: str(folder)}
    app = "tests.integrations.celery.shop"
    with celery_processes(app, tmp_path, DATABASE_URL=database_url, **files) as processes:
        yield processes


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """The address of a Redis of this test."""
    socket = tmp_path / "redis.sock"
    server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", str(socket), "--dir", str(tmp_path)])
    try:
        until(socket.exists, SECONDS)
        yield f"redis+socket://{socket}"
    finally:
        server.terminate()
        server.wait(SECONDS)


def claims(mill: rm.Mill) -> dict[str, int]:
    """How often each row was claimed, by its title."""
    table = mill["parcel"].table
    found = sa.select(table.c.title, table.c.attempts)
    return asyncio.run(mill.run(lambda c: {row.title: row.attempts for row in c.execute(found)}, write=False))


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_two_beats_and_a_worker_that_is_killed_in_the_middle_of_a_drain(
    mill: rm.Mill, processes: CeleryProcesses, tmp_path: Path
) -> None:
    put(mill, "a", "hold", "b")
    first = processes.worker("prefork", "--beat")
    processes.beat("second")
    until(lambda: states(mill) == {"done": 2, "running": 1}, SECONDS)
    # A tick that another child of the pool takes while the first one drains.
    until(lambda: "'skipped': 1" in processes.log.read_text(), SECONDS)
    kill(first)
    assert states(mill) == {"done": 2, "running": 1}

    (tmp_path / "go").touch()
    processes.worker("solo")
    until(lambda: states(mill) == {"done": 3}, SECONDS)
    assert claims(mill) == {"a": 1, "b": 1, "hold": 2}


@pytest.mark.parametrize(
    ("pool", "database_url"), [("prefork", "postgres"), ("solo", "sqlite")], indirect=["database_url"]
)
def test_a_warm_shutdown_loses_nothing(mill: rm.Mill, processes: CeleryProcesses, pool: str) -> None:
    put(mill, "a", "hold", "b")
    process = processes.worker(pool)
    processes.beat()
    until(lambda: states(mill) == {"done": 2, "running": 1}, SECONDS)

    process.send_signal(signal.SIGTERM)

    assert process.wait(SECONDS) == 0, processes.log.read_text()
    assert states(mill) == {"done": 2, "ready": 1}


@pytest.mark.skipif(
    shutil.which("redis-server") is None, reason="no redis-server. Install it: apt install redis-server"
)
@pytest.mark.skipif(
    importlib.util.find_spec("redis") is None, reason="no client of Redis. Install it: pip install 'celery[redis]'"
)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_ticks_come_by_redis(mill: rm.Mill, redis_url: str, tmp_path: Path) -> None:
    environment = {"DATABASE_URL": mill.url.render_as_string(hide_password=False), BROKER: redis_url}
    with celery_processes("tests.integrations.celery.shop", tmp_path, **environment) as processes:
        put(mill, "a", "b")
        processes.worker("prefork", "--beat")
        until(lambda: states(mill) == {"done": 2}, SECONDS)
