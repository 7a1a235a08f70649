"""What the programs of all peers share. Standard library only: each runs in an environment of its own.

    PROGRAM VERB URL [N]

| verb | what it does |
| --- | --- |
| setup | makes the peer's tables |
| load N | puts N jobs that wait into them, as fast as the tables can be filled |
| single N | enqueues N jobs, one call and one transaction each |
| bulk N | enqueues N jobs by the peer's way for many |
| feed N | enqueues chunks of 1,000 and stays N jobs ahead of the workers, until killed |
| send N | enqueues N jobs one by one with a pause after each, for the latency |
| work | one worker process, until killed |

A handler counts in a small file of its process, which the runner reads: to watch costs the database nothing.
Times are of the system's monotonic clock, which all processes share.
"""

import json
import mmap
import os
import struct
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

FOLDER = Path(os.environ.get("BENCH_FOLDER", "."))
TICKS = FOLDER / "ticks"
STARTS = FOLDER / "starts"
CHUNK = 1000
"""Jobs that `feed` inserts at once."""
BULK = 10_000
"""Most jobs of `bulk`."""
PAUSE = 0.02
"""Seconds between two jobs of `send`."""
TICK = struct.Struct("<qdd")
"""Number of started jobs, time of the first, time of the last."""


class Ticks:
    """The counter of this process."""

    def __init__(self) -> None:
        TICKS.mkdir(exist_ok=True)
        path = TICKS / str(os.getpid())
        path.write_bytes(bytes(TICK.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), TICK.size)
        self._count = 0
        self._first = 0.0

    def tick(self) -> None:
        now = time.monotonic()
        if not self._count:
            self._first = now
        self._count += 1
        TICK.pack_into(self._memory, 0, self._count, self._first, now)


def started(number: int) -> None:
    """Record that a job of `send` has started."""
    now = time.monotonic()
    with STARTS.open("a") as file:
        file.write(f"{number} {now!r}\n")


def counted() -> tuple[int, float, float]:
    """Return, over all processes: started jobs, time of the first, time of the last."""
    found = [TICK.unpack(data) for path in TICKS.glob("*") if len(data := path.read_bytes()) == TICK.size]
    found = [tick for tick in found if tick[0]]
    if not found:
        return 0, 0.0, 0.0
    return sum(tick[0] for tick in found), min(tick[1] for tick in found), max(tick[2] for tick in found)


def answer(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


async def timed(work: Awaitable[object]) -> None:
    began = time.perf_counter()
    await work
    answer(seconds=time.perf_counter() - began)


async def repeated(number: int, put: Callable[[], Awaitable[object]]) -> None:
    """Implement `single`."""

    async def work() -> None:
        for _ in range(number):
            await put()

    await timed(work())


async def in_chunks(number: int, put: Callable[[int], Awaitable[object]]) -> None:
    """Implement `bulk`."""

    async def work() -> None:
        for start in range(0, number, BULK):
            await put(min(BULK, number - start))

    await timed(work())


async def one_by_one(number: int, send: Callable[[int], Awaitable[object]]) -> None:
    """Call `send` for each job. It returns when the job is committed."""
    import asyncio

    sent = []
    for n in range(number):
        began = time.monotonic()
        await send(n)
        sent.append((n, began, time.monotonic()))
        await asyncio.sleep(PAUSE)
    answer(sent=sent)


async def keep_ahead(ahead: int, put: Callable[[int], Awaitable[object]]) -> None:
    """Insert chunks forever, while fewer than `ahead` jobs wait."""
    import asyncio

    made = 0
    while True:
        if made - counted()[0] >= ahead:
            await asyncio.sleep(0.005)
            continue
        await put(CHUNK)
        made += CHUNK
