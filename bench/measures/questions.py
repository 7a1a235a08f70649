"""Time of a dashboard's queries on a big table."""

import asyncio
import statistics
import time
from collections.abc import Callable

import sqlalchemy as sa

import rowmill as rm
from bench.measures import Scale
from bench.peers.known import ROWMILL
from bench.results import Account, Result
from bench.runs import fresh
from bench.tables import STATES, narrow
from rowmill.operator.counts import counts, depth

TIMES = 10


def big_table(server: str, scale: Scale, account: Account) -> None:
    with fresh(ROWMILL, server, scale.backlog) as site:
        account.add(asyncio.run(ask(site.url, scale)))


async def ask(url: str, scale: Scale) -> list[Result]:
    mill = rm.Mill(url)
    queue = mill.queue(narrow(sa.MetaData()), states=STATES)
    async with mill.opened():
        sql = mill.store.sql(queue)
        thresholds = await times(mill, lambda connection: depth(connection, sql, at_least=1000))
        stats = await times(mill, lambda connection: counts(connection, sql))
    size = f"{scale.backlog:,} rows"
    return [
        Result(f"depth against a threshold, {size}", thresholds, 100.0, at_most=True, unit="ms"),
        Result(f"rows by state, as `rowmill stats` has them, {size}", stats, unit="ms"),
    ]


async def times(mill: rm.Mill, question: Callable[[sa.Connection], object]) -> float:
    """Return the median of several runs in milliseconds."""
    found = []
    for _ in range(TIMES):
        began = time.perf_counter()
        await mill.run(question, write=False)
        found.append((time.perf_counter() - began) * 1e3)
    return statistics.median(found)
