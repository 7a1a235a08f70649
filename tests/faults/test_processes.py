"""`rowmill work --processes N`: started fresh, watched, started again when they die, and gone when we are."""

import signal
from pathlib import Path

import psutil
import pytest

from rowmill.cli.supervisor import Backoff
from tests.faults.processes import Worker, Yard, family, until, yard_on


def children(supervisor: Worker, count: int) -> list[psutil.Process]:
    """The processes, once there are so many."""
    found: list[psutil.Process] = until(
        lambda: found if len(found := family(supervisor.pid)) == count else None,
    )
    return found


def up(yard: Yard, supervisor: Worker, count: int) -> list[psutil.Process]:
    """The processes, once so many are at work."""
    until(lambda: supervisor.said().count("works on job/work") >= count)
    return children(supervisor, count)


def gone(processes: list[psutil.Process]) -> bool:
    return all(not process.is_running() or process.status() == psutil.STATUS_ZOMBIE for process in processes)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_passed_on_and_all_finish(sqlite_url: str, tmp_path: Path, number: signal.Signals) -> None:
    with yard_on(sqlite_url, tmp_path, lease=30.0) as yard:
        supervisor = yard.work("--processes", "2", FAULTS_CONCURRENCY="2")
        both = up(yard, supervisor, 2)
        yard.put(*["hold effect"] * 4)
        yard.until_begun(1, 2, 3, 4)
        supervisor.send(number)
        until(lambda: supervisor.said().count("stopping after") == 2)
        yard.go()

        assert supervisor.wait() == 0, supervisor.said()
        assert gone(both)
        assert len({call.pid for call in yard.journal.calls()}) == 2, "both had a share"
        assert yard.states() == {"done": 4}
        assert "Traceback" not in supervisor.said()


def test_a_process_that_dies_is_started_again(sqlite_url: str, tmp_path: Path) -> None:
    with yard_on(sqlite_url, tmp_path) as yard:
        supervisor = yard.work("--processes", "2")
        victim, other = up(yard, supervisor, 2)
        victim.kill()
        after = until(lambda: now if len(now := family(supervisor.pid)) == 2 and victim not in now else None)

        assert other in after
        until(lambda: supervisor.said().count("works on job/work") == 3)
        assert f"(pid {victim.pid}) was killed by SIGKILL; a new one starts in" in supervisor.said()


def test_a_second_signal_ends_all_at_once(sqlite_url: str, tmp_path: Path) -> None:
    with yard_on(sqlite_url, tmp_path, lease=30.0) as yard:
        yard.put("hold")
        supervisor = yard.work("--processes", "2")
        both = up(yard, supervisor, 2)
        yard.until_begun(1)
        supervisor.send(signal.SIGTERM)
        until(lambda: "stopping after" in supervisor.said())
        supervisor.send(signal.SIGTERM)

        assert supervisor.wait() == 143
        until(lambda: gone(both))


def test_a_killed_supervisor_leaves_no_process_behind(sqlite_url: str, tmp_path: Path) -> None:
    """They finish what they are at, within the grace period, and leave."""
    with yard_on(sqlite_url, tmp_path, lease=30.0) as yard:
        yard.put("hold effect")
        supervisor = yard.work("--processes", "2")
        both = up(yard, supervisor, 2)
        yard.until_begun(1)
        supervisor.send(signal.SIGKILL)
        supervisor.wait()
        until(lambda: "stopping after SIGTERM" in supervisor.said())
        yard.go()
        until(lambda: gone(both))

        assert yard.states() == {"done": 1}


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_database_that_is_not_there_is_said_with_the_fix(tmp_path: Path, sqlite_url: str, processes: str) -> None:
    with yard_on(sqlite_url, tmp_path) as yard:
        nowhere = "postgresql://nobody@127.0.0.1:1/nothing"
        worker = yard.work("--processes", processes, ROWMILL_DATABASE_URL=nowhere)

        assert worker.wait() == 3, worker.said()
        assert "does not answer" in worker.said()
        assert "DATABASE_URL" in worker.said()
        assert "Traceback" not in worker.said()


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_database_without_our_tables_is_said_with_the_fix(tmp_path: Path, sqlite_url: str, processes: str) -> None:
    with yard_on(sqlite_url, tmp_path) as yard:
        empty = f"sqlite:///{tmp_path / 'empty.db'}"
        worker = yard.work("--processes", processes, "--database-url", empty)

        assert worker.wait() == 4, worker.said()
        assert "Run: rowmill migrate" in worker.said()


def test_waits_grow_while_processes_die_young_and_are_short_again_after_a_life() -> None:
    backoff = Backoff(base=1.0, cap=8.0, long_life=10.0)
    waits = [backoff.after(lived=0.1) for _ in range(6)]

    assert all(0.75 * n <= wait <= 1.25 * n for n, wait in zip([1, 2, 4, 8, 8, 8], waits, strict=True))
    assert backoff.after(lived=11.0) <= 1.25
