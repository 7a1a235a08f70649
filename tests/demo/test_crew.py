"""The demo's worker processes, on a table without rows, so that nothing but the demo can end them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa

from rowmill.demo.companies import Company
from rowmill.demo.crew import Condition, Crew, WorkerBroke
from rowmill.demo.fate import Fates
from rowmill.demo.stage import set_up

PARENT = """
import asyncio, sys, time
from tests.demo.test_crew import idle_crew

async def main():
    async for crew in idle_crew(sys.argv[1]):
        crew.places[0].halt()
        print(*(member.pid for member in crew.places), flush=True)
        time.sleep(600)

asyncio.run(main())
"""


async def idle_crew(url: str, say: Callable[[str], None] = print) -> AsyncIterator[Crew]:
    """Two workers that have signed up and found nothing to do."""
    fates = Fates(200, 1)
    async with set_up(url, fates, keep=False) as stage:
        await stage.queue.mill.run(lambda c: c.execute(sa.delete(Company)).close())
        crew = Crew(stage.url, fates, stage.folder, 2, say)
        try:
            crew.start()
            until(crew, lambda: len(crew.working()) == 2)
            yield crew
        finally:
            crew.end()


def until(crew: Crew, true: Callable[[], bool]) -> None:
    """Look after the crew until something is true of it; the time-out of the tests ends it otherwise."""
    crew.look()
    while not true():
        time.sleep(0.01)
        crew.look()


@pytest.fixture
async def crew(sqlite_url: str, said: list[str]) -> AsyncIterator[Crew]:
    async for crew in idle_crew(sqlite_url, said.append):
        yield crew


@pytest.fixture
def said() -> list[str]:
    return []


def test_whoever_kills_the_demo_ends_its_workers_too_even_a_frozen_one(sqlite_url: str, tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, sqlite_url],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"TMPDIR": str(tmp_path)},  # killed, it can't remove its folder
    )
    with parent:
        assert parent.stdout is not None
        workers = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        assert [worker.status() == psutil.STATUS_STOPPED for worker in workers] == [True, False]

        parent.kill()
    _, left = psutil.wait_procs(workers, timeout=20)
    for worker in left:
        worker.kill()

    assert left == []


async def test_a_worker_that_was_killed_is_replaced(crew: Crew) -> None:
    first = crew.places[0]
    first.kill()
    assert first.condition is Condition.DEAD

    crew.look()

    assert crew.places[0] is not first
    assert crew.places[0].place == first.place
    assert len(crew.ever) == 3


async def test_a_halted_worker_stands_still_until_it_may_go_on(crew: Crew) -> None:
    member = crew.places[0]
    process = psutil.Process(member.pid)

    assert member.halt()
    assert process.status() == psutil.STATUS_STOPPED
    assert (member.condition, member in crew.working()) == (Condition.FROZEN, False)

    member.go_on()
    assert (member.condition, member in crew.working()) == (Condition.WORKING, True)
    assert process.status() != psutil.STATUS_STOPPED


async def test_a_dead_worker_can_not_be_halted(crew: Crew) -> None:
    crew.places[0].kill()

    assert not crew.places[0].halt()


async def test_a_worker_that_breaks_by_itself_ends_the_demo_and_says_why(crew: Crew) -> None:
    member = crew.places[0]
    member.process.send_signal(signal.SIGTERM)
    member.process.wait()

    with pytest.raises(WorkerBroke, match="worker 1 ended with code 0: it said nothing"):
        crew.look()


async def test_workers_that_are_asked_to_leave_do(crew: Crew, said: list[str]) -> None:
    crew.stop()

    assert [member.process.returncode for member in crew.places] == [0, 0]
    assert said == []


async def test_at_the_end_no_process_is_left_frozen_or_not(crew: Crew) -> None:
    crew.places[0].halt()
    crew.end()
    crew.end()

    assert [member.process.returncode for member in crew.places] == [-signal.SIGKILL] * 2
