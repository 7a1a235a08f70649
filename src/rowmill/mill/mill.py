"""The mill: it declares queues, opens its database, and runs workers."""

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Table

from rowmill.maintenance.upkeep import SecondLook, Upkeep
from rowmill.mill.declaring import QueueOptions, declare_queue
from rowmill.mill.queue import Queue
from rowmill.mill.schedules import Schedules
from rowmill.model.dead_rows import DeadRow, notify_dead
from rowmill.model.duration import Duration, in_seconds
from rowmill.model.errors import BadRequest, DeclarationError, RowmillError, UnknownQueue
from rowmill.model.limits import USUAL_BREAKER, Breaker, Budget, Rate
from rowmill.model.option_names import check_options, listed
from rowmill.model.queue import QueueSpec as QueueModel
from rowmill.model.retry import days
from rowmill.model.states import Step
from rowmill.observe.events import Events, Observer
from rowmill.store import dsn, indexes, rescue, table_checks
from rowmill.store.open import open_store, parse_url, reachable, url_from_environment
from rowmill.store.own import fleet, migrations, privileges, schedule_tables, schema
from rowmill.store.port import CONNECTIONS, Disconnected, Store
from rowmill.store.rows import Record
from rowmill.worker.report import Report
from rowmill.worker.settings import WorkerSettings
from rowmill.worker.worker import Service, Worker

if TYPE_CHECKING:  # a worker imports only what its application declares
    from rowmill.limits import Limit, Limits
    from rowmill.mill.options import ReconciliationOptions
    from rowmill.mill.outboxes import OutboxOptions
    from rowmill.model.schedule import Schedule
    from rowmill.outbox import Inbox, InboxColumns, Outbox
    from rowmill.reconcile import Inventory, Reconciliation, Rule

R = TypeVar("R")
T = TypeVar("T")
DEFAULT_URL = "sqlite:///rowmill.db"
SIGN_OFF_SECONDS = 5.0
INBOX_KEPT = days(30)
LOOP_CHECK_SECONDS = 1.0
"""Seconds between two checks whether the loop that runs our coroutine still exists."""


class Mill(Schedules):
    """A database and its queues. The database is `url`, DATABASE_URL, or SQLite in `rowmill.db`. `connections` limits
    how many handlers may be in `settling()` at once on PostgreSQL; others wait. `pooled_url`, or ROWMILL_POOLED_URL,
    leads to the same database through a pooler; `settling()` then uses that."""

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: WorkerSettings | None = None,
        connections: int = CONNECTIONS,
        pooled_url: str | None = None,
    ) -> None:
        if connections < 1:
            raise BadRequest(f"connections must be 1 or more, not {connections}")
        self.url = parse_url(url_from_environment() or DEFAULT_URL if url is None else url)
        pooled = pooled_url or (self._on_postgres and os.environ.get("ROWMILL_POOLED_URL"))
        self.pooled_url = parse_url(pooled) if pooled else None
        self.settings = settings or WorkerSettings()
        self.queues: dict[str, Queue[Any]] = {}
        self.outboxes: dict[str, Outbox] = {}
        self.schedules: dict[str, Schedule] = {}
        self.reconciliations: dict[str, Reconciliation] = {}
        self.events = Events()
        self.connections = connections
        self.store: Store = self._new_store()
        self._opened = 0
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._choosing_loop = threading.Lock()
        self._blocking_turn = threading.Lock()
        self._upkeeps: list[Upkeep] = []
        self._workers: list[Worker] = []
        self._limits: Limits | None = None

    @property
    def _on_postgres(self) -> bool:
        return self.url.get_backend_name() == "postgresql"

    def _new_store(self) -> Store:
        store = open_store(self.url, self.connections, self.pooled_url)
        store.on_buried, store.on_refused = self._on_buried, self.events.refused
        return store

    @property
    def limits(self) -> "Limits":
        """The limits of this mill, by name."""
        if self._limits is None:
            from rowmill.limits import Limits

            self._limits = Limits(self)
            if self._opened:
                self._limits.opened(self.store, self._loop)
        return self._limits

    def observe(self, observer: Observer) -> None:
        """Call `observer(event, fields)` for every event of the engine."""
        self.events.observers.append(observer)

    @overload
    def queue(self, source: Table, **options: Unpack[QueueOptions]) -> Queue[Record]: ...
    @overload
    def queue(self, source: type[R], **options: Unpack[QueueOptions]) -> Queue[R]: ...
    def queue(self, source: Any, **options: Unpack[QueueOptions]) -> Queue[Any]:
        """Declare a queue on an ORM class or a Table of yours. Raises DeclarationError that lists everything that is
        wrong."""
        check_options("Mill.queue()", options, QueueOptions.__annotations__)
        queue: Queue[Any] = declare_queue(source, self.store.dialect, self.queues.values(), **options)
        queue.mill = self
        self.queues[queue.name] = queue
        self._fit(queue)
        self._prune_by_schedule(queue)
        return queue

    def limit(
        self, name: str, *, rate: Rate | None = None, concurrent: int | None = None, budget: Budget | None = None,
        breaker: Breaker | None = USUAL_BREAKER, lease: Duration = 30.0,
    ) -> "Limit":  # fmt: skip
        """Declare a limit that the whole fleet shares, on calls to one provider. See the guide on limits."""
        return self.limits.declare(name, rate, concurrent, budget, breaker, in_seconds(lease))

    def outbox(self, table: Any = None, **options: "Unpack[OutboxOptions]") -> "Outbox":
        """Declare an outbox: on a ready-made table `outbox`, or on an ORM class or a Table of yours. An outbox is a
        queue with order per aggregate."""
        from rowmill.mill.outboxes import OutboxOptions, declare_outbox

        check_options("Mill.outbox()", options, OutboxOptions.__annotations__)
        return declare_outbox(self, table, **options)

    def inbox(
        self, table: Table | None = None, *, columns: "InboxColumns | None" = None, keep: Duration = INBOX_KEPT
    ) -> "Inbox":
        """Return an inbox, in which consumers note the messages that they have handled. A note is kept for `keep`
        (seconds or a `timedelta`), in a table of Rowmill's own, or of yours."""
        from rowmill.outbox import Inbox, InboxColumns

        return Inbox(self, table, columns or InboxColumns(), in_seconds(keep))

    def reconciliation(
        self,
        name: str,
        *,
        inventories: "Mapping[str, Inventory]",
        rules: "Sequence[Rule]",
        **policies: "Unpack[ReconciliationOptions]",
    ) -> "Reconciliation":
        """Declare how inventories of the same things have to agree, and what to do where they do not."""
        from rowmill.mill.options import ReconciliationOptions
        from rowmill.reconcile import Reconciliation
        from rowmill.reconcile.declaration import declared

        check_options(
            "Mill.reconciliation()", policies, ("inventories", "rules", *ReconciliationOptions.__annotations__)
        )
        made = Reconciliation(self, declared(name, inventories, rules, **policies))
        if name in self.reconciliations:
            problem = "this mill has a reconciliation of that name already: give it another"
            raise DeclarationError(name, [problem], "reconciliation")
        self.reconciliations[name] = made
        return made

    def move_to(self, url: str, pooled_url: str | None = None) -> None:
        """Use another database from now on. Not while the mill is open."""
        self.url, self.pooled_url = parse_url(url), parse_url(pooled_url) if pooled_url else None
        self.store = self._new_store()
        self._queue_ticks()
        for queue in self.queues.values():
            self._fit(queue)

    def _on_buried(self, queue: QueueModel[Any], step: Step, death: DeadRow) -> None:
        """Report a row that died in its claim: it could not be read, or its attempts were used up."""
        self.events.buried_in_claim(queue.name, step.name, queue.key_text(death.key), death.attempt, death.code)
        for worker in self._workers[:1]:  # of several here, claims bear the number of the first
            worker.report.buried += 1
        notify_dead(queue, [death])

    def _fit(self, queue: Queue[Any]) -> None:
        """Register a queue with the store, and add its indexes, as this database spells them, to the table's metadata,
        for `create_all` and Alembic's autogenerate."""
        table = queue.table
        self.store.translate(table.schema)
        # By name: what else an index carries is lost when its table is copied to another metadata.
        table.indexes -= {index for index in table.indexes if str(index.name).startswith(indexes.PREFIX)}
        sql = self.store.sql(queue)
        for index in indexes.queue_indexes(sql):
            index.attach(sql)

    def __getitem__(self, name: str) -> Queue[Any]:
        try:
            return self.queues[name]
        except KeyError:
            raise UnknownQueue(f"this mill has no queue {name}. It has: {listed(self.queues, name)}") from None

    def __repr__(self) -> str:
        return f"<Mill {dsn.shown(self.url)}: {', '.join(self.queues) or 'no queues'}>"

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        """Return the store, connected for the time of the block."""
        loop = asyncio.get_running_loop()
        gate = self._gates.setdefault(loop, asyncio.Lock())
        async with gate:  # two that come at once must not both connect
            self._belong_to(loop)
            if self._opened == 0:
                try:
                    await self.store.open()
                except BaseException:
                    self._loop = None
                    raise
                if self._limits is not None:
                    self._limits.opened(self.store, loop)
            self._opened += 1
        try:
            yield self.store
        finally:
            async with gate:
                self._opened -= 1
                if self._opened == 0:
                    if self._limits is not None:
                        await self._limits.closed()
                    await self.store.close()
                    self._loop = None

    def _belong_to(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._choosing_loop:
            if self._loop is loop:
                return
            if self._loop is not None and not self._loop.is_closed():
                raise RowmillError(
                    "this mill is open in another event loop, to which its connections belong. "
                    "Use one mill per thread, or one loop for all of its work"
                )
            self._loop, self._opened = loop, 0

    async def run(self, work: Callable[[Connection], T], *, write: bool = True) -> T:
        """Run a function on a connection, in a transaction of its own."""
        async with self.opened() as store:
            with reachable(self.url):
                return await store.run(work, write=write)

    async def migrate(self, *, tables: bool = False) -> list[int]:
        """Bring Rowmill's own tables to this version, and create the indexes and triggers of the declared queues. With
        `tables`, create declared tables that are missing, too."""
        async with self.opened() as store:
            with reachable(self.url):
                sql = [store.sql(queue) for queue in self.queues.values()]
                return await migrations.migrate(store, sql, tables=tables)

    def _chosen(self, queues: Sequence[str] | None) -> list[Queue[Any]]:
        return [self[name] for name in queues] if queues else [q for q in self.queues.values() if q.handlers]

    @asynccontextmanager
    async def worker(
        self,
        queues: Sequence[str] | None = None,
        *,
        settings: WorkerSettings | None = None,
    ) -> AsyncIterator[Worker]:
        """Return a worker for these queues (all that have handlers), registered with the fleet for the time of the
        block."""
        chosen = self._chosen(queues)
        settings = settings or self.settings
        async with self.opened() as store:
            scheduler = self._scheduler(chosen, settings.heartbeat)

            def sign_up(connection: Connection) -> tuple[int, set[tuple[str, str]] | None]:
                privileges.check(connection, [store.sql(queue) for queue in chosen], limited=bool(self._limits))
                schema.check_version(connection)
                for queue in chosen:
                    table_checks.check_table(connection, store.sql(queue))
                number = fleet.join(connection, [store.sql(queue) for queue in chosen])
                if scheduler is not None:
                    scheduler.start(connection)
                return number, fleet.record_heartbeat(connection, number)

            with reachable(self.url):
                await store.check_session()
                number, paused = await store.run(sign_up)
            upkeep = Upkeep(store, number, chosen, self.events, settings, paused)
            services: list[Service] = [upkeep]
            if any(queue.retention.ages() for queue in chosen):
                from rowmill.maintenance.retention import RetentionService

                services.append(RetentionService(store, chosen, self.events, leading=lambda: upkeep.leading))
            if scheduler is not None:
                services.append(scheduler)
            worker = Worker(
                store,
                chosen,
                settings=settings,
                events=self.events,
                services=services,
                paused=upkeep.paused,
            )
            worker.number = lambda: upkeep.worker
            upkeep.holding = worker.holding
            upkeep.settle_lags = worker.settle_lags
            if scheduler is not None:
                scheduler.wake = worker.waker(schedule_tables.QUEUE)
            self._upkeeps.append(upkeep)
            self._workers.append(worker)
            store.worker = self._upkeeps[0].worker  # beside a worker that runs already, claims go by that one's number
            try:
                yield worker
            finally:
                self._upkeeps.remove(upkeep)
                self._workers.remove(worker)
                store.worker = (self._upkeeps or [upkeep])[0].worker
                # Without a database, nobody is told: others will see that our signs of life have ended.
                with suppress(Disconnected, TimeoutError):
                    async with asyncio.timeout(SIGN_OFF_SECONDS):
                        await store.run(lambda connection: fleet.sign_off(connection, upkeep.worker))
                if not self._upkeeps:
                    for outbox in self.outboxes.values():
                        await outbox.close()

    async def drain(
        self,
        queues: Sequence[str] | None = None,
        *,
        rows: int | None = None,
        seconds: Duration | None = None,
        settings: WorkerSettings | None = None,
        begun: Callable[[Worker], None] | None = None,
    ) -> Report:
        """Rescue what dead workers left, then work until nothing is ready. Return the report.

        It claims at most `rows` rows (one that is tried again counts again), and none after `seconds`;
        what is claimed by then is finished. `begun` is called with the worker, so that it can be stopped early.
        """
        most_seconds = in_seconds(seconds)
        if most_seconds is not None and not most_seconds > 0:
            raise BadRequest(f"seconds must be more than 0, not {most_seconds:g}")
        async with self.worker(queues, settings=settings) as worker:
            if begun is not None:
                begun(worker)
            timer = None
            if most_seconds is not None:
                timer = asyncio.get_running_loop().call_later(most_seconds, worker.claim_no_more)
            try:
                for queue in self._chosen(queues):
                    for step in queue.steps:
                        await self._rescue_all(queue, step, settings or self.settings, worker)
                return await worker.drain(rows=rows)
            finally:
                if timer is not None:
                    timer.cancel()

    async def _rescue_all(self, queue: Queue[Any], step: Step, settings: WorkerSettings, worker: Worker) -> None:
        """Rescue until nothing is left to rescue, second looks included, or the worker is to end."""
        look = SecondLook(settings.heartbeat, time.monotonic)
        report = worker.report
        while worker.may_claim and not await worker.stopped_within(look.wait() or 0.0):
            sweep = partial(
                rescue.rescue, sql=self.store.sql(queue), step=step, most=settings.rescue_most, retry_alone=True,
                sparing=look.sparing(queue.name, step.name),
                ready=partial(look.ready, queue=queue.name, stage=step.name, lease=step.lease),
            )  # fmt: skip
            found = await self.store.run(sweep)
            report.rescued += found.returned
            report.buried += found.buried
            notify_dead(queue, found.deaths)
            if look.wait() is None and not found.returned and not found.buried:
                return

    def drain_now(
        self, queues: Sequence[str] | None = None, *, rows: int | None = None, seconds: Duration | None = None
    ) -> Report:
        """`drain` for code without an event loop: cron jobs, Dagster ops, Celery tasks. Inside a running loop it raises
        BadRequest: write `await mill.drain()` there."""
        _refuse_in_a_loop("drain_now()", "await mill.drain()")
        return asyncio.run(self.drain(queues, rows=rows, seconds=seconds))

    def run_blocking(self, work: Callable[[], Coroutine[Any, Any, T]], called: str, instead: str) -> T:
        """Run a coroutine to its end, for code without an event loop: in a loop of its own, or in the one that this
        mill is open in, if that runs in another thread. In a running loop, raise BadRequest that says what to write
        `instead`."""
        _refuse_in_a_loop(called, instead)
        with self._blocking_turn:  # a mill is open in one loop at a time
            loop = self._loop
            if loop is None or not loop.is_running():
                return asyncio.run(work())
        return _run_in_loop_of_other_thread(work(), loop)


def _refuse_in_a_loop(called: str, instead: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise BadRequest(f"{called} would block the event loop that runs here. Write: {instead}")


def _run_in_loop_of_other_thread(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    try:
        future = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:
        work.close()
        raise _loop_ended() from None
    while True:
        try:
            return future.result(LOOP_CHECK_SECONDS)
        except CancelledError:
            raise _loop_ended() from None
        except TimeoutError:
            if future.done():
                raise  # it is the error of the work itself
            if loop.is_closed():  # a loop that closes forgets what it was asked for in its last moment
                raise _loop_ended() from None


def _loop_ended() -> RowmillError:
    return RowmillError("the event loop in which this mill was open has ended before the answer came. Ask again")
