"""A schedule every second on three processes that are killed: each tick has its effect exactly once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.schedules.fleet import Fleet
from tests.support.waiting import until


@pytest.fixture
def fleet(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(database_url, tmp_path, size=3, kill_every=4)
    fleet.prepare()
    try:
        yield fleet
    finally:
        fleet.stop()
        print((tmp_path / "log").read_text())


@pytest.mark.slow
def test_each_tick_has_its_effect_once_while_processes_are_killed(fleet: Fleet) -> None:
    killed = False

    def enough() -> bool:
        nonlocal killed
        fleet.fill()
        if not killed and len(fleet.effects()) >= 3:  # beside those that die inside a tick, one from outside
            fleet.kill_one()
            killed = True
        return len(fleet.effects()) >= 12

    until(enough)

    effects = fleet.effects()
    due = [at for at, _ in effects]
    assert due == list(range(due[0], due[0] + len(due))), "every second, once, in order"
    assert fleet.deaths >= 3
    assert any(attempt > 1 for _, attempt in effects), "none of those that were killed came to its effect"
    assert len(fleet.begun()) > len(effects)
