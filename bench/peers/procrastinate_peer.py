"""Procrastinate, with thirty jobs at once and a pool of ten. `procrastinate_peer VERB URL [N]`"""

import asyncio
import sys

import psycopg
from procrastinate import App, PsycopgConnector

from bench.peers.kit import Ticks, in_chunks, keep_ahead, one_by_one, repeated, started

CONCURRENCY = 30


class Program:
    def __init__(self, url: str) -> None:
        self.url = url
        self.app = App(connector=PsycopgConnector(conninfo=url, min_size=1, max_size=10))
        self.ticks: Ticks | None = None

        @self.app.task(name="noop", queue="default")
        async def noop() -> None:
            assert self.ticks is not None
            self.ticks.tick()

        @self.app.task(name="tell", queue="default")
        async def tell(n: int) -> None:
            started(n)

        self.noop, self.tell = noop, tell

    async def setup(self) -> None:
        await self.app.schema_manager.apply_schema_async()

    async def load(self, rows: int) -> None:
        """Insert with SQL: its triggers would fire for each job."""
        with psycopg.connect(self.url) as connection:
            connection.execute("ALTER TABLE procrastinate_jobs DISABLE TRIGGER USER")
            connection.execute(
                "INSERT INTO procrastinate_jobs (queue_name, task_name, args) "
                f"SELECT 'default', 'noop', '{{}}' FROM generate_series(1, {rows})"
            )
            connection.execute("ALTER TABLE procrastinate_jobs ENABLE TRIGGER USER")

    async def single(self, rows: int) -> None:
        await repeated(rows, lambda: self.noop.defer_async())

    async def bulk(self, rows: int) -> None:
        await in_chunks(rows, self.many)

    async def feed(self, ahead: int) -> None:
        await keep_ahead(ahead, self.many)

    async def many(self, rows: int) -> None:
        await self.noop.batch_defer_async(*({} for _ in range(rows)))

    async def send(self, rows: int) -> None:
        await one_by_one(rows, lambda n: self.tell.defer_async(n=n))

    async def work(self) -> None:
        self.ticks = Ticks()
        await self.app.run_worker_async(concurrency=CONCURRENCY)


async def main() -> None:
    verb, url, *numbers = sys.argv[1:]
    program = Program(url)
    async with program.app.open_async():
        await getattr(program, verb)(*map(int, numbers))


if __name__ == "__main__":
    asyncio.run(main())
