"""An idle worker is quiet: it asks the database no more than its polling and its signs of life say."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from rowmill.store.sqlite.store import SqliteStore
from rowmill_systems.intake.settings import HEARTBEAT_SECONDS
from systems.tests.intake.harness import FakeAnalyzer, IntakeHarness, intake_on
from tests.support.proxy import proxy_to

POLL = 1.0
WINDOW = 4.0
SHORTEST = 0.75
"""Of a wait, after its random spread."""


@asynccontextmanager
async def idle(harness: IntakeHarness) -> AsyncIterator[None]:
    """A worker that found nothing, for the time of the block. Its first sweep is over: the next comes in a minute."""
    async with harness.mill.worker() as worker:
        running = asyncio.create_task(worker.run())
        [station] = worker.stages
        while station._empty_at < 0 or not harness.mill._upkeeps[0].leading:
            await asyncio.sleep(0.05)
        await asyncio.sleep(1.0)  # its first sweep, and the second look of a sleeper
        try:
            yield
        finally:
            worker.stop()
            await running


async def counted(seen: Callable[[], int]) -> tuple[int, float]:
    """How many statements came within the window, and how many seconds it was long."""
    loop = asyncio.get_running_loop()
    before, began = seen(), loop.time()
    await asyncio.sleep(WINDOW)
    return seen() - before, loop.time() - began


def looks(seconds: float, every: float) -> int:
    """The most looks within so many seconds."""
    return int(seconds / (every * SHORTEST)) + 1


def upkeep(seconds: float) -> int:
    """Statements of sweeps, once a minute, where the window was long for want of CPU."""
    return 60 * int(seconds / 45)


async def test_an_idle_worker_sends_one_statement_a_heartbeat_and_two_a_look(pg_url: str, tmp_path: Path) -> None:
    """F10."""
    polling = {"worker_poll_base_seconds": POLL, "worker_poll_max_seconds": POLL}
    async with (
        proxy_to(pg_url) as (proxy, url),
        intake_on(url, tmp_path, FakeAnalyzer(), **polling) as harness,
        idle(harness),
    ):
        sent, seconds = await counted(lambda: len(proxy.executed))
    expected = looks(seconds, HEARTBEAT_SECONDS) + 2 * looks(seconds, POLL)
    assert sent <= expected + upkeep(seconds), proxy.executed[-sent:]


async def test_an_idle_worker_on_a_file_looks_when_somebody_wrote(sqlite_url: str, tmp_path: Path) -> None:
    """F10: each sign of life is a write, after which it looks once."""
    seen: list[str] = []
    async with intake_on(
        sqlite_url, tmp_path, FakeAnalyzer(), worker_poll_base_seconds=POLL, worker_poll_max_seconds=POLL
    ) as harness:
        store = harness.mill.store
        assert isinstance(store, SqliteStore)
        sa.event.listen(
            store.engine.sync_engine, "before_cursor_execute", lambda *given: seen.append(given[2]), named=False
        )
        async with idle(harness):
            await store.writer.write(lambda connection: connection.set_trace_callback(seen.append))
            sent, seconds = await counted(lambda: len(seen))
    beats = looks(seconds, HEARTBEAT_SECONDS)
    assert sent <= 6 * beats + 6 * (looks(seconds, POLL) + beats) + upkeep(seconds), seen[-sent:]


@pytest.mark.parametrize("chance", [0.0, 0.999])
async def test_no_wait_is_longer_than_the_ceiling(
    sqlite_url: str, tmp_path: Path, chance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F10: its random spread included."""
    waits: list[float] = []
    monkeypatch.setattr(random, "random", lambda: chance)
    async with intake_on(
        sqlite_url, tmp_path, FakeAnalyzer(), worker_poll_base_seconds=0.01, worker_poll_max_seconds=0.02
    ) as harness:

        async def wait(queues: object, seconds: float, who: object = None) -> None:
            waits.append(seconds)
            await asyncio.sleep(seconds)

        monkeypatch.setattr(harness.mill.store, "wait", wait)
        async with harness.mill.worker() as worker:
            running = asyncio.create_task(worker.run())
            while len(waits) < 10:
                await asyncio.sleep(0.01)
            worker.stop()
            await running
    assert max(waits) <= 0.02
