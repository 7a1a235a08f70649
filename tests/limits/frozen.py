"""`rowmill work tests.limits.frozen:mill`: a process that stops itself once, between its permit and its call.

The way in which its handler calls the provider comes from the environment. The file that it makes says that it is about
to stop: whoever finds it sends SIGCONT.
"""

import asyncio
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import rowmill as rm
from rowmill.limits.registry import Limits
from rowmill.worker.handler import HandlerRunner
from tests.limits.app import LIMIT, PROVIDER, URL, build, rate_of
from tests.support.provider import get

WAY, STOPPED = "FROZEN_WAY", "FROZEN_FILE"
WAYS = ("async", "sync", "batch", "block")


first = threading.Lock()


def stop_once() -> None:
    """Whatever is frozen like this knows nothing of it. No other thread is further on then."""
    file = Path(os.environ[STOPPED])
    with first:
        if not file.exists():
            file.touch()
            began = time.monotonic()
            os.kill(os.getpid(), signal.SIGSTOP)
            while time.monotonic() - began < 1.0:  # the stop reaches a thread that is not the main one a little later
                time.sleep(0.01)


def declare(mill: rm.Mill, jobs: rm.Queue[Any], way: str) -> None:
    provider, eqc = os.environ[PROVIDER], mill.limit("eqc", rate=rate_of(os.environ[LIMIT].removeprefix("rate:")))
    match way:
        case "async":

            @jobs.handler(limits=[eqc])
            async def look_up(job: rm.Lease[Any]) -> None:
                await get(provider, f"/{job.key}")

        case "sync":

            @jobs.handler(limits=[eqc])
            def look_up_in_thread(job: rm.Lease[Any]) -> None:
                asyncio.run(get(provider, f"/{job.key}"))

        case "batch":

            @jobs.batch_handler(size=3, limits=[eqc])
            async def look_up_some(some: list[rm.Lease[Any]]) -> None:
                for job in some:
                    await get(provider, f"/{job.key}")

        case "block":

            @jobs.handler()
            def look_up_in_a_block(job: rm.Lease[Any]) -> None:
                with eqc.call(wait=0.2):
                    asyncio.run(get(provider, f"/{job.key}"))


def stop_between(way: str) -> None:
    """After the last look of the loop at a permit, before the handler has begun."""
    if way == "block":
        from_thread = Limits.from_thread

        def late(limits: Limits, work: Any) -> Any:
            found = from_thread(limits, work)
            stop_once()
            return found

        setattr(Limits, "from_thread", late)  # noqa: B010
        return
    if way == "sync":
        guarded = HandlerRunner._call_permitted

        def stopped(runner: HandlerRunner, argument: Any) -> Any:
            stop_once()
            return guarded(runner, argument)

        setattr(HandlerRunner, "_call_permitted", stopped)  # noqa: B010
        return
    run = HandlerRunner.run

    async def held_up(runner: HandlerRunner, leases: Any, task: Any) -> Any:
        stop_once()
        return await run(runner, leases, task)

    setattr(HandlerRunner, "run", held_up)  # noqa: B010


if WAY in os.environ:
    mill, jobs = build(os.environ[URL])
    declare(mill, jobs, os.environ[WAY])
    stop_between(os.environ[WAY])
