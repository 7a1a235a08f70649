"""A process that is frozen between a permit and the call that it is for does not call by it when it goes on."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.limits.fleet import fleet_on
from tests.limits.frozen import STOPPED, WAY, WAYS
from tests.support.waiting import until

CALLS, PER, MARGIN = 4, 2.0, 2.0


def is_stopped(pid: int) -> bool:
    """By what the kernel says of all of its threads."""
    states = [stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


@pytest.mark.parametrize("way", WAYS)
def test_a_permit_from_before_a_freeze_is_not_used(database_url: str, way: str, tmp_path: Path) -> None:
    """It would be a call too many: the permits of the window in which the process goes on are all used as well."""
    stopped = tmp_path / "stopped"
    environment = {WAY: way, STOPPED: str(stopped)}
    with fleet_on(
        database_url, f"rate:{CALLS}/{PER}/{MARGIN}", 40, app="tests.limits.frozen:mill", **environment
    ) as fleet:
        fleet.start()
        [process] = fleet.processes
        until(lambda: stopped.exists() and is_stopped(process.pid))
        before = len(fleet.provider.arrivals)
        time.sleep(PER + MARGIN)  # until what was granted is counted no more
        assert len(fleet.provider.arrivals) == before
        os.kill(process.pid, signal.SIGCONT)
        until(lambda: len(fleet.provider.arrivals) >= before + 2 * CALLS)
        assert fleet.provider.most_within(PER) <= CALLS
        assert fleet.failures() == 0
