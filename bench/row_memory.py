"""How much memory a worker takes for heavy rows: `python -m bench.row_memory`.

Puts 300 rows of 10 MB into a table and drains them in a process of its own, with handlers that look at every row, under
budgets of several sizes; prints the peak of the worker's memory. By default on a PostgreSQL of its own.
"""

import argparse
import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

import rowmill as rm
from tests.support.postgres import TemporaryPostgres

BUDGETS = ("64M", "256M", "100G")
"""Budgets to measure. The last one means no budget."""


def queue_on(url: str) -> "rm.Queue[rm.Record]":
    moment = sa.DateTime(timezone=True)
    table = sa.Table(
        "heavy",
        sa.MetaData(),
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("body", sa.LargeBinary),
        sa.Column("state", sa.Text, nullable=False, server_default="ready"),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("available_at", moment),
        sa.Column("lease", sa.BigInteger),
        sa.Column("leased_until", moment),
        sa.Column("error", sa.Text),
        sa.Column("finished_at", moment),
    )
    return rm.Mill(url).queue(table)


async def fill(url: str, rows: int, size: int) -> None:
    queue = queue_on(url)
    body = os.urandom(size)

    def made() -> Iterable[dict[str, Any]]:
        for _ in range(rows):
            yield {"body": body}

    await queue.mill.migrate(tables=True)
    await queue.load(made(), batch=10)


async def drain(url: str, rows: int) -> None:
    queue = queue_on(url)

    @queue.handler(concurrency=10)
    async def look(lease: rm.Lease[rm.Record]) -> None:
        assert lease.row.body

    before = peak()
    async with queue.mill.opened():
        # As after many light rows: nothing is known of the weight, and handlers are quick.
        report = await queue.mill.drain(settings=rm.worker.WorkerSettings(claimed_bytes=int(os.environ["BUDGET"])))
    assert report.done == rows, report
    print(f"{before:.0f} {peak():.0f} {report.peak_bytes / 1e6:.0f} {report.seconds:.1f}", flush=True)


def peak() -> float:
    """Return the peak memory in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--megabytes", type=int, default=10, help="of each row")
    parser.add_argument("--url", help="of an empty database")
    parser.add_argument("--drain", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.drain:
        asyncio.run(drain(given.url, given.rows))
    elif given.url:
        measure(given.url, given.rows, given.megabytes)
    else:
        with TemporaryPostgres({}) as server:
            measure(server.url, given.rows, given.megabytes)


def measure(url: str, rows: int, megabytes: int) -> None:
    asyncio.run(fill(url, rows, megabytes << 20))
    for budget in BUDGETS:
        command = [sys.executable, "-m", "bench.row_memory", "--drain", "--url", url, "--rows", str(rows)]
        size = str(int(budget[:-1]) << {"M": 20, "G": 30}[budget[-1]])
        ran = subprocess.run(command, env={**os.environ, "BUDGET": size}, stdout=subprocess.PIPE, text=True, check=True)
        before, after, held, seconds = ran.stdout.split()
        print(f"budget {budget:>4}: {held:>5} MB of rows held at most; memory {before} → {after} MB, {seconds} s")
        asyncio.run(again(url))


async def again(url: str) -> None:
    """Make every row ready again."""
    queue = queue_on(url)
    await queue.mill.run(lambda connection: connection.execute(sa.update(queue.table).values(state="ready")).close())


if __name__ == "__main__":
    main()
