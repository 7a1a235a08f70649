"""How long do the questions take that a dashboard asks, on a big table?"""

import asyncio
import statistics
import time

import sqlalchemy as sa

import rowmill as rm
from bench.measures import Scale
from bench.peers import ROWMILL
from bench.results import Account, Result
from bench.runs import fresh
from bench.tables import STATES, narrow
from rowmill.store.counts import depth

TIMES = 10


def big_table(server: str, scale: Scale, account: Account) -> None:
    with fresh(ROWMILL, server, scale.backlog) as site:
        account.add(asyncio.run(ask(site.url, scale)))


async def ask(url: str, scale: Scale) -> list[Result]:
    mill = rm.Mill(url)
    queue = mill.queue(narrow(sa.MetaData()), states=STATES)
    async with mill.opened():
        times = []
        for _ in range(TIMES):
            began = time.perf_counter()
            await mill.run(lambda c: depth(c, mill.store.terms(queue), at_least=1000), write=False)
            times.append((time.perf_counter() - began) * 1e3)
    return [
        Result(
            f"depth against a threshold, {scale.backlog:,} rows",
            statistics.median(times),
            100.0,
            at_most=True,
            unit="ms",
        )
    ]
