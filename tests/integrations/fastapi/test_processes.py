"""An application under uvicorn, as processes that are stopped and killed."""

import asyncio
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest
import sqlalchemy as sa

import rowmill as rm
from tests.integrations.fastapi.app import Job, make_mill
from tests.support.python import ROOT, Python
from tests.support.waiting import until

ADDRESS = re.compile(r"running on (http://[\d.:]+)")


class ServerProcess:
    """uvicorn, with what it says."""

    def __init__(self, process: Python, log: Path) -> None:
        self.process, self.log = process, log
        self.url = until(lambda: ADDRESS.search(log.read_text()))[1]

    def get(self, path: str) -> Any:
        return httpx2.get(self.url + path, trust_env=False, timeout=30, verify=False)

    def healthy(self) -> bool:
        try:
            return bool(self.get("/health").status_code == 200)
        except httpx2.TransportError:
            return False


@contextmanager
def server(database_url: str, folder: Path, *options: str, **environment: str) -> Iterator[ServerProcess]:
    log = folder / f"log {len(list(folder.iterdir()))}"
    given = {**os.environ, "DATABASE_URL": database_url, "FOLDER": str(folder), **environment}
    with log.open("wb") as output:
        process = Python(
            "-m", "uvicorn", "tests.integrations.fastapi.app:app", "--port", "0", *options,
            env=given, cwd=ROOT, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        yield ServerProcess(process, log)
    finally:
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.kill()
        process.wait(30)
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()


@pytest.fixture
def mill(database_url: str) -> rm.Mill:
    mill = make_mill(database_url)
    asyncio.run(mill.migrate(tables=True))
    return mill


def insert(mill: rm.Mill, *whats: str) -> None:
    rows = [{"what": what} for what in whats]
    asyncio.run(mill.run(lambda connection: connection.execute(mill["job"].insert(rows)).close()))


def rows(mill: rm.Mill) -> list[Any]:
    table = Job.__table__
    return list(asyncio.run(mill.run(lambda c: c.execute(sa.select(table).order_by(table.c.id)).all(), write=False)))


def test_at_sigterm_a_handler_finishes_and_what_waits_stays(mill: rm.Mill, database_url: str, tmp_path: Path) -> None:
    with server(database_url, tmp_path) as served:
        until(served.healthy)
        insert(mill, "wait a")
        until((tmp_path / "a began").exists)
        assert served.get("/pid").json() == served.process.pid, "a handler that blocks its thread holds up no request"
        served.process.send_signal(signal.SIGTERM)
        until(lambda: "Waiting for application shutdown" in served.log.read_text())
        (tmp_path / "a").touch()
        served.process.wait(30)
        assert "Application shutdown complete" in served.log.read_text()
    assert [(row.state, row.attempts) for row in rows(mill)] == [("done", 1)]


def test_a_handler_that_outlasts_the_grace_period_gives_its_row_back(
    mill: rm.Mill, database_url: str, tmp_path: Path
) -> None:
    with server(database_url, tmp_path, GRACE="0.2") as served:
        until(served.healthy)
        insert(mill, "wait a")
        until((tmp_path / "a began").exists)
        served.process.send_signal(signal.SIGTERM)
        until(lambda: rows(mill)[0].state == "ready")
        assert rows(mill)[0].attempts == 0
        (tmp_path / "a").touch()
        served.process.wait(30)
    assert rows(mill)[0].state == "ready"


def test_after_kill_9_another_process_takes_the_row(mill: rm.Mill, database_url: str, tmp_path: Path) -> None:
    with server(database_url, tmp_path) as killed:
        until(killed.healthy)
        insert(mill, "wait a")
        until((tmp_path / "a began").exists)
        killed.process.kill()
        killed.process.wait(30)
        assert not killed.healthy()
        assert rows(mill)[0].state == "running"
        (tmp_path / "a").touch()
        with server(database_url, tmp_path) as following:
            until(lambda: rows(mill)[0].state == "done")
            [row] = rows(mill)
            assert (row.attempts, row.pid) == (2, following.process.pid)


def test_each_process_of_the_server_has_a_worker(pg_url: str, tmp_path: Path) -> None:
    mill = make_mill(pg_url)
    asyncio.run(mill.migrate(tables=True))
    with server(pg_url, tmp_path, "--workers", "2") as served:
        until(served.healthy)
        insert(mill, *(f"wait {n}" for n in range(4)))  # each process takes two at a time
        until(lambda: len(list(tmp_path.glob("* began"))) == 4)
        for n in range(4):
            (tmp_path / str(n)).touch()
        until(lambda: all(row.state == "done" for row in rows(mill)))
        assert len({row.pid for row in rows(mill)}) == 2
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(30)
