"""Two million rows against two million keys with a thousand differences: are exactly those found, and in what memory?

    python -m bench.reconcile [--things 2000000] [--differences 1000] [--only postgres,sqlite,text,shuffled]

Each comparison runs in a process of its own, which did nothing before. Its memory is watched from when it is connected
until the end; what it grew by includes all that is compiled and cached on the way.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import psutil
import sqlalchemy as sa
from sqlalchemy import Connection

import rowmill as rm
from bench.server import bench_server
from rowmill import reconcile

SEED = 7
LIMIT_MB = 50.0
STORES = ("postgres", "sqlite", "text", "shuffled")
"""Rows with integer keys on both databases; text keys on PostgreSQL without a bytewise index; the other side
unsorted."""


def differences(things: int, number: int) -> tuple[set[int], set[int]]:
    """Return the keys that only the rows have, and those that only the other side has."""
    chosen = random.Random(SEED).sample(range(things), number)
    return set(chosen[: number // 2]), set(chosen[number // 2 :])


def table_of(text: bool) -> sa.Table:
    kind: Any = sa.Text(collation="ucs_basic") if text else sa.BigInteger().with_variant(sa.Integer, "sqlite")
    return sa.Table("thing", sa.MetaData(), sa.Column("id", kind, primary_key=True), sa.Column("state", sa.Text))


def key_of(text: bool) -> Callable[[int], Any]:
    return (lambda number: f"kb-{number:09}") if text else (lambda number: number)


def fill(connection: Connection, table: sa.Table, things: int, lacking: set[int], text: bool) -> None:
    table.create(connection)
    key, rows = key_of(text), []
    for number in range(things):
        if number not in lacking:
            rows.append({"id": key(number), "state": "READY"})
        if len(rows) >= 20_000 or number == things - 1:
            connection.execute(sa.insert(table), rows)
            rows = []


async def prepare(url: str, store: str, things: int, number: int) -> None:
    mill, text = rm.Mill(url), store == "text"
    _, lacking = differences(things, number)
    await mill.migrate()
    await mill.run(lambda connection: fill(connection, table_of(text), things, lacking, text))


async def compare(url: str, store: str, things: int, number: int) -> dict[str, Any]:
    only_rows, only_others = differences(things, number)
    text, shuffled = store == "text", store == "shuffled"
    table, key, mill = table_of(text), key_of(text), rm.Mill(url)

    def others() -> Iterator[Any]:
        if shuffled:  # a walk over all numbers without a list of them
            step = next(step for step in range(things * 5 // 8, things * 2) if things % step and _coprime(step, things))
            numbers: Any = ((place * step) % things for place in range(things))
        else:
            numbers = range(things)
        return (key(one) for one in numbers if one not in only_rows)

    found = mill.reconciliation(
        "things",
        inventories={
            "rows": reconcile.rows(table, facts=["state"]),
            "others": reconcile.inventory(others, sort=shuffled),
        },
        rules=[
            reconcile.missing("lost", present="rows", absent="others", when=lambda row: row["state"] == "READY"),
            reconcile.missing("orphan", present="others", absent="rows"),
        ],
        recheck=False,
    )
    async with mill.opened():
        await found.history()
        began = time.perf_counter()
        with Peak() as peak:
            report = await found.run()
        seconds = time.perf_counter() - began
    keys = {(one.kind, one.key) for one in report.findings}
    wanted = {("lost", key(one)) for one in only_rows} | {("orphan", key(one)) for one in only_others}
    return {
        "store": store, "things": sum(report.observed.values()), "findings": report.drift, "exact": keys == wanted,
        "seconds": round(seconds, 1), "things_a_second": round(sum(report.observed.values()) / seconds),
        "grown_mb": round((peak.rss - peak.before) / 2**20, 1), "rss_mb": round(peak.rss / 2**20, 1),
    }  # fmt: skip


class Peak:
    """The most memory during the block, sampled by a thread every few milliseconds."""

    def __init__(self) -> None:
        self._process, self._over = psutil.Process(), threading.Event()
        self.before = self.rss = self._process.memory_info().rss
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.rss = max(self.rss, self._process.memory_info().rss)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def _coprime(one: int, other: int) -> bool:
    while other:
        one, other = other, one % other
    return one == 1


def measure(store: str, things: int, number: int) -> dict[str, Any]:
    if store in ("postgres", "text"):
        with bench_server() as server:
            return in_processes(store, server.url, things, number)
    with tempfile.TemporaryDirectory() as folder:
        return in_processes(store, f"sqlite:///{Path(folder) / 'things.db'}", things, number)


def in_processes(store: str, url: str, things: int, number: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.reconcile", "--things", str(things), "--differences", str(number)]
    subprocess.run([*command, "--part", "prepare", store, url], check=True)
    said = subprocess.run([*command, "--part", "compare", store, url], check=True, capture_output=True, text=True)
    answer: dict[str, Any] = json.loads(said.stdout)
    return answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--things", type=int, default=2_000_000)
    parser.add_argument("--differences", type=int, default=1000)
    parser.add_argument("--only", default=",".join(STORES))
    parser.add_argument("--part", nargs=3, metavar=("PART", "STORE", "URL"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        part, store, url = given.part
        if part == "prepare":
            asyncio.run(prepare(url, store, given.things, given.differences))
        else:
            print(json.dumps(asyncio.run(compare(url, store, given.things, given.differences))))
        return 0
    failed = False
    for store in given.only.split(","):
        one = measure(store, given.things, given.differences)
        good = one["exact"] and one["grown_mb"] < LIMIT_MB
        failed |= not good
        print(json.dumps(one), "" if good else "  <- not as it should be", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
