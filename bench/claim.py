"""Does a claim cost the same on a big table? Does a threshold on the depth?

    python -m bench.claim [--small 10000] [--big 10000000] [--rounds 30]

Fills a table twice, half of its rows ready and the rest finished, and measures claims of 100 rows and the
question "are more than 1,000 ready?" on each, through the same code that a worker and the CLI use.
"""

import argparse
import asyncio
import json
import statistics
import time
from typing import Any

import sqlalchemy as sa

import rowmill as rm
from bench.server import bench_server
from bench.tables import declare
from rowmill.store import upkeep
from rowmill.store.counts import depth

FILL = """
INSERT INTO bench_narrow (payload, state, available_at, finished_at)
SELECT '{}', CASE WHEN g % 2 = 0 THEN 'queued' ELSE 'completed' END,
       now() - (:rows - g) * interval '1 millisecond', CASE WHEN g % 2 = 1 THEN now() END
FROM generate_series(1, :rows) AS g
"""


async def measure(mill: rm.Mill, queue: rm.Queue[Any], rows: int, rounds: int) -> dict[str, float]:
    """Milliseconds, medians: a claim at the watermark, a claim from the start, the depth."""

    def fill(connection: sa.Connection) -> None:
        connection.execute(sa.text("TRUNCATE bench_narrow"))
        connection.execute(sa.text(FILL), {"rows": rows})

    await mill.run(fill)
    async with mill.store.engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.exec_driver_sql("VACUUM ANALYZE bench_narrow")
    mill.store.worker = await mill.run(lambda connection: upkeep.register(connection, [queue]))
    onward, first, deep = [], [], []
    for _ in range(rounds):
        mill.store.forget(queue)
        for times in (first, onward):
            began = time.perf_counter()
            leases = await mill.store.claim(queue, queue.steps[0], 100)
            times.append((time.perf_counter() - began) * 1e3)
            assert len(leases) == 100
        began = time.perf_counter()
        await mill.run(lambda connection: depth(connection, mill.store.terms(queue), at_least=1000), write=False)
        deep.append((time.perf_counter() - began) * 1e3)
    return {
        "claim_ms": statistics.median(onward),
        "claim_from_start_ms": statistics.median(first),
        "depth_ms": statistics.median(deep),
    }


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--big", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    with bench_server() as server:
        mill, queue = declare(server.url)
        async with mill.opened():
            await mill.migrate(tables=True)
            small = await measure(mill, queue, given.small, given.rounds)
            big = await measure(mill, queue, given.big, given.rounds)
    ratio = big["claim_ms"] / small["claim_ms"]
    print(json.dumps({"rows": given.small, **small}))
    print(json.dumps({"rows": given.big, **big}))
    print(json.dumps({"measure": "claim of 100, big / small", "goal": 2.0, "reached": ratio, "met": ratio <= 2.0}))
    print(
        json.dumps(
            {
                "measure": "depth against a threshold, ms",
                "goal": 100,
                "reached": big["depth_ms"],
                "met": big["depth_ms"] < 100,
            }
        )
    )


if __name__ == "__main__":
    asyncio.run(main())
