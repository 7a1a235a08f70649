"""Awa, a queue in Rust with handlers in Python, as its documentation begins: fifty workers. `awa_peer VERB URL [N]`"""

import asyncio
import sys
from dataclasses import dataclass

import uvloop
from awa import AsyncClient

from bench.peers.kit import Ticks, in_chunks, keep_ahead, one_by_one, repeated, started

QUEUE = "bench"
WORKERS = 50
CHUNK = 5000


@dataclass
class Noop:
    """A job that does nothing."""

    n: int


@dataclass
class Tell:
    """A job that records when it started."""

    n: int


class Program:
    def __init__(self, url: str) -> None:
        self.client = AsyncClient(url)

    async def setup(self) -> None:
        await self.client.migrate()

    async def load(self, rows: int) -> None:
        for start in range(0, rows, CHUNK):
            await self.many(min(CHUNK, rows - start))

    async def single(self, rows: int) -> None:
        await repeated(rows, lambda: self.client.insert(Noop(0), queue=QUEUE))

    async def bulk(self, rows: int) -> None:
        await in_chunks(rows, self.many)

    async def feed(self, ahead: int) -> None:
        await keep_ahead(ahead, self.many)

    async def many(self, rows: int) -> None:
        await self.client.insert_many_copy([Noop(0) for _ in range(rows)], queue=QUEUE)

    async def send(self, rows: int) -> None:
        await one_by_one(rows, lambda n: self.client.insert(Tell(n), queue=QUEUE))

    async def work(self) -> None:
        ticks = Ticks()

        @self.client.task(Noop, queue=QUEUE)
        async def noop(job: object) -> None:
            ticks.tick()

        @self.client.task(Tell, queue=QUEUE)
        async def tell(job: object) -> None:
            started(job.args.n)  # type: ignore[attr-defined]

        await self.client.start([(QUEUE, WORKERS)])
        await asyncio.Event().wait()


async def main() -> None:
    verb, url, *numbers = sys.argv[1:]
    await getattr(Program(url), verb)(*map(int, numbers))


if __name__ == "__main__":
    uvloop.run(main())
