"""Rowmill on a user's table. `rowmill_peer URL ROWS`."""

import asyncio
import sys

import sqlalchemy as sa
import uvloop

import rowmill as rm
from bench.peers.clock import Clock
from bench.tables import declare


async def main(url: str, rows: int) -> None:
    clock = Clock(rows)
    mill, queue = declare(url)

    @queue.handler(concurrency=10)
    async def noop(lease: rm.Lease[rm.Record]) -> None:
        clock.tick()

    fill = sa.text("INSERT INTO bench_narrow (payload) SELECT '{}' FROM generate_series(1, :rows)")
    async with mill.opened():
        await mill.migrate(tables=True)
        await mill.run(lambda connection: connection.execute(fill, {"rows": rows}).close())
        await mill.run(lambda connection: connection.exec_driver_sql("ANALYZE bench_narrow").close())
        async with mill.worker() as worker:
            running = asyncio.create_task(worker.run())
            await unfinished_is_none(mill, clock)
            clock.stop()
            worker.stop()
            await running


async def unfinished_is_none(mill: rm.Mill, clock: Clock) -> None:
    left = sa.text("SELECT count(*) FROM bench_narrow WHERE state IN ('queued', 'processing')")
    while not clock.all_run:
        await asyncio.sleep(0.01)
    while await mill.run(lambda connection: connection.scalar(left), write=False):
        await asyncio.sleep(0.005)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
