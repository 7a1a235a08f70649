"""PgQueuer, with the settings that its documentation recommends for throughput. `pgqueuer_peer URL ROWS`."""

import asyncio
import sys

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers.clock import Clock

BATCH = 500
COLUMNS = """
SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns
WHERE table_name = 'pgqueuer' AND column_name <> 'id'
"""


async def main(url: str, rows: int) -> None:
    clock = Clock(rows)
    connection, watch = await asyncpg.connect(url), await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.enqueue("noop", None)
    columns = await connection.fetchval(COLUMNS)
    await connection.execute(
        "ALTER TABLE pgqueuer DISABLE TRIGGER USER;"
        f"INSERT INTO pgqueuer ({columns}) SELECT {columns} FROM pgqueuer, generate_series(1, {rows - 1});"
        "ALTER TABLE pgqueuer ENABLE TRIGGER USER; ANALYZE pgqueuer"
    )
    queue = PgQueuer(AsyncpgDriver(connection))

    @queue.entrypoint("noop")
    async def noop(job: Job) -> None:
        clock.tick()

    running = asyncio.create_task(queue.run(batch_size=BATCH))
    while not clock.all_run:
        await asyncio.sleep(0.01)
    while await watch.fetchval("SELECT count(*) FROM pgqueuer"):
        await asyncio.sleep(0.005)
    clock.stop()
    queue.shutdown.set()
    await asyncio.wait({running}, timeout=5)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
