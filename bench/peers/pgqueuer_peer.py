"""PgQueuer, with the settings that its documentation recommends for throughput. `pgqueuer_peer VERB URL [N]`"""

import sys

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers.kit import Ticks, in_chunks, keep_ahead, one_by_one, repeated, started

BATCH = 500
COLUMNS = """
SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns
WHERE table_name = 'pgqueuer' AND column_name <> 'id'
"""


class Program:
    def __init__(self, connection: asyncpg.Connection) -> None:
        self.connection = connection
        self.driver = AsyncpgDriver(connection)
        self.queries = Queries(self.driver)

    async def setup(self) -> None:
        await self.queries.install()

    async def load(self, rows: int) -> None:
        """Insert the first job with its own API, and the others as copies: its triggers would fire for each."""
        await self.queries.enqueue("noop", None)
        columns = await self.connection.fetchval(COLUMNS)
        await self.connection.execute(
            "ALTER TABLE pgqueuer DISABLE TRIGGER USER;"
            f"INSERT INTO pgqueuer ({columns}) SELECT {columns} FROM pgqueuer, generate_series(1, {rows - 1});"
            "ALTER TABLE pgqueuer ENABLE TRIGGER USER"
        )

    async def single(self, rows: int) -> None:
        await repeated(rows, lambda: self.queries.enqueue("noop", None))

    async def bulk(self, rows: int) -> None:
        await in_chunks(rows, self.many)

    async def feed(self, ahead: int) -> None:
        await keep_ahead(ahead, self.many)

    async def many(self, rows: int) -> None:
        await self.queries.enqueue(["noop"] * rows, [None] * rows, [0] * rows)

    async def send(self, rows: int) -> None:
        await one_by_one(rows, lambda n: self.queries.enqueue("tell", str(n).encode()))

    async def work(self) -> None:
        ticks, queue = Ticks(), PgQueuer(self.driver)

        @queue.entrypoint("noop")
        async def noop(job: Job) -> None:
            ticks.tick()

        @queue.entrypoint("tell")
        async def tell(job: Job) -> None:
            started(int(job.payload or b"0"))

        await queue.run(batch_size=BATCH)


async def main() -> None:
    verb, url, *numbers = sys.argv[1:]
    await getattr(Program(await asyncpg.connect(url)), verb)(*map(int, numbers))


if __name__ == "__main__":
    uvloop.run(main())
