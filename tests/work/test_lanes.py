"""Verdicts of one queue on their way to the database."""

import asyncio
from collections.abc import Sequence
from typing import Any

from rowmill.model.judge import Verdict
from rowmill.model.lifecycle import DONE
from rowmill.observe.events import Events
from rowmill.store.port import Delay, Settled
from rowmill.worker.byte_budget import ByteBudget
from rowmill.worker.changed_rows import ChangedRows
from rowmill.worker.in_flight import InFlight
from rowmill.worker.report import Report
from rowmill.worker.settler import Settler
from tests.unit.model.examples import lease


class Delaying:
    """A store that delays every verdict, and lets a second try hang."""

    def __init__(self) -> None:
        self.delay = Delay.LOCKED
        self.tries = 0
        self.hanging, self.go_on = asyncio.Event(), asyncio.Event()

    async def settle(self, verdicts: Sequence[Verdict], *, skip_locked: bool) -> Settled:
        self.tries += 1
        if self.tries > 1:
            self.hanging.set()
            await self.go_on.wait()
        return Settled(delayed=[(verdict, self.delay) for verdict in verdicts])


def settler_on(store: Any) -> Settler:
    events = Events()
    return Settler(store, InFlight(ByteBudget(1000)), Report(), events, lambda: 0.0, ChangedRows(events, strict=False))


async def test_what_is_tried_again_is_not_taken_for_written() -> None:
    """Neither at shutdown, nor in what is reported."""
    store = Delaying()
    settler = settler_on(store)
    settler.put(Verdict(lease(), DONE))
    running = asyncio.create_task(settler.run())
    async with asyncio.timeout(30):
        await store.hanging.wait()
    assert not settler.idle
    assert await settler.finish(0.2) is False
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_verdict_is_given_up_after_tries_of_its_own() -> None:
    store = Delaying()
    store.delay = Delay.TIMEOUT
    store.go_on.set()
    settler = settler_on(store)
    first, lane = Verdict(lease(), DONE, values={"result": "x"}), settler.lane("job")
    given_up: list[str] = []
    settler.refuse = lambda verdict, reason, code="": given_up.append(code)  # type: ignore[method-assign]
    lane.put(first)
    await lane.flush()
    await lane.flush_delayed()
    assert given_up == []
    lane.put(Verdict(lease(), DONE))
    await lane.flush()
    assert given_up == [], "the tries of another one do not count"
    await lane.flush_delayed()
    assert given_up == ["settle_timeout"]


class Locked:
    """A store that finds the row of the first settle locked, and holds up the second one while it is tried again."""

    def __init__(self) -> None:
        self.settled: list[Verdict] = []
        self.tries = 0
        self.second, self.go_on = asyncio.Event(), asyncio.Event()

    async def settle(self, verdicts: Sequence[Verdict], *, skip_locked: bool) -> Settled:
        self.tries += 1
        if self.tries == 1:
            return Settled(delayed=[(verdict, Delay.LOCKED) for verdict in verdicts])
        if self.tries == 2:
            self.second.set()
            await self.go_on.wait()
        self.settled += verdicts
        return Settled(kept=len(verdicts))


async def test_what_was_written_beside_a_slow_settle_is_not_written_again() -> None:
    store = Locked()
    settler = settler_on(store)
    lane = settler.lane("job")
    first, second = Verdict(lease(), DONE), Verdict(lease(), DONE)
    lane.put(first)
    await lane.flush()
    lane.put(second)
    slow = asyncio.create_task(lane.flush())
    async with asyncio.timeout(30):
        await store.second.wait()
    await lane.flush_delayed()
    store.go_on.set()
    await slow
    await lane.finish()
    assert [id(verdict) for verdict in store.settled] == [id(first), id(second)]
