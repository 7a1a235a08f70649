"""`rowmill work --processes N`: started fresh, watched, started again when they die, and gone when we are."""

import signal
from pathlib import Path

import psutil
import pytest

from rowmill.cli.supervisor import Backoff
from tests.faults.processes import Worker, Yard, family, yard_on
from tests.faults.test_signals import pending
from tests.support.python import Python
from tests.support.waiting import until


def children(supervisor: Worker, count: int) -> list[psutil.Process]:
    """The processes, once there are so many."""
    return until(lambda: found if len(found := family(supervisor.pid)) == count else None)


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


def test_a_signal_that_reaches_all_of_them_at_once_lets_all_finish(sqlite_url: str, tmp_path: Path) -> None:
    """As service managers send it. What the supervisor then passes on is not a second signal."""
    with yard_on(sqlite_url, tmp_path, lease=30.0) as yard:
        supervisor = yard.work("--processes", "2", FAULTS_CONCURRENCY="2")
        both = up(yard, supervisor, 2)
        yard.put(*["hold effect"] * 4)
        yard.until_begun(1, 2, 3, 4)
        for process in both:
            process.send_signal(signal.SIGTERM)
        until(lambda: supervisor.said().count("stopping after") == 2)
        supervisor.send(signal.SIGTERM)
        until(lambda: not pending(supervisor.pid))
        until(lambda: not any(pending(process.pid) for process in both))
        yard.go()

        assert supervisor.wait() == 0, supervisor.said()
        assert yard.states() == {"done": 4}


def test_a_process_that_ends_without_being_told_is_started_again(sqlite_url: str, tmp_path: Path) -> None:
    """However well it ended: otherwise there would be fewer and fewer of them, and nobody would know."""
    with yard_on(sqlite_url, tmp_path) as yard:
        supervisor = yard.work("--processes", "2")
        victim, other = up(yard, supervisor, 2)
        victim.send_signal(signal.SIGTERM)
        after = until(lambda: now if len(now := family(supervisor.pid)) == 2 and victim not in now else None)

        assert other in after
        assert f"(pid {victim.pid}) ended with code 0; a new one starts in" in supervisor.said()


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


def test_a_process_that_can_not_be_started_is_tried_again_and_costs_no_other(tmp_path: Path) -> None:
    """Its program may be away for a moment, as while a new version is put in its place; or there is no memory."""
    program, away, log = tmp_path / "program", tmp_path / "away", tmp_path / "log"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    code = f"import logging, sys; from rowmill.cli.supervisor import Supervisor; logging.basicConfig(); \
        sys.exit(Supervisor([{str(program)!r}], 2).run())"
    with log.open("wb") as errors:
        supervisor = Worker(Python("-c", code, stderr=errors), log)
    try:
        victim, other = children(supervisor, 2)
        until(lambda: [victim.name(), other.name()] == ["sleep", "sleep"])
        program.rename(away)
        victim.kill()
        until(lambda: "can't be started (FileNotFoundError)" in supervisor.said())
        away.rename(program)

        assert other in children(supervisor, 2)
        supervisor.send(signal.SIGTERM)
        assert supervisor.wait() == 0, supervisor.said()
    finally:
        for process in family(supervisor.pid):
            process.kill()
        supervisor.process.kill()
        supervisor.wait()
