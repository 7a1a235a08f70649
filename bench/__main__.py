"""Measure Rowmill beside its peers and beside the limit.

    python -m bench [--all] [--only NAME,NAME [--update]] [--quick]

Each measure starts on fresh databases of a PostgreSQL of its own, in rounds that alternate between the peers.
The figures are written to bench/results/latest.json. Compare figures of one run only.
"""

import argparse
import json
import os
import platform
import sys
import time

import psycopg

from bench.environments import HERE, versions
from bench.measures import (
    QUICK,
    Measure,
    Scale,
    backlog,
    cost,
    drain,
    enqueue,
    footprint,
    latency,
    pinned,
    questions,
    settling,
    sqlite,
)
from bench.page import write_page
from bench.results import LATEST, LONGER, Account, table
from bench.server import bench_server

MEASURES: dict[str, Measure] = {
    "drain": drain.narrow,
    "drain-wide": drain.wide,
    "drain-two": drain.two_processes,
    "settling": settling.transactions,
    "sync": settling.sync,
    "backlog": backlog.waiting,
    "pinned": pinned.pinned,
    "enqueue-one": enqueue.one,
    "enqueue-bulk": enqueue.many,
    "latency": latency.idle,
    "sqlite": sqlite.drain,
    "worker": footprint.worker,
    "cost": cost.server_side,
}
MORE: dict[str, Measure] = {
    "shapes": drain.shapes,
    "workers": footprint.beside_peers,
    "statements": cost.statements,
    "questions": questions.big_table,
    "unpinned": pinned.control,
    "finished": backlog.finished,
}
"""Measured only with `--all` or by name."""


def about(server_url: str) -> dict[str, object]:
    with psycopg.connect(server_url) as connection:
        [server] = connection.execute("SELECT version()").fetchone() or [""]
    with (HERE / "node" / "package-lock.json").open() as lock:
        packages = json.load(lock)["packages"]
    peers = {name: versions(name)[name] for name in ("pgqueuer", "procrastinate", "huey")} | {
        "awa": versions("awa")["awa-pg"]
    }
    return {
        "postgresql": str(server).split(" on ")[0],
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "peers": peers | {"graphile-worker": packages["node_modules/graphile-worker"]["version"]},
        "drivers": {name: versions(None)[name] for name in ("asyncpg", "uvloop", "SQLAlchemy")},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="also what takes longer")
    parser.add_argument("--only", help=f"a list out of {', '.join([*MEASURES, *MORE])}")
    parser.add_argument("--update", action="store_true", help="with --only: put the figures into the last results")
    parser.add_argument("--quick", action="store_true", help="show that it works; the figures mean nothing")
    given = parser.parse_args()
    known = MEASURES | MORE
    names = given.only.split(",") if given.only else list(known if given.all else MEASURES)
    if unknown := set(names) - set(known):
        parser.error(f"no such measure: {', '.join(sorted(unknown))}")
    accounts, began = {LATEST: Account(), LONGER: Account()}, time.monotonic()
    with bench_server() as server:
        for name in names:
            account = accounts[LATEST if name in MEASURES else LONGER]
            before = len(account.results)
            print(f"[{time.monotonic() - began:5.0f} s] {name}", file=sys.stderr, flush=True)
            known[name](server.url, QUICK if given.quick else Scale(), account)
            print(table(account.results[before:]), flush=True)
        if given.update and given.only and not given.quick:
            for path, account in accounts.items():
                if account.results or account.raw:
                    account.put_into(path)
            write_page()
        if given.quick or given.only:
            return
        facts = about(server.url) | {"seconds": round(time.monotonic() - began), "measures": names}
    for path, account in accounts.items():
        if account.results:
            account.write(facts, path)
            print(f"written to {path.relative_to(HERE.parent)}", file=sys.stderr)
    write_page()


if __name__ == "__main__":
    main()
