"""`rowmill stats`: how the queues stand."""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import typer
from sqlalchemy import Connection

from rowmill.cli import limits
from rowmill.cli.app import load_mill
from rowmill.cli.options import AppOption, JsonOption, UrlOption
from rowmill.cli.output import duration, emit, table
from rowmill.cli.schedule import clock, outcome
from rowmill.mill import Mill, Queue
from rowmill.model.settle_lag import MEANINGS
from rowmill.store import activity, counts, pausing, runs, schedule_ops, schema
from rowmill.store.activity import Minute, WorkerView
from rowmill.store.counts import How, StateCount
from rowmill.store.limiting.asks import LimitSummary
from rowmill.store.moment import as_moment
from rowmill.store.runs import RunView
from rowmill.store.schedule_ops import ScheduleView

MINUTES = 60
RECENT = 5
"""Minutes over which the rate for people is taken."""


def register(app: typer.Typer) -> None:
    app.command()(stats)


def stats(
    queues: Annotated[
        list[str] | None, typer.Argument(metavar="[QUEUE]...", help="Which queues; all by default.")
    ] = None,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """How the queues stand: rows by state, the oldest ready row, throughput, failures; limits, schedules, workers.

    Counts are exact on small tables and estimated (~) on big ones.

    \b
    Example:
      rowmill stats
      rowmill stats files --json
    """
    mill = load_mill(app, database_url)
    found = asyncio.run(gather(mill, queues or list(mill.queues)))
    emit(found, json, lambda: show(found))


async def gather(mill: Mill, names: list[str]) -> dict[str, Any]:
    chosen = [mill[name] for name in names]
    async with mill.opened() as store:
        await store.run(schema.check_version, write=False)
        every = [await store.run(partial(of_queue, mill, queue), write=False) for queue in chosen]
        workers = await store.run(activity.workers, write=False)
        limited = await store.run(lambda connection: limits.summaries(connection, mill), write=False)
        planned = await store.run(lambda connection: schedule_ops.schedules(connection, mill.schedules), write=False)
        last = [run for name in mill.reconciliations for run in await store.run(partial(last_run, name), write=False)]
    return {"queues": every, "limits": limited, "schedules": planned, "reconciliations": last, "workers": workers}


def last_run(name: str, connection: Connection) -> list[RunView]:
    return runs.history(connection, name, 1)


def of_queue(mill: Mill, queue: Queue[Any], connection: Connection) -> dict[str, Any]:
    terms = mill.store.terms(queue)
    states = counts.counts(connection, terms)
    minutes = activity.throughput(connection, queue, MINUTES)
    totals: dict[str, int] = {}
    for minute in minutes:
        for move, rows in minute.moves.items():
            totals[move] = totals.get(move, 0) + rows
    return {
        "queue": queue.name,
        "table": str(queue.table.fullname),
        "stages": [step.name for step in queue.steps],
        "count": How.ESTIMATED if any(state.count is How.ESTIMATED for state in states) else How.EXACT,
        "states": states,
        "kinds": kinds(states),
        "oldest_ready_seconds": activity.oldest_ready(connection, terms),
        "paused": [
            {"stage": stage or None, "since": as_moment(since)}
            for stage, since in pausing.paused(connection, queue).items()
        ],
        "throughput": {"minutes": minutes, "last_hour": totals},
        "failures": activity.failures(connection, queue),
        "keep_seconds": queue.keep.ages(),
    }


def kinds(states: list[StateCount]) -> dict[str, int]:
    """Rows by what their words mean."""
    found: dict[str, int] = {}
    for state in states:
        found[state.kind] = found.get(state.kind, 0) + state.rows
    return found


def show(found: dict[str, Any]) -> None:
    for one in found["queues"]:
        staged = len(one["stages"]) > 1
        heads = ["state", "kind", *(["stage"] if staged else []), "rows"]
        rows = [
            [state.word or "NULL", state.kind, *([state.stage or ""] if staged else []), number(state)]
            for state in one["states"]
        ]
        table(heads, rows, title=f"queue {one['queue']}")
        print(summary(one))
        print()
    for one in found["limits"]:
        print(of_limit(one))
    for one in found["schedules"]:
        print(of_schedule(one))
    for run in found["reconciliations"]:
        when = f"{run.started_at:%Y-%m-%d %H:%M}" if run.started_at else ""
        print(f"reconciliation {run.name}: drift {run.findings:,}, last run {when}, {run.outcome or 'running'}")
    workers: list[WorkerView] = found["workers"]
    if not workers:
        print("no workers")
        return
    for worker in workers:
        for line in unwritten(worker):
            print(line)
    heads = ["worker", "host", "process", "queues", "seen", "is"]
    table(heads, [[w.id, w.host, w.pid, ", ".join(w.queues), ago(w.seen_seconds_ago), standing(w)] for w in workers])


def unwritten(worker: WorkerView) -> Iterator[str]:
    """What a living worker has finished and could not write."""
    for queue, lag in worker.settle_lags.items() if worker.alive else ():
        if lag.rows:
            yield (
                f"queue {queue}: worker {worker.id} has finished {lag.rows:,} {'row' if lag.rows == 1 else 'rows'} and "
                f"could not write them for {duration(lag.seconds)}: {MEANINGS.get(lag.reason, lag.reason)}"
            )


def of_limit(one: LimitSummary) -> str:
    trouble = {"off": one.off, "parked": one.parked, "down": one.down, "spent": one.spent}
    parts = [f"{count:,} {word}" for word, count in trouble.items() if count]
    keys = f"{one.keys:,} {'key' if one.keys == 1 else 'keys'} in use"
    differ = f"; {limits.differing(one)}" if one.declared else ""
    return f"limit {one.limit}: {keys}, {', '.join(parts) or 'none in trouble'}{differ}"


def of_schedule(one: ScheduleView) -> str:
    last = f"last run {clock(one.last.started_at)}, {outcome(one.last)}" if one.last else "never run"
    return f"schedule {one.name}: {'paused' if one.paused_since else f'next run {clock(one.next_at)}'}, {last}"


def number(state: StateCount) -> str:
    return f"{'~' if state.count is How.ESTIMATED else ''}{state.rows:,}"


def summary(one: dict[str, Any]) -> str:
    parts = []
    if one["oldest_ready_seconds"] is not None:
        parts.append(f"oldest ready row waits {duration(one['oldest_ready_seconds'])}")
    minutes: list[Minute] = one["throughput"]["minutes"][-RECENT:]
    settled = sum(sum(minute.moves.values()) for minute in minutes)
    if minutes:
        parts.append(f"{settled / len(minutes):,.0f} rows settled a minute")
    if one["failures"]:
        top = list(one["failures"].items())[:3]
        parts.append("failures in the last hour: " + ", ".join(f"{code} {count:,}" for code, count in top))
    parts += [f"stage {pause['stage']} is paused" if pause["stage"] else "paused" for pause in one["paused"]]
    if not parts:
        parts.append("nothing settled in the last hour")
    parts += [f"{kind} rows are kept for {duration(age)}" for kind, age in one["keep_seconds"].items()]
    return "; ".join(parts)


def ago(seconds: float) -> str:
    return f"{duration(seconds)} ago"


def standing(worker: WorkerView) -> str:
    return "alive" if worker.alive else "stopped" if worker.stopped else "silent"
