"""Runs a handler on rows and returns a verdict for each."""

import asyncio
import inspect
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from threading import Thread
from traceback import walk_tb
from typing import Any

from rowmill.model.errors import Limited, ProviderDown, ProviderRefused, RateLimited, ValuesRefused, WorkError
from rowmill.model.judge import Failure, Verdict, judge, refuse, succeeded
from rowmill.model.lease import Batch, Lease, Phase
from rowmill.model.lifecycle import RELEASE
from rowmill.model.queue import Handler
from rowmill.observe.trail import kept_trail


class ThreadCall:
    """One call of a handler in a thread."""

    __slots__ = ("answer", "answered", "argument", "context", "ended")

    def __init__(self, argument: Any, context: Context, answered: "asyncio.Future[bool]") -> None:
        self.argument, self.context = argument, context
        self.answered = answered
        """Set to True when the handler has returned, to False when it timed out before."""
        self.ended: asyncio.Future[None] | None = None
        """Set when a handler that timed out has returned after all."""
        self.answer: Any = None
        """What the handler returned or raised."""


class HandlerThreads:
    """Up to `most` threads that call one handler. They start when needed, and share one queue of calls.

    To wake the loop for every row would cost several times as much as the rest, so answers collect until the loop takes
    them.
    """

    def __init__(self, handler: Callable[[Any], Any], most: int) -> None:
        self._handler, self._most = handler, most
        self._waiting: SimpleQueue[ThreadCall | None] = SimpleQueue()
        self._answered: deque[ThreadCall] = deque()
        self._called = False
        """Whether the loop was asked to collect answers, and has not done so yet."""
        self._threads = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._at_work: set[ThreadCall] = set()

    @property
    def at_work(self) -> int:
        """The number of calls that have not ended."""
        return len(self._at_work)

    def call(self, argument: Any, limit: float | None) -> ThreadCall:
        """Call the handler in a thread, with a copy of the current context. Call this on the loop."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        call = ThreadCall(argument, copy_context(), loop.create_future())
        self._at_work.add(call)
        if self._threads < self._most and self._threads < len(self._at_work):
            self._threads += 1
            Thread(target=self._run, name=f"rowmill-handler-{self._threads}").start()
        self._waiting.put(call)
        if limit is not None:
            timer = loop.call_later(limit, self._expire, call)
            call.answered.add_done_callback(lambda _: timer.cancel())
        return call

    def _expire(self, call: ThreadCall) -> None:
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
        """Start no more calls. Each thread ends with the call that it is running."""
        with suppress(Empty):
            while (call := self._waiting.get_nowait()) is not None:
                self._at_work.discard(call)
                call.answered.cancel()
        for _ in range(self._threads):
            self._waiting.put(None)
        self._threads = self._most


COMMIT_POLL = 0.02
"""Seconds between two checks of a block that is committing although its handler has timed out."""


class HandlerTimeout(WorkError):
    """The handler took longer than its time-out."""

    code = "timeout"


class PermitExpired(Exception):
    """The handler was not called, because the permit of a row has expired."""


class HandlerRunner:
    """Calls one handler. Whatever the handler does, each lease gets its own verdict."""

    def __init__(
        self,
        handler: Handler,
        chance: Callable[[], float],
        check: Callable[[Verdict], Verdict] | None,
        on_overdue: Callable[[int], None],
        *,
        tracebacks: bool = False,
    ) -> None:
        self.handler = handler
        self._file = getattr(getattr(inspect.unwrap(handler.call), "__code__", None), "co_filename", None)
        self._check = check
        """Checks the verdict on a handler that did not fail; None if there is nothing to check."""
        self._at_once = handler.batch is None and not handler.threaded and handler.timeout is None
        """Whether the handler's coroutine can be awaited directly: no batch, no thread, no time-out."""
        self._on_overdue = on_overdue
        self._tracebacks = tracebacks
        """Whether verdicts on exceptions keep the traceback."""
        self._chance = chance
        self.once_more: Callable[[Lease[Any]], Awaitable[Verdict | None]] | None = None
        """Called before a row of a failed batch runs again, alone. Returns a verdict if it may not."""
        self.permitted: Callable[[Lease[Any]], bool] | None = None
        """Returns whether a row's permit is still valid. Called right before the handler, on its own thread: the
        process may have been frozen since the last check."""
        self._threads: HandlerThreads | None = None
        self._overdue: dict[asyncio.Task[Any] | None, asyncio.Future[None]] = {}
        if handler.threaded:
            most = handler.concurrency + 1  # one for a row that runs alone, beside threads that do not end
            self._threads = HandlerThreads(self._call_permitted, most)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.close()

    async def run(self, leases: Sequence[Lease[Any]], task: "asyncio.Task[Any]") -> list[Verdict]:
        """Call the handler in this task and return verdicts, except for rows that the handler settled itself. Raises
        PermitExpired, without calling the handler, if a permit has expired."""
        lease = leases[0]
        if self._at_once:
            try:
                if self.permitted is not None:
                    self._check_permits(lease)
                answer = await self.handler.call(lease)
            except PermitExpired:
                raise
            except BaseException as error:
                answer = _about_the_row(error, task)
        elif self.handler.batch is not None:
            return await self._many(leases, task)
        else:
            answer = await self._call(lease, task)
            if isinstance(answer, PermitExpired):
                raise answer
        return [] if lease.settled else [self.judge(lease, answer)]

    async def _many(self, leases: Sequence[Lease[Any]], task: "asyncio.Task[Any]") -> list[Verdict]:
        """Return the verdicts on a batch. If the handler fails as a whole, each row is tried alone, so that one bad row
        costs no other an attempt. A failure that holds for all of them, such as a provider that is down, is not tried
        again."""
        answers = await self._call(Batch(leases), task)
        if isinstance(answers, PermitExpired):
            raise answers
        true_of_all = isinstance(
            answers, (RateLimited, ProviderDown, ProviderRefused, Limited, HandlerTimeout, KeyboardInterrupt)
        )
        if isinstance(answers, BaseException) and not true_of_all and len(leases) > 1:
            found: list[Verdict] = []
            for lease in leases:
                await self.wait_for_overdue_thread()
                if lease.lost:
                    continue
                verdict = None if self.once_more is None else await self.once_more(lease)
                try:
                    found += await self._many([lease], task) if verdict is None else [verdict]
                except PermitExpired:
                    found.append(Verdict(lease, RELEASE))
            return found
        return [
            self._judge_part(lease, part)
            for lease, part in zip(leases, self._spread(leases, answers), strict=True)
            if not lease.settled
        ]

    def _judge_part(self, lease: Lease[Any], answer: Any) -> Verdict:
        if isinstance(answer, _Wrong):
            return refuse(lease, "bad_answer", answer.message)
        return self.judge(lease, answer)

    def judge(self, lease: Lease[Any], answer: Any) -> Verdict:
        """Return the verdict on what the handler returned or raised. This calls user code (a backoff, the text of an
        exception), which may fail like a handler."""
        if answer is None and self._check is None:  # what most handlers answer
            return succeeded(lease)
        try:
            verdict = judge(lease, answer, self._chance())
            if isinstance(answer, BaseException):
                verdict.failure = Failure(
                    answer,
                    at=self._place(answer),
                    reason=answer.reason if isinstance(answer, ValuesRefused) else "",
                    traceback=kept_trail(answer) if self._tracebacks and verdict.move.failed else None,
                )
                return verdict
            return verdict if self._check is None else self._check(verdict)
        except Exception as error:
            return refuse(lease, "bad_answer", f"the answer could not be judged: {type(error).__name__}")

    def _place(self, error: BaseException) -> str:
        """Return where an error was raised, as file:line: the last line in the handler's own file, or the last line at
        all."""
        lines = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)][1:]
        inside = [place for place in lines if place[0] == self._file]
        file, line = (inside or lines or [("", 0)])[-1]
        return f"{os.path.basename(file)}:{line}" if file else ""

    def _spread(self, leases: Sequence[Lease[Any]], answers: Any) -> Sequence[Any]:
        """Return the answer for each lease, from a list in the same order or a mapping by key."""
        match answers:
            case None | BaseException():
                return [answers] * len(leases)
            case Mapping():
                return [
                    answers.get(lease.key, _Wrong("the batch handler gave no answer for this row")) for lease in leases
                ]
            case str() | bytes():
                pass
            case Sequence() if len(answers) == len(leases):
                return answers
            case Sequence():
                wrong = _Wrong(f"the batch handler gave {len(answers)} answers for {len(leases)} rows")
                return [wrong] * len(leases)
        wrong = _Wrong(f"a batch handler returns a list of answers or a mapping by key, not {type(answers).__name__}")
        return [wrong] * len(leases)

    async def _call(self, argument: Any, task: "asyncio.Task[Any]") -> Any:
        """Return what the handler returned, or the exception that it raised."""
        try:
            return await self._call_in_time(argument, self.handler.limit(argument))
        except BaseException as error:
            return _about_the_row(error, task)

    async def _call_in_time(self, argument: Any, limit: float | None) -> Any:
        """Call the handler in a thread, or with a time-out."""
        if self._threads is None:
            self._check_permits(argument)
            answer = self.handler.call(argument)
        else:
            answer = await self._in_thread(self._threads, argument, limit)
            if not inspect.isawaitable(answer):
                return answer
        try:
            async with asyncio.timeout(limit) as scope:
                return await answer
        except TimeoutError:
            if scope.expired():
                raise HandlerTimeout(f"the handler took longer than {limit} s") from None
            raise

    async def _in_thread(self, threads: HandlerThreads, argument: Any, limit: float | None) -> Any:
        """Call the handler in a thread. A thread can't be stopped: after its time-out the row is judged, and what the
        thread writes later is refused."""
        call = threads.call(argument, limit)
        leases = argument if isinstance(argument, list) else [argument]
        try:
            answered = await call.answered
        except asyncio.CancelledError:
            while any(lease.phase is Phase.COMMITTING for lease in leases):
                await asyncio.sleep(COMMIT_POLL)
            raise
        if answered:
            return call.answer
        assert call.ended is not None
        # The row may be settled by the handler's own block just now: whoever decides first is right.
        while not all(lease.take_verdict() or lease.settled for lease in leases):
            await asyncio.wait({call.ended}, timeout=COMMIT_POLL)
            if call.ended.done():
                return call.answer
        if not call.ended.done():
            self._overdue[asyncio.current_task()] = call.ended
        return HandlerTimeout(f"the handler took longer than {limit} s")

    def _call_permitted(self, argument: Any) -> Any:
        self._check_permits(argument)
        return self.handler.call(argument)

    def _check_permits(self, argument: Any) -> None:
        if self.permitted is not None:
            leases = argument if self.handler.batch is not None else (argument,)
            if not all(map(self.permitted, leases)):
                raise PermitExpired

    @property
    def threads_at_work(self) -> int:
        return 0 if self._threads is None else self._threads.at_work

    @property
    def overdue(self) -> bool:
        """Whether the thread of this slot still runs a row past its time-out."""
        return asyncio.current_task() in self._overdue

    async def wait_for_overdue_thread(self) -> None:
        """Wait for the thread of this slot if it still runs a row past its time-out. The next row would otherwise wait
        for a thread while its own time-out runs."""
        task = asyncio.current_task()
        running = self._overdue.get(task)
        if running is not None:
            self._on_overdue(len(self._overdue))
            try:
                await asyncio.wait({running})
            finally:
                self._overdue.pop(task, None)


def _about_the_row(error: BaseException, task: "asyncio.Task[Any]") -> BaseException:
    """Return what a handler raised in this task. Raise it again if it is not about the row, as a cancellation."""
    if isinstance(error, asyncio.CancelledError):
        raise error
    if isinstance(error, GeneratorExit) and not _runs_in(task):
        raise error  # Python throws this coroutine away
    return error


def _runs_in(task: "asyncio.Task[Any]") -> bool:
    """Return whether this task is the one that runs now. None runs while the garbage collector closes a coroutine."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:  # no loop runs any more
        return False


class _Wrong:
    def __init__(self, message: str) -> None:
        self.message = message
