"""A task of Celery drains a queue."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded

import rowmill as rm
from rowmill.errors import DatabaseUnreachable, DeclarationError, SchemaMismatch
from rowmill.integrations.celery import drain_task
from rowmill.integrations.celery.siblings import siblings
from rowmill.operator.activity import workers
from tests.integrations.parcels import BEGUN_FILE, HOLD_FILE, make_mill, put, states
from tests.support.waiting import until

PASSWORD = "hunter2"


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says that a handler holds a row."""
    monkeypatch.setenv(BEGUN_FILE, str(tmp_path / "begun"))
    monkeypatch.setenv(HOLD_FILE, str(tmp_path / "go"))
    return tmp_path / "begun"


@pytest.fixture
def watcher(database_url: str) -> rm.Mill:
    """Another mill on the same database. A mill is open in one event loop at a time."""
    return make_mill(database_url)


def test_a_task_drains_a_queue_and_returns_counts(mill: rm.Mill, app: Celery) -> None:
    put(mill, "a", "b", "fail")
    drain = drain_task(app, mill, queue="parcel")

    counts = drain.apply().get()

    assert (counts["claimed"], counts["done"], counts["dead"]) == (3, 2, 1)
    assert json.loads(json.dumps(counts)) == counts
    assert states(mill) == {"done": 2, "dead": 1}
    assert drain.name == "drain_parcel"


def test_so_many_rows_and_the_rest_at_the_next_tick(mill: rm.Mill, app: Celery) -> None:
    put(mill, "a", "b", "c")
    drain = drain_task(app, mill, queue="parcel", rows=2)

    assert [drain()["done"] for _ in range(3)] == [2, 1, 0]


def test_a_tick_that_finds_nothing_registers_no_worker(mill: rm.Mill, app: Celery) -> None:
    drain = drain_task(app, mill)

    assert set(drain().values()) == {0}
    assert asyncio.run(mill.run(workers)) == []

    put(mill, "a", queue="label")
    assert drain()["done"] == 1
    assert len(asyncio.run(mill.run(workers))) == 1


def test_a_tick_that_comes_twice_finds_nothing_the_second_time(mill: rm.Mill, app: Celery) -> None:
    put(mill, "a", "b")
    drain = drain_task(app, mill, queue="parcel")

    assert [drain()["claimed"] for _ in range(2)] == [2, 0]
    assert states(mill) == {"done": 2}


@pytest.fixture
def holding(mill: rm.Mill, app: Celery, begun: Path) -> Iterator[Any]:
    """A task that drains, and holds a row in another thread."""
    put(mill, "hold")
    drain = drain_task(app, mill, queue="parcel", rows=1)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(drain()))
    thread.start()
    until(begun.exists)
    yield drain
    Path(os.environ[HOLD_FILE]).touch()
    thread.join()
    assert results[0]["done"] == 1


def test_a_tick_beside_a_drain_that_runs_is_skipped(holding: Any, watcher: rm.Mill) -> None:
    put(watcher, "a")
    assert holding() == {"skipped": 1}
    assert states(watcher) == {"ready": 1, "running": 1}


def test_drains_of_one_mill_run_beside_each_other_in_threads(
    holding: Any, mill: rm.Mill, app: Celery, watcher: rm.Mill
) -> None:
    put(watcher, "a")
    put(watcher, "b", queue="label")

    assert drain_task(app, mill, queue="label")()["done"] == 1
    assert drain_task(app, mill, queue="parcel", name="another", overlap=True)()["done"] == 1
    assert states(watcher) == {"done": 1, "running": 1}


def test_a_drain_ends_early_when_its_worker_shuts_down(
    mill: rm.Mill, app: Celery, begun: Path, watcher: rm.Mill
) -> None:
    put(mill, "a", "hold")
    drain = drain_task(app, mill, queue="parcel", seconds=None)

    def shut_down() -> None:
        until(begun.exists)
        until(lambda: states(watcher).get("done") == 1)
        siblings().shut_down(True)

    thread = threading.Thread(target=shut_down)
    thread.start()
    try:
        counts = drain()
    finally:
        thread.join()
        siblings().shut_down(False)
    assert (counts["claimed"], counts["done"]) == (2, 1)
    assert states(mill) == {"done": 1, "ready": 1}


def test_a_soft_time_limit_ends_a_drain_in_good_order(
    mill: rm.Mill, app: Celery, begun: Path, watcher: rm.Mill, caplog: pytest.LogCaptureFixture
) -> None:
    put(mill, "a", "hold")
    drain = drain_task(app, mill, queue="parcel", seconds=None)

    def limit(*_: object) -> None:
        raise SoftTimeLimitExceeded

    def interrupt() -> None:
        until(begun.exists)
        until(lambda: states(watcher).get("done") == 1)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, limit)  # as Celery does in a child of its pool
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(SoftTimeLimitExceeded):
            drain()
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert states(mill) == {"done": 1, "ready": 1}
    assert "interrupted by SoftTimeLimitExceeded" in caplog.text


def test_a_database_that_is_away_fails_the_task_in_one_line(app: Celery, caplog: pytest.LogCaptureFixture) -> None:
    drain = drain_task(app, make_mill(f"postgresql://shop:{PASSWORD}@127.0.0.1:1/shop"), queue="parcel")

    result = drain.apply()

    assert isinstance(result.result, DatabaseUnreachable)
    assert "127.0.0.1:1" in str(result.result)
    assert "the above exception" not in str(result.traceback).lower()
    assert PASSWORD not in f"{result.traceback} {result.result!r} {caplog.text}"
    assert [record.name for record in caplog.records if record.levelname == "ERROR"] == ["rowmill"]


def test_a_sqlite_file_that_is_missing_is_not_created(app: Celery, tmp_path: Path) -> None:
    drain = drain_task(app, lambda: make_mill(f"sqlite:///{tmp_path}/missing.db"), queue="parcel")

    with pytest.raises(SchemaMismatch, match="rowmill migrate"):
        drain()
    assert not (tmp_path / "missing.db").exists()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_mill_is_imported_by_the_first_tick(mill: rm.Mill, app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", mill.url.render_as_string(hide_password=False))
    put(mill, "a")
    assert drain_task(app, "tests.integrations.parcels:mill_of_environment", queue="parcel")()["done"] == 1


@pytest.mark.parametrize("source", ["shop", "shop:mill", lambda: None])
def test_what_is_no_mill_is_refused_by_the_first_tick(source: Any, app: Celery) -> None:
    drain = drain_task(app, source)
    with pytest.raises(DeclarationError, match="mill"):
        drain()
