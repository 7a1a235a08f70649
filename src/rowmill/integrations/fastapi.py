"""A worker inside a FastAPI or Starlette application, and an endpoint that says whether it works.

    from rowmill.integrations.fastapi import health_router, rowmill_lifespan

    app = FastAPI(lifespan=rowmill_lifespan(mill))
    app.include_router(health_router())

The worker runs in the event loop of the application, starts with it and stops with it. A worker that ends by itself is
started again, after a wait that grows. Each process of the server has a worker of its own.

It needs `rowmill[fastapi]`; with Starlette alone, use `health_endpoint` in a Route.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import JSONResponse

import rowmill as rm
from rowmill.errors import DatabaseUnreachable
from rowmill.model.duration import Duration, in_seconds
from rowmill.model.errors import code_of
from rowmill.observe.trail import trail
from rowmill.operator import activity, counts
from rowmill.worker import Worker, WorkerSettings

if TYPE_CHECKING:
    from fastapi import APIRouter

__all__ = [
    "AppWorker", "AppWorkerHealth", "AppWorkerStatus", "health_endpoint", "health_router", "rowmill_lifespan",
]  # fmt: skip

log = logging.getLogger("rowmill")

STALE_SECONDS = 30.0
"""A worker sends a heartbeat every two seconds. If its last one is older than this, it does not work."""
CAP = 1000
"""Ready rows of a queue that are counted."""
ASK_SECONDS = 5.0
"""How long the database may take to answer the health endpoint."""
REMEMBER_SECONDS = 1.0
"""How long an answer is given again: probes of many balancers cost one question a second."""
BACKOFF = rm.exponential(1.0, cap=60.0)
STEADY_SECONDS = 60.0
"""A worker that ran for so long is started again at once when it ends."""
LAST_SECONDS = 30.0
"""Beyond the grace period: how long a worker may take to write results and to sign off."""
CANCELLED = "cancelled"
ENDED = "ended"


class AppWorkerStatus(StrEnum):
    """How the worker of a process is."""

    OK = "ok"
    STARTING = "starting"
    """It has not begun yet."""
    RESTARTING = "restarting"
    """It ended by itself, and begins again after a wait."""
    STALE = "stale"
    """It runs, and its heartbeats do not arrive in the database."""
    UNREACHABLE = "database_unreachable"
    STOPPED = "stopped"
    """The application stops, or somebody has cancelled the worker for good."""


@dataclass(frozen=True, slots=True)
class ReadyRows:
    """Rows of a queue that wait to be worked on."""

    ready: int
    capped: bool
    """Whether there are more."""
    oldest_seconds: float | None
    """How long the oldest row that is due has waited."""


@dataclass(frozen=True, slots=True)
class AppWorkerHealth:
    """What the health endpoint says of one worker."""

    status: AppWorkerStatus
    worker: int | None = None
    """Its number in the fleet."""
    heartbeat_seconds: float | None = None
    """The age of its last heartbeat, on the database's clock."""
    restarts: int = 0
    last_error: str | None = None
    """The code of what ended it last, or of what keeps it from starting. Never the text."""
    queues: dict[str, ReadyRows] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return self.status is AppWorkerStatus.OK


class HasState(Protocol):
    """An application of Starlette or FastAPI."""

    state: Any


Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


class AppWorker:
    """Runs a worker inside an application, and starts it again when it ends by itself.

    `queues` are all that have handlers, unless given. The worker's `settings` are the mill's.
    """

    def __init__(
        self,
        mill: rm.Mill,
        queues: Sequence[str] | None = None,
        *,
        settings: WorkerSettings | None = None,
        stale_after: Duration = STALE_SECONDS,
        backoff: Callable[[int], Duration] = BACKOFF,
    ) -> None:
        self.mill = mill
        self.queues = None if queues is None else list(queues)
        self.settings = settings or mill.settings
        self._stale_after, self._backoff = in_seconds(stale_after), backoff
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._worker: Worker | None = None
        self._failed = False
        self.restarts = 0
        self.last_error: str | None = None
        self._asking = asyncio.Lock()
        self._answer: tuple[float, AppWorkerHealth] | None = None

    @asynccontextmanager
    async def running(self, app: HasState | None = None) -> AsyncIterator["AppWorker"]:
        """Run the worker for the time of the block. The health endpoint of `app` finds it in `app.state`."""
        known: list[AppWorker] = []
        if app is not None:
            known = workers_of(app)
            known.append(self)
        self.start()
        try:
            yield self
        finally:
            try:
                await self.stop()
            finally:
                if self in known:
                    known.remove(self)

    def start(self) -> None:
        """Start the worker in a task of the running loop. Idempotent. Raises UnknownQueue for a name that is none."""
        for name in self.queues or ():
            self.mill[name]
        if self._task is None or self._task.done():
            self._stop.clear()
            self._task = asyncio.create_task(self._keep_running(), name="rowmill worker of the application")

    async def stop(self) -> None:
        """Claim no more, let handlers finish within the grace period, give the other rows back. Idempotent."""
        self._stop.set()
        if self._worker is not None:
            self._worker.stop()
        if self._task is None:
            return
        await asyncio.wait({self._task}, timeout=self.settings.grace + LAST_SECONDS)
        if not self._task.done():
            log.error("the worker did not end in time; its rows come back by their leases")
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=LAST_SECONDS)

    async def _keep_running(self) -> None:
        """Run workers, one after the other, until stopped."""
        clock, failures = asyncio.get_running_loop().time, 0
        while not self._stop.is_set():
            began = clock()
            try:
                await self._run_one()
            except Exception as error:
                self.last_error = code_of(error)
                log.error("the worker of the application ended: %s", trail(error))
            else:
                if self._stop.is_set():
                    return
            failures = 1 if clock() - began >= STEADY_SECONDS else failures + 1
            self._failed, self._answer = True, None
            self.restarts += 1
            wait = in_seconds(self._backoff(failures)) * (0.5 + random.random() / 2)
            log.warning("the worker starts again in %.1f s: %s", wait, self.last_error)
            try:
                async with asyncio.timeout(wait):
                    await self._stop.wait()
            except TimeoutError:
                pass

    async def _run_one(self) -> None:
        async with self.mill.worker(self.queues, settings=self.settings) as worker:
            if self._stop.is_set():
                return
            # In a task of its own: somebody may cancel it, and that must not pass for an order to stop.
            running = asyncio.create_task(worker.run(), name="rowmill worker")
            self._worker, self._failed, self._answer = worker, False, None
            try:
                await asyncio.wait({running})
            except asyncio.CancelledError:
                running.cancel()
                await asyncio.wait({running})
                raise
            finally:
                self._worker, self._answer = None, None
                if worker.left_behind:
                    log.warning("%d handlers did not end with their worker", worker.left_behind)
            if running.cancelled():
                self.last_error = CANCELLED
            else:
                running.result()
                if not self._stop.is_set():
                    self.last_error = ENDED

    async def health(self) -> AppWorkerHealth:
        """Return how the worker is: whether it runs here, and whether its heartbeats arrive in the database."""
        clock = asyncio.get_running_loop().time
        async with self._asking:
            if self._answer is None or clock() - self._answer[0] >= REMEMBER_SECONDS:
                self._answer = (clock(), await self._look())
            return self._answer[1]

    async def _look(self) -> AppWorkerHealth:
        known = AppWorkerHealth(AppWorkerStatus.STARTING, restarts=self.restarts, last_error=self.last_error)
        worker = self._worker
        if self._stop.is_set() or self._task is None or self._task.done():
            return replace(known, status=AppWorkerStatus.STOPPED)
        if worker is not None:
            known = replace(known, worker=worker.number())
        elif self._failed:
            known = replace(known, status=AppWorkerStatus.RESTARTING)
        try:
            async with asyncio.timeout(ASK_SECONDS):
                age, queues = await self.mill.run(lambda connection: self._read(connection, worker), write=False)
        except (DatabaseUnreachable, TimeoutError, OSError) as error:
            return replace(known, status=AppWorkerStatus.UNREACHABLE, last_error=code_of(error))
        except Exception as error:  # as where the tables are not there yet
            if worker is None:
                return known
            return replace(known, status=AppWorkerStatus.UNREACHABLE, last_error=code_of(error))
        if worker is not None:
            alive = age is not None and age <= self._stale_after
            known = replace(known, status=AppWorkerStatus.OK if alive else AppWorkerStatus.STALE)
        return replace(known, heartbeat_seconds=age, queues=queues)

    def _read(self, connection: Connection, worker: Worker | None) -> tuple[float | None, dict[str, ReadyRows]]:
        seen = None if worker is None else activity.worker(connection, worker.number())
        age = None if seen is None else round(seen.seen_seconds_ago, 3)
        return age, {name: self._ready(connection, name) for name in self._names()}

    def _names(self) -> list[str]:
        return self.queues or [name for name, queue in self.mill.queues.items() if queue.handlers]

    def _ready(self, connection: Connection, name: str) -> ReadyRows:
        sql = self.mill.store.sql(self.mill[name])
        depth = counts.depth(connection, sql, CAP)
        oldest = activity.oldest_ready(connection, sql) if depth.rows else None
        return ReadyRows(depth.rows, depth.count is counts.How.CAPPED, None if oldest is None else round(oldest, 3))


def rowmill_lifespan(
    mill: rm.Mill,
    queues: Sequence[str] | None = None,
    *,
    settings: WorkerSettings | None = None,
    lifespan: Lifespan | None = None,
    stale_after: Duration = STALE_SECONDS,
) -> Lifespan:
    """Return a lifespan that runs a worker inside the application. Inside of `lifespan`, if your application has one:
    what that opens is there for handlers until the last of them has ended."""

    @asynccontextmanager
    async def both(app: HasState) -> AsyncIterator[Any]:
        async with AsyncExitStack() as stack:
            state = None if lifespan is None else await stack.enter_async_context(lifespan(app))
            worker = AppWorker(mill, queues, settings=settings, stale_after=stale_after)
            await stack.enter_async_context(worker.running(app))
            yield state

    return both


def workers_of(app: HasState) -> list[AppWorker]:
    """Return the workers that run inside an application."""
    if not hasattr(app.state, "rowmill_workers"):
        app.state.rowmill_workers = []
    found: list[AppWorker] = app.state.rowmill_workers
    return found


async def health_endpoint(request: Request) -> JSONResponse:
    """Answer 200 if all workers of the application work, and 503 otherwise: their status, heartbeat, restarts, the code
    of the last error, and how many rows are ready. For a Route of Starlette."""
    found = [await worker.health() for worker in workers_of(request.app)]
    bad = next((each.status for each in found if not each.ok), AppWorkerStatus.OK)
    answer = {"status": bad, "workers": [asdict(each) for each in found]}
    return JSONResponse(answer, 200 if bad is AppWorkerStatus.OK else 503, {"cache-control": "no-store"})


def health_router(path: str = "/health") -> "APIRouter":
    """Return a router with `health_endpoint`, for `app.include_router`."""
    from fastapi import APIRouter

    router = APIRouter()
    router.add_api_route(
        path,
        health_endpoint,
        response_class=JSONResponse,
        responses={503: {"description": "A worker of this process does not work."}},
        summary="Whether the workers of this process work.",
    )
    return router
