"""A schedule every second, for a minute, on three processes that are killed all the time. What does an evaluation cost?

    python -m bench.schedules [--seconds 60] [--sqlite]

Every tenth tick kills its own process in the middle of its transaction, and every seven seconds one more is killed from
outside. Says how many ticks were due, how many had their effect, how many had it twice, and how late they began.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from bench.server import bench_server
from rowmill.model.schedule import Cron, Every
from rowmill.store.own.schema import own_tables
from tests.schedules.fleet import Fleet


def watch(url: str, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(url, Path(folder), size=3, kill_every=10)
        fleet.prepare()
        try:
            kills = killing(fleet, seconds)
            effects = [due for due, _ in fleet.effects()]
            late, begun = lateness(fleet), len(fleet.begun())
        finally:
            fleet.stop()
    return {
        "ticks_due": effects[-1] - effects[0] + 1,
        "effective_once": len({due for due in effects if effects.count(due) == 1}),
        "effective_twice": len(effects) - len(set(effects)),
        "in_order": effects == sorted(effects),
        "begun": begun,
        "processes_killed": fleet.deaths,
        "of_these_from_outside": kills,
        "late_ms_median": round(statistics.median(late) * 1e3, 1),
        "late_ms_max": round(max(late) * 1e3, 1),
    }


def killing(fleet: Fleet, seconds: float) -> int:
    kills, wanted = 0, 0
    while not fleet.effects():
        fleet.fill()
        time.sleep(0.1)
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        fleet.fill()
        wanted = int((time.monotonic() - began) / 7)
        if kills < wanted:
            fleet.kill_one()
            kills += 1
        time.sleep(0.1)
    return kills


def lateness(fleet: Fleet) -> list[float]:
    """Return seconds from due to start, for ticks that succeeded at their first attempt and waited for no other."""
    tick = own_tables(fleet.mill.store.dialect.name).tick
    wanted = sa.select(tick).where(tick.c.schedule == "beat", tick.c.state == "done").order_by(tick.c.due_at)
    rows = asyncio.run(fleet.mill.run(lambda c: c.execute(wanted).all(), write=False))
    free = [row for before, row in pairwise(rows) if before.finished_at < row.due_at]
    return [(row.started_at - row.due_at).total_seconds() for row in free if row.attempts == 1]


def evaluations() -> dict[str, float]:
    """Measure how long it takes to compute the next time of a schedule, in milliseconds."""
    now, found = datetime(2026, 1, 1, 12, 0, 1, tzinfo=UTC), {}
    for timing in (
        Cron("0 * * * *", "Asia/Shanghai"), Cron("0 3 * * *"), Cron("*/5 * * * * *"), Cron("0 0 29 2 *"), Every(10.0),
    ):  # fmt: skip
        times = []
        for _ in range(200):
            began = time.perf_counter()
            timing.following(now)
            timing.last(now)
            times.append((time.perf_counter() - began) * 1e3)
        found[timing.text] = round(statistics.median(times), 3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--sqlite", action="store_true")
    given = parser.parse_args()
    print(json.dumps({"evaluation_ms": evaluations()}))
    if given.sqlite:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(watch(f"sqlite:///{folder}/rowmill.db", given.seconds)))
    else:
        with bench_server() as server:
            print(json.dumps(watch(server.url, given.seconds)))


if __name__ == "__main__":
    main()
