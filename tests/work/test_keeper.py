"""The upkeep of the fleet waits for those who were cut off."""

import asyncio
from typing import Any

import pytest

from rowmill.keep.keeper import Keeper
from rowmill.observe.events import Events
from rowmill.store import upkeep
from rowmill.store.port import Disconnected
from tests.work.shop import soon


class Flaky:
    """A store that is away for the first few calls; then it answers what makes its worker the leader."""

    def __init__(self, outage: int) -> None:
        self.left = outage
        self.calls = 0
        self.steady = asyncio.Event()

    async def run(self, work: Any, *, write: bool = True) -> Any:
        if self.left:
            self.left -= 1
            raise Disconnected("gone")
        self.calls += 1
        if self.calls > 20:
            self.steady.set()
        return {("paused", "queue")}


class Sweeps(Keeper):
    """Counts its sweeps."""

    swept = 0

    async def rescue(self) -> upkeep.Rescued:
        self.swept += 1
        return upkeep.Rescued()


@pytest.mark.parametrize(("outage", "sweeps"), [(0, 1), (3, 0)])
async def test_after_an_outage_those_who_live_get_the_time_to_renew_before_anyone_sweeps(
    outage: int, sweeps: int
) -> None:
    store: Any = Flaky(outage)
    keeper = Sweeps(store, 1, [], Events(), heartbeat=0.001, rescue_every=3600.0, rescue_most=1, keep_history=1.0)
    keeper._tidy_at = float("inf")
    task = asyncio.create_task(keeper.run())
    await soon(store.steady)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert keeper.swept == sweeps
