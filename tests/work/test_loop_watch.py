"""A handler that blocks the event loop is noticed, and named."""

import asyncio
import functools
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from rowmill import Lease
from rowmill.worker import loop_watch
from rowmill.worker.loop_watch import code_of
from tests.work.shop import SECONDS, shop_on, until


class Blocked(logging.Handler):
    """Hears in the log, from whichever thread, that one function blocked the loop. On a busy machine others may too,
    by the short times of these tests."""

    def __init__(self) -> None:
        super().__init__()
        self.function = ""
        self.lines: list[dict[str, Any]] = []
        self.heard = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple) and record.args[:1] == ("loop_blocked",):
            fields = record.__dict__["rowmill"]
            if fields["handler"].endswith(self.function):
                self.lines.append(fields)
                self.heard.set()


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Blocked]:
    monkeypatch.setattr(loop_watch, "EVERY", 0.01)
    monkeypatch.setattr(loop_watch, "BLOCKED", 0.05)
    monkeypatch.setattr(loop_watch, "STILL", 0.1)
    monkeypatch.setattr(loop_watch, "FROZEN", 3600.0)
    found, log = Blocked(), logging.getLogger("rowmill")
    log.addHandler(found)
    yield found
    log.removeHandler(found)


async def test_a_handler_that_sleeps_on_the_loop_is_named_while_it_does_and_when_it_ends(
    database_url: str, blocked: Blocked
) -> None:
    blocked.function = "careless"
    async with shop_on(database_url) as shop:

        def ended() -> list[Mapping[str, Any]]:
            return [fields for fields in shop.named("loop_blocked") if fields["queue"]]

        @shop.jobs.handler()
        async def careless(job: Lease[Any]) -> None:
            wait_without_await()

        def wait_without_await() -> None:
            while not blocked.heard.is_set():
                time.sleep(0.01)

        await shop.put(1)
        async with shop.working():
            await until(ended)

        told, last = blocked.lines[0], ended()[0]
        for fields in (told, last):
            assert (fields["queue"], fields["stage"]) == ("job", "work")
            assert fields["handler"].endswith("careless")
            assert fields["at"].startswith("test_loop_watch.py:")
        assert 0.05 <= told["seconds"] <= last["seconds"]
        assert await shop.states() == {"done": 1}


def test_a_loop_of_uvloop_is_watched_as_well(sqlite_url: str, blocked: Blocked) -> None:
    """Its frames are not Python's: what can be seen of it is the handler, or nothing."""
    uvloop = pytest.importorskip("uvloop")
    blocked.function = "careless"

    async def work() -> None:
        assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
        async with shop_on(sqlite_url) as shop:

            @shop.jobs.handler()
            async def careless(job: Lease[Any]) -> None:
                blocked.heard.wait(SECONDS)

            await shop.put(1)
            async with shop.working():
                await until(lambda: [fields for fields in shop.named("loop_blocked") if fields["queue"]])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())

    assert (blocked.lines[0]["queue"], blocked.lines[0]["stage"]) == ("job", "work")


async def test_what_blocks_outside_of_a_handler_is_named_too(sqlite_url: str, blocked: Blocked) -> None:
    def slow_observer(name: str, _: Any) -> None:
        while name == "settled" and not blocked.heard.is_set():
            time.sleep(0.01)

    blocked.function = "slow_observer"
    async with shop_on(sqlite_url) as shop:

        @shop.jobs.handler()
        async def handle(job: Lease[Any]) -> None: ...

        shop.mill.observe(slow_observer)
        await shop.put(1)
        await shop.drain()

    assert (blocked.lines[0]["queue"], blocked.lines[0]["stage"]) == ("", "")


def test_a_handler_is_known_under_its_decorators() -> None:
    async def handle(job: Any) -> None: ...

    @functools.wraps(handle)
    async def wrapped(job: Any) -> None:
        await handle(job)

    class Callable:
        async def __call__(self, job: Any) -> None: ...

        async def method(self, job: Any) -> None: ...

    assert code_of(wrapped) is handle.__code__
    assert code_of(functools.partial(wrapped, 1)) is handle.__code__
    assert code_of(Callable().method) is Callable.method.__code__
    assert code_of(Callable()) is Callable.__call__.__code__
    assert code_of(print) is None
