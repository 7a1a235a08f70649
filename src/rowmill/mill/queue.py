"""A queue of a mill: registers handlers and inserts rows."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar, overload

import sqlalchemy as sa

from rowmill.mill.operations import QueueOperations
from rowmill.model.alerts import Alerts
from rowmill.model.duration import Duration, in_seconds
from rowmill.model.errors import DeclarationError
from rowmill.model.lease import Batch, Lease
from rowmill.model.option_names import check_options
from rowmill.model.outcome import Answer
from rowmill.model.queue import Handler, blocks, name_of
from rowmill.store import enqueue
from rowmill.store.open import reachable

if TYPE_CHECKING:
    from rowmill.limits.limit import HandlerLimit, Limit

R = TypeVar("R")

BatchAnswer = Sequence[Answer | BaseException] | Mapping[Any, Answer | BaseException] | None
"""What a batch handler may return: answers in the order of the rows, or by key. An exception fails its row."""

# The types of a decorated function, so that a decorator returns what it was given.
One = TypeVar("One", bound=Awaitable[Answer] | Answer)
Many = TypeVar("Many", bound=Awaitable[BatchAnswer] | BatchAnswer)


class RegisterBatch(Protocol[R]):
    """A decorator for a handler that takes a list of leases, or a Batch. It returns the handler unchanged."""

    @overload
    def __call__(self, call: Callable[[list[Lease[R]]], Many], /) -> Callable[[list[Lease[R]]], Many]: ...

    @overload
    def __call__(self, call: Callable[[Batch[R]], Many], /) -> Callable[[Batch[R]], Many]: ...


HANDLER_OPTIONS = ("stage", "concurrency", "timeout", "limits")


class Queue(QueueOperations[R], Generic[R]):
    """A queue of a mill: its declaration, its handlers, how rows are inserted, and the operations of people and
    dashboards."""

    alerts: Alerts
    """When `rowmill watch` raises alerts for this queue."""

    @overload
    def handler(self, call: Callable[[Lease[R]], One], /) -> Callable[[Lease[R]], One]: ...
    @overload
    def handler(
        self,
        *,
        stage: str | None = None,
        concurrency: int = 10,
        timeout: Duration | None = None,
        limits: "Sequence[Limit | HandlerLimit]" = (),
    ) -> Callable[[Callable[[Lease[R]], One]], Callable[[Lease[R]], One]]: ...
    def handler(
        self,
        call: Any = None,
        *,
        stage: str | None = None,
        concurrency: int = 10,
        timeout: Duration | None = None,
        limits: "Sequence[Limit | HandlerLimit]" = (),
        **unknown: Any,
    ) -> Any:
        """Register the handler of a stage (the only one by default). An async handler runs on the loop, a sync one in
        threads. A row runs when all `limits` have room for it; until then it waits, at no attempt.

        @articles.handler
        async def classify(article: rm.Lease[Article]): ...

        With options: `@articles.handler(concurrency=8)`.
        """
        check_options("handler()", unknown, HANDLER_OPTIONS)

        def register(call: Any) -> Any:
            self._register(call, stage, concurrency, None, timeout, limits)
            return call

        if call is None:
            return register
        if not callable(call):
            raise DeclarationError(self.name, [f"handler({call!r}) takes options by name: write stage={call!r}"])
        return register(call)

    @overload
    def batch_handler(
        self,
        *,
        size: int,
        stage: str | None = None,
        concurrency: int = 1,
        timeout: Duration | None = None,
        limits: "Sequence[Limit | HandlerLimit]" = (),
    ) -> RegisterBatch[R]: ...
    @overload
    def batch_handler(self, call: Callable[..., Any], /) -> NoReturn: ...
    def batch_handler(
        self,
        call: Any = None,
        *,
        size: int | None = None,
        stage: str | None = None,
        concurrency: int = 1,
        timeout: Duration | None = None,
        limits: "Sequence[Limit | HandlerLimit]" = (),
        **unknown: Any,
    ) -> Any:
        """Register a handler that gets up to `size` rows and returns an outcome for each, in a list or a mapping by
        key. `limits` count rows; a handler that makes one call for all of them should use the limit itself.

        @articles.batch_handler(size=100)
        async def classify(articles: list[rm.Lease[Article]]): ...
        """
        check_options("batch_handler()", unknown, ("size", *HANDLER_OPTIONS))
        if call is not None or size is None:
            problem = "a batch handler needs to know how many rows it gets at once: write batch_handler(size=100)"
            raise DeclarationError(self.name, [problem])

        def register(call: Any) -> Any:
            self._register(call, stage, concurrency, size, timeout, limits)
            return call

        return register

    def _register(
        self,
        call: Callable[..., Any],
        stage: str | None,
        concurrency: int,
        batch: int | None,
        timeout: Duration | None,
        limits: "Sequence[Limit | HandlerLimit]",
    ) -> None:
        problems = []
        if concurrency < 1:
            problems.append(f"concurrency must be 1 or more, not {concurrency}")
        if batch is not None and batch < 1:
            problems.append(f"a batch must hold 1 row or more, not {batch}")
        if limits:
            problems += self.mill.limits.problems(limits)
        if stage is None and len(self.steps) > 1:
            problems.append(f"say which stage: {', '.join(step.name for step in self.steps)}")
        try:
            step = self.step(stage)
        except KeyError as error:
            problems.append(str(error.args[0]))
        else:
            there = self.handlers.get(step.name)
            # The same function once more is a module or a cell of a notebook that was run again.
            if there is not None and name_of(there.call) != name_of(call):
                problems.append(
                    f"stage {step.name} has a handler already, {name_of(there.call)}: a stage has one. "
                    "Take one of them away, or give the other a stage of its own"
                )
        if problems:
            raise DeclarationError(self.name, problems)
        limit = step.timeout if timeout is None else in_seconds(timeout)
        gate = self.mill.limits.gate(limits) if limits else None
        self.handlers[step.name] = Handler(call, concurrency, batch, limit, blocks(call), gate=gate)

    def insert(
        self, rows: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, unique: Iterable[str] | None = None
    ) -> "sa.Insert":
        """Return an INSERT of rows, in the ready state, for your own session or connection. With `unique`, rows whose
        values in these columns exist already are left out (ON CONFLICT DO NOTHING)."""
        return enqueue.insert(self.mill.store.sql(self), rows, unique)

    async def load(self, rows: Iterable[Mapping[str, Any]], *, batch: int = 20_000) -> int:
        """Insert many rows fast (COPY on PostgreSQL), in batches that commit by themselves. Return how many."""
        async with self.mill.opened() as store:
            with reachable(self.mill.url):
                return await enqueue.load(store, self, rows, batch)
