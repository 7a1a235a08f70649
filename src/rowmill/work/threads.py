"""Threads that run sync handlers, and hand back what they answered many at a time."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any


class Call:
    """One call of a handler in a thread."""

    __slots__ = ("answer", "answered", "argument", "context", "ended")

    def __init__(self, argument: Any, context: Context, answered: "asyncio.Future[bool]") -> None:
        self.argument, self.context = argument, context
        self.answered = answered
        """True when the handler has returned; False when its time is over before."""
        self.ended: asyncio.Future[None] | None = None
        """When the handler has returned after all, if its time was over before."""
        self.answer: Any = None
        """What the handler returned, or raised."""


class HandlerThreads:
    """Up to `most` threads that call one handler. They are started when needed, and take calls from one queue.

    To wake the loop for each row costs several times the rest: answers gather until the loop looks at them.
    """

    def __init__(self, handler: Callable[[Any], Any], most: int) -> None:
        self._handler, self._most = handler, most
        self._waiting: SimpleQueue[Call | None] = SimpleQueue()
        self._answered: deque[Call] = deque()
        self._called = False
        """The loop was asked to look at the answers, and has not yet."""
        self._threads = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._at_work: set[Call] = set()

    @property
    def at_work(self) -> int:
        """Calls that have not come to their end."""
        return len(self._at_work)

    def call(self, argument: Any, limit: float | None) -> Call:
        """Call the handler in a thread, in a copy of this context. To be called on the loop."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        call = Call(argument, copy_context(), loop.create_future())
        self._at_work.add(call)
        if self._threads < self._most and self._threads < len(self._at_work):
            self._threads += 1
            Thread(target=self._run, name=f"rowmill-handler-{self._threads}").start()
        self._waiting.put(call)
        if limit is not None:
            timer = loop.call_later(limit, self._expire, call)
            call.answered.add_done_callback(lambda _: timer.cancel())
        return call

    def _expire(self, call: Call) -> None:
        if not call.answered.done():
            assert self._loop is not None
            call.ended = self._loop.create_future()
            call.answered.set_result(False)

    def _run(self) -> None:
        while (call := self._waiting.get()) is not None:
            try:
                call.answer = call.context.run(self._handler, call.argument)
            except BaseException as error:  # a value: a StopIteration can't be raised into a future
                call.answer = error
            self._answered.append(call)
            del call  # it holds the row, which may be large, until the next one comes
            if not self._called:
                self._called = True
                with suppress(RuntimeError):  # the loop is closed: nobody wants to know
                    assert self._loop is not None
                    self._loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        self._called = False  # first: an answer that comes now calls again
        while self._answered:
            call = self._answered.popleft()
            self._at_work.discard(call)
            if call.ended is not None:
                if not call.ended.done():
                    call.ended.set_result(None)
            elif not call.answered.done():
                call.answered.set_result(True)

    def close(self) -> None:
        """Start no more calls; threads leave when the one that they are at ends."""
        with suppress(Empty):
            while (call := self._waiting.get_nowait()) is not None:
                self._at_work.discard(call)
                call.answered.cancel()
        for _ in range(self._threads):
            self._waiting.put(None)
        self._threads = self._most
