"""Nothing is left of the lab, however it ends: no process, and no folder unless it was killed outright."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from faults.scenarios.commits import without_signals
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
LAB = (sys.executable, "-m", "faults", "--only", "killed inside", "--store", "sqlite", "--seconds", "300")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def session(leader: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, _group, of, *_ = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(of) == leader and state != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left(by: signal.Signals, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    # A shell's background job ignores SIGINT, and so would all that it starts.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        lab = subprocess.Popen(
            LAB, cwd=ROOT, env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    finally:
        signal.signal(signal.SIGINT, former)
    try:
        until(lambda: len(list(tmp_path.glob("*/churn-*.ledger"))) > 3)
        lab.send_signal(by)
        lab.wait(60)
        until(lambda: not session(lab.pid))
        if by is not signal.SIGKILL:
            assert not list(tmp_path.iterdir())
    finally:
        for process in session(lab.pid):
            os.kill(process, signal.SIGKILL)


def test_who_ends_the_lab_waits_while_processes_come_and_go() -> None:
    """What a signal raises in the middle of a fork, Python drops."""
    seen = []

    def end(*_: object) -> None:
        seen.append("end")

    former = signal.signal(signal.SIGTERM, end)
    try:
        with without_signals():
            os.kill(os.getpid(), signal.SIGTERM)
            seen.append("whole")
    finally:
        signal.signal(signal.SIGTERM, former)
    assert seen == ["whole", "end"]
