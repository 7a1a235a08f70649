"""What an evaluation of the schedule of companies costs, and of its sensor.

    python -m bench.schedules_dagster [--rounds 500]

Evaluates them as a code server of Dagster does: in a process that has loaded the definitions, with settings that are
read anew at each tick. The sensor is switched off, so its figure is without the question to the database.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.results import Result

EVALUATION_MS = 50.0
ROUNDS = 500


def evaluation(rounds: int = ROUNDS) -> list[Result]:
    """Return the time of the first evaluation and of the slowest of the others, in milliseconds."""
    found = measure(rounds)
    print(json.dumps(found))
    return [
        Result("evaluation of the schedule: the first", found["schedule"]["first"], EVALUATION_MS, True, "ms"),
        Result("evaluation of the schedule: 99th percentile", found["schedule"]["p99"], EVALUATION_MS, True, "ms"),
        Result("evaluation of the sensor, switched off: 99th percentile", found["sensor"]["p99"], None, True, "ms"),
    ]


def measure(rounds: int) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ):
        os.environ |= {"DAGSTER_DISABLE_TELEMETRY": "1", "DATABASE_URL": f"sqlite:///{Path(folder) / 'companies.db'}"}
        import dagster as dg

        from rowmill_systems.companies.orchestration import async_enrichment_schedule, enrichment_queue_sensor

        began = datetime(2026, 1, 1, tzinfo=UTC)

        def tick_of_schedule(number: int) -> None:
            context = dg.build_schedule_context(scheduled_execution_time=began + timedelta(hours=number))
            assert async_enrichment_schedule.evaluate_tick(context).run_requests

        def tick_of_sensor(number: int) -> None:
            assert enrichment_queue_sensor.evaluate_tick(dg.build_sensor_context()).skip_message

        return {"schedule": timed(tick_of_schedule, rounds), "sensor": timed(tick_of_sensor, rounds)}


def timed(tick: Callable[[int], Any], rounds: int) -> dict[str, float]:
    """Return milliseconds: of the first call, and the median, the 99th percentile and the slowest of the others."""
    taken = []
    for number in range(rounds):
        began = time.perf_counter()
        tick(number)
        taken.append((time.perf_counter() - began) * 1e3)
    first, rest = taken[0], taken[1:]
    figures = {
        "first": first,
        "median": statistics.median(rest),
        "p99": statistics.quantiles(rest, n=100)[98],
        "max": max(rest),
    }
    return {name: round(figure, 3) for name, figure in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    results = evaluation(parser.parse_args().rounds)
    for result in results:
        print(json.dumps(result.as_dict()))
    if any(result.met is False for result in results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
