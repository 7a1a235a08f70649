"""Real processes within limits, and a provider that counts."""

from functools import partial

import pytest

from tests.limits.app import CRASHED, LEASE
from tests.limits.fleet import fleet_on
from tests.support.waiting import until


def test_four_processes_never_call_more_often_than_the_rate_allows(database_url: str) -> None:
    with fleet_on(database_url, "rate:20/2/1.6", 200) as fleet:
        fleet.start(4)
        until(lambda: len(fleet.provider.arrivals) >= 70)
        assert fleet.provider.most_within(2.0) <= 20
        assert fleet.failures() == 0
        assert fleet.states().keys() <= {"ready", "running", "done"}


@pytest.mark.parametrize("crashed", ["spent", "back"])
def test_a_budget_is_kept_to_while_processes_are_killed(database_url: str, crashed: str) -> None:
    with fleet_on(database_url, "budget:100", 160, **{CRASHED: crashed}) as fleet:
        fleet.start(3)
        for calls in (20, 40, 60):
            until(partial(fleet.called, calls))
            assert sum(fleet.budget()) <= 100
            fleet.kill()
            assert fleet.kept_for() <= LEASE, "what a dead process had is free after its lease"
            fleet.start()
        until(lambda: fleet.budget() == (100, 0))
        until(lambda: fleet.states().keys() == {"done", "ready"})
        assert fleet.done() <= set(fleet.provider.paths), "nothing is done without its call"
        assert 0 < len(fleet.done()) <= 100, "the rest waits for another month"
        if crashed == "spent":
            assert len(fleet.provider.arrivals) <= 100
