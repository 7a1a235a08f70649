"""What signals do to a worker process."""

import signal
from pathlib import Path

import pytest

from tests.faults.processes import yard_on
from tests.support.waiting import until

STOPPING = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])


@STOPPING
def test_the_first_signal_lets_handlers_finish(database_url: str, tmp_path: Path, number: signal.Signals) -> None:
    with yard_on(database_url, tmp_path) as yard:
        yard.put("hold effect", "hold effect")
        worker = yard.work()
        yard.until_begun(1, 2)
        worker.send(number)
        until(lambda: "stopping after" in worker.said())
        yard.go()

        assert worker.wait() == 0, worker.said()
        assert yard.states() == {"done": 2}
        assert yard.effects() == [1, 2]
        assert "done=2" in worker.said()


def test_handlers_that_outlive_the_grace_are_released_with_their_attempt(database_url: str, tmp_path: Path) -> None:
    with yard_on(database_url, tmp_path) as yard:
        yard.put("hold", "hold")
        worker = yard.work("--grace", "0.2")
        yard.until_begun(1, 2)
        worker.send(signal.SIGTERM)

        assert worker.wait() == 0, worker.said()
        assert {(row.state, row.attempts, row.lease) for row in yard.rows().values()} == {("ready", 0, None)}
        assert [call.what for call in yard.journal.calls()] == ["begin", "begin"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("title", ["hold", "block"])
def test_the_second_signal_leaves_at_once(
    sqlite_url: str, tmp_path: Path, number: signal.Signals, code: int, title: str
) -> None:
    """Even while a handler blocks the loop."""
    with yard_on(sqlite_url, tmp_path, lease=30.0) as yard:
        yard.put(title)
        worker = yard.work()
        yard.until_begun(1)
        worker.send(number)
        if title == "hold":
            until(lambda: "stopping after" in worker.said())
        else:
            until(lambda: not pending(worker.pid))
        worker.send(number)

        assert worker.wait() == code, worker.said()
        [row] = yard.rows().values()
        assert (row.state, row.attempts) == ("running", 1), "nothing is written: it comes back by its lease"


def pending(pid: int) -> bool:
    """Does a signal wait to be delivered to this process?"""
    status = Path(f"/proc/{pid}/status").read_text()
    return any(int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd:", "ShdPnd:")))


def test_an_idle_worker_leaves_on_the_first_signal(database_url: str, tmp_path: Path) -> None:
    with yard_on(database_url, tmp_path) as yard:
        worker = yard.work(ROWMILL_POLL_BASE="60", ROWMILL_POLL_MAX="60")
        until(lambda: "works on job/work" in worker.said())
        worker.send(signal.SIGTERM)

        assert worker.wait() == 0, worker.said()


def test_a_drain_that_is_told_to_stop_says_what_it_did(sqlite_url: str, tmp_path: Path) -> None:
    with yard_on(sqlite_url, tmp_path) as yard:
        yard.put("", "", "hold")
        worker = yard.work("--json", "--grace", "0.1", command="drain")
        yard.until_begun(1, 2, 3)
        worker.send(signal.SIGTERM)

        assert worker.wait() == 143, worker.said()
        assert '"done": 2' in worker.said()
        assert yard.states() == {"done": 2, "ready": 1}


@pytest.mark.parametrize("kind", ["thread", "task"])
def test_a_worker_that_breaks_does_not_wait_for_handlers_that_never_end(
    sqlite_url: str, tmp_path: Path, kind: str
) -> None:
    """A process that lives on and does nothing would never be replaced."""
    with yard_on(sqlite_url, tmp_path) as yard:
        yard.put("ignore")
        worker = yard.work(FAULTS_HANDLER=kind)
        yard.until_begun(1)
        yard.do(lambda connection: connection.exec_driver_sql("ALTER TABLE job RENAME TO elsewhere").close())

        assert worker.wait() == 1, worker.said()
        assert "rowmill: queue job" in worker.said()
        assert "leaving 1 handlers behind that did not end" in worker.said()


def test_a_worker_that_breaks_says_where(sqlite_url: str, tmp_path: Path) -> None:
    """Nobody can make it happen again with --debug. Places in the code, and no values."""
    with yard_on(sqlite_url, tmp_path) as yard:
        yard.put("break")
        worker = yard.work()

        assert worker.wait() == 1, worker.said()
        assert "rowmill: unexpected TypeError" in worker.said()
        assert "in _claim" in worker.said()
        assert "NoneType" not in worker.said()


@pytest.mark.parametrize("command", ["work", "drain"])
def test_a_handler_that_raises_keyboard_interrupt_ends_its_process_cleanly(
    sqlite_url: str, tmp_path: Path, command: str
) -> None:
    """Exit code and log as after Ctrl-C. Only its own row has spent an attempt."""
    with yard_on(sqlite_url, tmp_path) as yard:
        yard.put("interrupt", *["hold"] * 3)
        worker = yard.work(command=command, ROWMILL_GRACE="0")

        assert worker.wait() == 130, worker.said()
        assert "Traceback" not in worker.said()
        rows = yard.rows()
        assert {key: (row.state, row.attempts, row.lease) for key, row in rows.items()} == {
            1: ("ready", 1, None), 2: ("ready", 0, None), 3: ("ready", 0, None), 4: ("ready", 0, None)
        }  # fmt: skip
        assert rows[1].error == "KeyboardInterrupt"
