"""Detects handlers that block the event loop, on which leases are renewed and all other rows wait."""

import asyncio
import functools
import inspect
import os
import selectors
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

from rowmill.model.queue import Handler
from rowmill.observe.events import Events

EVERY = 0.5
"""Seconds between two pings."""
BLOCKED = 1.0
"""Seconds without an answer after which the loop counts as blocked."""
STILL = 10.0
"""Seconds after which a loop that is still blocked is logged, without waiting for the end."""
FROZEN = 1.0
"""Seconds by which this thread wakes too late if the whole process was frozen, and not the loop alone."""

LOOP_FILES = (os.path.dirname(asyncio.__file__) + os.sep, selectors.__file__)


class LoopWatch:
    """A thread that pings the event loop, and looks at what the loop is running when no answer comes."""

    def __init__(self, events: Events, handlers: Iterable[tuple[str, str, Handler]]) -> None:
        """`handlers` are given as (queue, stage, handler)."""
        self._events = events
        self._handlers = {code: (queue, stage) for queue, stage, handler in handlers if (code := code_of(handler.call))}
        self._stop = threading.Event()

    def start(self) -> None:
        """Start to watch the loop of the current thread."""
        watch = functools.partial(self._watch, asyncio.get_running_loop(), threading.get_ident())
        threading.Thread(target=watch, name="rowmill loop watch", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        with suppress(RuntimeError):  # the loop is closed
            while not self._stop.wait(EVERY):
                answered, began, worked = threading.Event(), time.monotonic(), time.process_time()
                loop.call_soon_threadsafe(answered.set)
                if answered.wait(BLOCKED):
                    continue
                late = time.monotonic() - began - BLOCKED
                frozen = late > FROZEN and time.process_time() - worked < late / 2
                frame = sys._current_frames().get(thread)
                if frame is not None and not frozen and not waits(frame):
                    self._report(loop, answered, began, self._place(frame))
                del frame  # or it would keep what the handler holds
                while not answered.wait(EVERY) and not self._stop.is_set():
                    pass

    def _report(
        self, loop: asyncio.AbstractEventLoop, answered: threading.Event, began: float, place: dict[str, str]
    ) -> None:
        if not answered.wait(max(began + STILL - time.monotonic(), 0.0)):
            self._events.loop_still_blocked(seconds=since(began), **place)
        while not answered.wait(EVERY):
            if self._stop.is_set():
                return
        # On the loop, where observers expect to be called.
        loop.call_soon_threadsafe(functools.partial(self._events.loop_blocked, seconds=since(began), **place))

    def _place(self, frame: FrameType) -> dict[str, str]:
        """Return what the loop is running: the handler and its line, or the innermost function if no handler is."""
        found: FrameType | None = frame
        while found is not None:
            if found.f_code in self._handlers:
                queue, stage = self._handlers[found.f_code]
                return {"queue": queue, "stage": stage, **named(found)}
            found = found.f_back
        return {"queue": "", "stage": "", **named(frame)}


def waits(frame: FrameType) -> bool:
    """Return whether the loop itself runs and no other code: it was about to answer."""
    return frame.f_code.co_filename.startswith(LOOP_FILES)


def named(frame: FrameType) -> dict[str, str]:
    code = frame.f_code
    return {"handler": code.co_qualname, "at": f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"}


def since(began: float) -> float:
    return round(time.monotonic() - began, 3)


def code_of(call: Callable[..., Any]) -> CodeType | None:
    """Return the code object of a handler, under decorators and partials; of a callable object, that of its
    `__call__`."""
    found: Any = inspect.unwrap(call)
    while isinstance(found, functools.partial):
        found = inspect.unwrap(found.func)
    if not hasattr(found, "__code__"):
        found = inspect.unwrap(type(found).__call__)
    code = getattr(found, "__code__", None)
    return code if isinstance(code, CodeType) else None
