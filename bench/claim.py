"""Does a claim cost the same on a big table? Does a threshold on the depth?

    python -m bench.claim [--small 10000] [--big 10000000] [--rounds 20]

Fills two tables, half of their rows ready and the rest finished, and measures claims of 100 rows and the question
"are more than 1,000 ready?" on both in turn, through the same code that a worker and the CLI use.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import sqlalchemy as sa

import rowmill as rm
from bench.server import bench_server
from bench.tables import STATES, narrow
from rowmill.operator.counts import depth
from rowmill.store.own import fleet

T = TypeVar("T")
CLAIM = 100
FILL = """
INSERT INTO {table} (payload, state, available_at, finished_at)
SELECT '{{}}', CASE WHEN g % 2 = 0 THEN 'queued' ELSE 'completed' END,
       now() - (:rows - g) * interval '1 millisecond', CASE WHEN g % 2 = 1 THEN now() END
FROM generate_series(1, :rows) AS g
"""


@dataclass
class Subject:
    """A table of some size, and the milliseconds measured on it."""

    queue: rm.Queue[Any]
    rows: int
    onward: list[float] = field(default_factory=list)
    """Claims at the watermark."""
    first: list[float] = field(default_factory=list)
    """Claims from the start of the index."""
    depths: list[float] = field(default_factory=list)

    @property
    def medians(self) -> dict[str, float]:
        found = {"claim_ms": self.onward, "claim_from_start_ms": self.first, "depth_ms": self.depths}
        return {name: round(statistics.median(times), 3) for name, times in found.items()}


async def timed(times: list[float], work: Awaitable[T]) -> T:
    began = time.perf_counter()
    answer = await work
    times.append((time.perf_counter() - began) * 1e3)
    return answer


async def fill(mill: rm.Mill, subject: Subject) -> None:
    table = subject.queue.table.name
    await mill.run(lambda c: c.execute(sa.text(FILL.format(table=table)), {"rows": subject.rows}))
    async with mill.store.engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.exec_driver_sql(f"VACUUM ANALYZE {table}")


async def measure(mill: rm.Mill, subject: Subject) -> None:
    queue, store = subject.queue, mill.store
    store.forget(queue)
    for times in (subject.first, subject.onward):
        leases = await timed(times, store.claim(queue, queue.steps[0], CLAIM))
        assert len(leases) == CLAIM
    asked = mill.run(lambda connection: depth(connection, store.sql(queue), at_least=1000), write=False)
    await timed(subject.depths, asked)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--big", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    if given.rounds * 2 * CLAIM > given.small // 2:
        parser.error(f"{given.rounds} rounds claim {given.rounds * 2 * CLAIM} rows, and half of --small are ready")
    with bench_server() as server:
        mill, metadata = rm.Mill(server.url), sa.MetaData()
        small, big = [
            Subject(mill.queue(narrow(metadata, name), states=STATES), rows)
            for name, rows in (("bench_small", given.small), ("bench_big", given.big))
        ]
        async with mill.opened():
            await mill.migrate(tables=True)
            for subject in (small, big):
                await fill(mill, subject)
            mill.store.worker = await mill.run(lambda c: fleet.register(c, [small.queue, big.queue]))
            for _ in range(given.rounds):
                for subject in (small, big):
                    await measure(mill, subject)
    for subject in (small, big):
        print(json.dumps({"rows": subject.rows, **subject.medians}))
    ratio = big.medians["claim_ms"] / small.medians["claim_ms"]
    answers = [
        ("claim of 100, big / small", 2.0, ratio),
        ("depth against a threshold, ms", 100, big.medians["depth_ms"]),
    ]
    for name, goal, reached in answers:
        print(json.dumps({"measure": name, "goal": goal, "reached": round(reached, 2), "met": reached <= goal}))


if __name__ == "__main__":
    asyncio.run(main())
