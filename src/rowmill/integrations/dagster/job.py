"""A job of one op that drains queues."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from logging import Logger
from typing import Any, Protocol

import dagster as dg
from pydantic import Field

from rowmill.integrations.counts import Counts, counts_of, in_words, numbers_in
from rowmill.integrations.dagster.deadline import call_in_thread
from rowmill.integrations.dagster.drain_thread import DrainThread
from rowmill.integrations.dagster.resource import KEY, mill_of
from rowmill.integrations.mills import as_names, chosen_queues
from rowmill.mill import Mill
from rowmill.model.errors import DeclarationError

BATCH_SIZE = 100
"""The batch size for a function of yours, unless the job says otherwise."""
LOG_SECONDS = 30.0
"""Time between two lines on the progress of a run."""
AT_A_TIME = "The most rows at a time. A handler never gets more than it declares."
COUNT_ONLY = "Only count the rows. Change nothing."
PLANNED = ("ready", "waiting", "running", "dead")
"""What a plan says of a queue."""


class DrainConfig(dg.Config):
    """The configuration of an op that drains."""

    batch_size: int | None = Field(default=None, ge=1, description=AT_A_TIME)
    plan_only: bool = Field(default=False, description=COUNT_ONLY)


class ProcessQueue(Protocol):
    """A function of yours that works a queue off. The numbers in what it returns, a mapping or a dataclass, become the
    output and the metadata of the op."""

    def __call__(self, *, batch_size: int, plan_only: bool) -> object: ...


def drain_job(
    *,
    name: str,
    queue: str | Sequence[str] | None = None,
    process: ProcessQueue | None = None,
    op_name: str | None = None,
    batch_size: int | None = None,
    plan_only: bool = False,
    resource: str = KEY,
    retry_policy: dg.RetryPolicy | None = None,
    executor: dg.ExecutorDefinition | None = None,
    tags: Mapping[str, str] | None = None,
    description: str | None = None,
) -> dg.JobDefinition:
    """Return a job that drains queues of the mill (all that have handlers, by default), or calls `process`.

    The op takes `batch_size` and `plan_only` in its configuration; their defaults are those given here. Its output is a
    dict of counts. Handlers that fail do not fail the op, and there is no retry policy unless you give one: rows have
    retries of their own. The op runs in the process of its run, unless you give an `executor`.
    """
    if process is not None and queue is not None:
        raise DeclarationError(name, ["give a queue or a process, not both"], "job")
    names, default, planned = as_names(queue), batch_size or (BATCH_SIZE if process else None), plan_only

    class Defaults(DrainConfig):
        batch_size: int | None = Field(default=default, ge=1, description=AT_A_TIME)
        plan_only: bool = Field(default=planned, description=COUNT_ONLY)

    @dg.op(
        name=op_name or f"{name}_op",
        description=description,
        required_resource_keys=set() if process else {resource},
        retry_policy=retry_policy,
        out=dg.Out(dict, description="What was done, in numbers."),
    )
    def drain_op(context: dg.OpExecutionContext, config: Defaults) -> dict[str, Any]:
        if process is not None:
            counts = numbers_in(process(batch_size=config.batch_size or BATCH_SIZE, plan_only=config.plan_only))
        else:
            mill = mill_of(getattr(context.resources, resource))
            plan = config.plan_only
            counts = plan_drain(mill, names) if plan else run_drain(context.log, mill, names, config.batch_size)
        context.log.info("%s: %s", "planned, nothing changed" if config.plan_only else "drained", in_words(counts))
        context.add_output_metadata(counts)
        return counts

    @dg.job(name=name, description=description, tags=tags, executor_def=executor or dg.in_process_executor)
    def drain() -> None:
        drain_op()

    return drain


def plan_drain(mill: Mill, names: Sequence[str] | None) -> Counts:
    """Return how many rows are ready, waiting, running and dead, by queue."""

    def count() -> Counts:
        return {
            f"{queue.name}.{state}": getattr(found, state)
            for queue in chosen_queues(mill, names)
            for found in [queue.counts_sync()]
            for state in PLANNED
        }

    return call_in_thread(count)


def run_drain(log: Logger, mill: Mill, names: Sequence[str] | None, batch_size: int | None = None) -> Counts:
    """Drain the queues. If the run is interrupted, stop as a worker does: handlers end within the grace period, and
    rows that are not finished go back to the queue."""
    with at_a_time(mill, names, batch_size):
        drain = DrainThread(mill, names)
        try:
            drain.start()
            while not drain.ended(LOG_SECONDS):
                log.info("draining: %s", in_words(counts_of(drain.progress)))
        except BaseException:
            drain.stop()
            log.warning("stopped early: %s. The rest is in the queue", in_words(counts_of(drain.progress)))
            raise
        return counts_of(drain.report())


@contextmanager
def at_a_time(mill: Mill, names: Sequence[str] | None, most: int | None) -> Iterator[None]:
    """Let handlers have at most this many rows at a time inside the block. Never more than they declare: a handler may
    count on it."""
    queues = chosen_queues(mill, names)
    declared = [dict(queue.handlers) for queue in queues]
    if most is not None:
        for queue in queues:
            for stage, handler in queue.handlers.items():
                if handler.batch is None:
                    queue.handlers[stage] = replace(handler, concurrency=min(handler.concurrency, most))
                else:
                    queue.handlers[stage] = replace(handler, batch=min(handler.batch, most))
    try:
        yield
    finally:
        for queue, handlers in zip(queues, declared, strict=True):
            queue.handlers.update(handlers)
