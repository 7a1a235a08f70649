"""The schedules of a mill. They are declared here, and its workers run their ticks."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlalchemy import MetaData

from rowmill.mill.queue import Queue
from rowmill.model.duration import Duration, in_seconds
from rowmill.model.errors import BadRequest, DeclarationError
from rowmill.model.lease import Lease
from rowmill.model.option_names import listed
from rowmill.model.outcome import Answer, Cancel, Dead, RetryLater
from rowmill.model.queue import Handler, Only, name_of
from rowmill.model.retry import Retry
from rowmill.model.schedule import Cron, Every, Missed, Schedule, Tick, Timing
from rowmill.observe.events import Events
from rowmill.store.clock import as_moment
from rowmill.store.own import schedule_tables
from rowmill.store.own.schema import own_tables
from rowmill.store.port import Store

if TYPE_CHECKING:
    from rowmill.mill.mill import Mill
    from rowmill.schedules.service import Scheduler

One = TypeVar("One", bound=Awaitable[Answer] | Answer)
Function = Callable[[Tick], One]
STRANGER_SECONDS = 60.0
OVERLAPPING = 10
"""The most runs of one schedule that may overlap, in one process."""
STUCK = 4
"""Threads of one schedule with a time-out that may still run in one process before it waits for one of them."""


class Schedules:
    """The part of a mill that declares schedules."""

    store: Store
    events: Events
    queues: dict[str, Queue[Any]]
    schedules: dict[str, Schedule]

    def schedule(
        self,
        name: str,
        *,
        cron: str,
        tz: str = "UTC",
        missed: Missed = "last",
        overlap: bool = False,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        lease: Duration = 30.0,
    ) -> Callable[[Function[One]], Function[One]]:
        """Run a function by a cron expression in a time zone, once in the whole fleet.

        `missed` says what becomes of ticks that nobody began in time: "all" run, only the "last" one does, or none
        ("skip"). A tick waits for the one before it to end, unless they may `overlap`.
        """
        return self._declare(name, Cron(cron, tz), missed, overlap, retry, timeout, lease)

    def every(
        self,
        name: str,
        period: Duration,
        *,
        missed: Missed = "last",
        overlap: bool = False,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        lease: Duration = 30.0,
    ) -> Callable[[Function[One]], Function[One]]:
        """Run a function once per period (seconds or a `timedelta`), counted from midnight UTC for periods that divide
        a day. The other options are those of `schedule`."""
        return self._declare(name, Every(in_seconds(period)), missed, overlap, retry, timeout, lease)

    def _declare(
        self,
        name: str,
        timing: Timing,
        missed: Missed,
        overlap: bool,
        retry: Retry | None,
        timeout: Duration | None,
        lease: Duration,
    ) -> Callable[[Function[One]], Function[One]]:
        new = Schedule(
            name, timing, lambda tick: None, missed, overlap, retry or Retry(), in_seconds(timeout), in_seconds(lease)
        )
        if problems := new.problems():
            raise DeclarationError(name, problems, "schedule")

        def register(call: Function[One]) -> Function[One]:
            there = self.schedules.get(name)
            # The same function once more is a module or a cell of a notebook that was run again.
            if there is not None and name_of(there.call) != name_of(call):
                problem = f"this mill has a schedule of that name already, for {name_of(there.call)}: take another name"
                raise DeclarationError(name, [problem], "schedule")
            self.schedules[name] = replace(new, call=call)
            self._queue_ticks()
            return call

        return register

    def find_schedule(self, name: str) -> Schedule:
        """Return the schedule of that name."""
        try:
            return self.schedules[name]
        except KeyError:
            known = listed(self.schedules, name)
            raise BadRequest(f"this application has no schedule {name}. It has: {known}") from None

    def _queue_ticks(self) -> None:
        """Declare the table of ticks as a queue of this mill. Done anew with each schedule, since its policies come
        from all of them."""
        self.queues.pop(schedule_tables.QUEUE, None)
        if not self.schedules:
            return
        every = self.schedules.values()
        own = own_tables(self.store.dialect.name)
        # A copy: a queue puts its indexes on its table, and the own tables are those of every mill.
        table = own.tick.to_metadata(MetaData(schema=own.metadata.schema))
        queue = cast("Mill", self).queue(
            table,
            name=schedule_tables.QUEUE,
            columns=schedule_tables.COLUMNS,
            states=schedule_tables.STATES,
            order_per_key=schedule_tables.IN_ORDER,
            retry=Retry(attempts=max(schedule.retry.attempts for schedule in every)),
            lease=min(schedule.lease for schedule in every),
        )
        queue.only = Only(table.c.schedule, tuple(self.schedules))
        queue.writable = {}  # a tick has no columns for its function to fill
        self._give_slots(queue)

    def _give_slots(self, queue: "Queue[Any]") -> None:
        """Give each schedule slots of its own, so that none waits for the run of another.

        Those of which one tick runs at a time share as many slots as they are. One that may overlap, or whose threads
        may outlast its ticks, could take all of them: it is claimed by itself.
        """
        alone = {schedule.name: schedule for schedule in self.schedules.values() if schedule.outgrows_a_slot}
        shared = tuple(name for name in self.schedules if name not in alone)
        slots: dict[tuple[str, ...], int] = {
            (name,): OVERLAPPING if schedule.overlap else STUCK for name, schedule in alone.items()
        }
        if shared:
            slots[shared] = len(shared)
        queue.parts = tuple(queue.part(names, self._handlers(queue, many)) for names, many in slots.items())
        queue.handlers = self._handlers(queue, sum(slots.values()))

    def _handlers(self, queue: "Queue[Any]", slots: int) -> dict[str, Handler]:
        # In threads, where functions may block; what an async one returns is awaited on the loop all the same.
        handler = Handler(
            call=self._run_tick, concurrency=slots, batch=None, timeout=None, threaded=True,
            timeout_of=lambda lease: self.schedules[lease.row.schedule].timeout,
        )  # fmt: skip
        return {queue.steps[0].name: handler}

    def _run_tick(self, lease: Lease[Any]) -> Any:
        """Handle a tick: run the function of its schedule."""
        row = lease.row
        schedule, due_at = self.schedules.get(row.schedule), as_moment(row.due_at)
        if schedule is None or due_at is None:
            return RetryLater(STRANGER_SECONDS, "unknown_schedule", count_attempt=False)
        lease.retry = schedule.retry
        if lease.attempt > schedule.retry.attempts:
            return Dead(lease.queue.crash_codes.buried, "its worker died at its last attempt")
        if lease.attempt == 1 and not row.manual:
            why = schedule.passed_over(due_at, lease.claimed_at)
            if why is not None:
                return Cancel(why)
        try:
            return schedule.call(Tick(schedule.name, due_at, bool(row.manual), lease))
        except Exception as error:
            return error  # not raised again: the log names the place where it came from

    def _prune_by_schedule(self, queue: Queue[Any]) -> None:
        """Delete old rows of a queue by the `cron` of its retention, instead of all the time."""
        if queue.retention.cron is None:
            return

        from rowmill.maintenance.retention import sweep

        async def prune(tick: Tick) -> None:
            await sweep(self.store, queue, self.events, go_on=lambda: not tick.lost)

        self.schedule(f"prune {queue.name}", cron=queue.retention.cron, tz=queue.retention.tz)(prune)

    def _scheduler(self, chosen: list[Queue[Any]], heartbeat: float) -> "Scheduler | None":
        """Return the service that makes ticks, for a worker that runs them; None for others."""
        if not any(queue.name == schedule_tables.QUEUE for queue in chosen):
            return None
        from rowmill.schedules.service import Scheduler

        return Scheduler(self.store, list(self.schedules.values()), self.events, heartbeat=heartbeat)
