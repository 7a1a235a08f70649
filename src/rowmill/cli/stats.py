"""`rowmill stats`: the state of all queues."""

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any

import typer
from sqlalchemy import Connection

from rowmill.cli import limits
from rowmill.cli.app import load_mill
from rowmill.cli.errors import explain
from rowmill.cli.exits import Exit
from rowmill.cli.help import LOOK
from rowmill.cli.options import AppOption, JsonOption, UrlOption
from rowmill.cli.output import clock, duration, emit, printable, say, table
from rowmill.cli.schedule import outcome
from rowmill.mill import Mill, Queue
from rowmill.model.lifecycle import StateKind
from rowmill.model.settle_lag import MEANINGS
from rowmill.operator import activity, counts
from rowmill.operator.activity import DeadRows, SettleRate, WorkerView, dead_rows
from rowmill.operator.counts import How, StateCount
from rowmill.reconcile import runs
from rowmill.reconcile.runs import RunView
from rowmill.schedules import admin
from rowmill.schedules.admin import ScheduleView
from rowmill.store.clock import as_moment
from rowmill.store.limits.asks import LimitSummary
from rowmill.store.own import fleet, schema

MINUTES = 60
REFRESH = 2.0
"""Seconds between two views of --watch."""
SHOWN = 10
"""Error codes that are printed for people; --json has all of them."""
IDLE = 2
"""Minutes without a settled row after which no rate is shown."""
MARKS = {How.EXACT: "", How.CAPPED: "≥", How.ESTIMATED: "~"}
CLEAR = "\x1b[H\x1b[2J\x1b[3J"
"""Clears the terminal."""


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=LOOK)(stats)


def stats(
    queues: Annotated[
        list[str] | None, typer.Argument(metavar="QUEUE", help="The queues to show. Default: all.")
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Refresh every 2 seconds until Ctrl-C. With --json, one line each time.")
    ] = False,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Show the state of the queues: rows by state, the oldest ready row, throughput, failures and dead rows; also
    limits, schedules and workers.

    Counts are exact on small tables. On big ones they are estimated (~), or a lower bound (≥).

    \b
    Example:
      rowmill stats
      rowmill stats files --json
      rowmill stats --watch
    """
    mill = load_mill(app, database_url)
    names = queues or list(mill.queues)
    if watch:
        keep_showing(mill, names, json)
    else:
        found = asyncio.run(gather(mill, names))
        emit(found, json, lambda: show(found))


def keep_showing(mill: Mill, names: list[str], json: bool) -> None:
    """Print the view again and again. While the database is unreachable, wait for it."""
    shown = False
    while True:
        try:
            found = asyncio.run(gather(mill, names))
        except Exception as error:
            code, text = explain(error)
            if not shown or code is not Exit.UNREACHABLE:
                raise
            say(f"rowmill: {text}")
        else:
            shown = True
            if not write_view(found, json):
                return
        time.sleep(REFRESH)


def write_view(found: dict[str, Any], json: bool) -> bool:
    """Print one view of --watch. Return False if the reader is gone."""

    def view() -> None:
        if sys.stdout.isatty():
            print(CLEAR, end="")
        print(f"{clock(found['at'])}, every {REFRESH:.0f} s until Ctrl-C\n")
        show(found)
        print()

    return emit(found, json, view)


async def gather(mill: Mill, names: list[str]) -> dict[str, Any]:
    chosen = [mill[name] for name in names]
    async with mill.opened() as store:
        await store.run(schema.check_version, write=False)
        at = await store.run(activity.database_time, write=False)
        every = [await store.run(partial(of_queue, mill, queue), write=False) for queue in chosen]
        workers = await store.run(activity.workers, write=False)
        limited = await store.run(lambda connection: limits.summaries(connection, mill), write=False)
        planned = await store.run(lambda connection: admin.schedules(connection, mill.schedules), write=False)
        last = [run for name in mill.reconciliations for run in await store.run(partial(last_run, name), write=False)]
    return {
        "at": at,
        "queues": every,
        "limits": limited,
        "schedules": planned,
        "reconciliations": last,
        "workers": workers,
    }


def last_run(name: str, connection: Connection) -> list[RunView]:
    return runs.history(connection, name, 1)


def of_queue(mill: Mill, queue: Queue[Any], connection: Connection) -> dict[str, Any]:
    activity.read_at_one_moment(connection)
    sql = mill.store.sql(queue)
    states = counts.counts(connection, sql)
    minutes = activity.throughput(connection, queue, MINUTES)
    totals: dict[str, int] = {}
    for minute in minutes:
        for move, rows in minute.moves.items():
            totals[move] = totals.get(move, 0) + rows
    rate = activity.settle_rate(minutes, activity.database_time(connection))
    failed = activity.failures(connection, queue)
    none_died = all(state.rows == 0 and state.count is How.EXACT for state in states if state.kind == StateKind.DEAD)
    return {
        "queue": queue.name,
        "table": str(queue.table.fullname),
        "stages": [step.name for step in queue.steps],
        "count": How.ESTIMATED if any(state.count is How.ESTIMATED for state in states) else How.EXACT,
        "states": states,
        "kinds": kinds(states),
        "oldest_ready_seconds": activity.oldest_ready(connection, sql),
        "paused": [
            {"stage": stage or None, "since": as_moment(since)}
            for stage, since in fleet.paused(connection, queue).items()
        ],
        "throughput": {
            "minutes": minutes,
            "last_hour": totals,
            "per_minute": round(rate.per_minute, 3),
            "over_minutes": rate.over_minutes,
            "idle_minutes": rate.idle_minutes,
        },
        "failures": failed.codes,
        "failures_count": failed.count,
        "dead": DeadRows() if none_died else dead_rows(connection, sql),
        "keep_seconds": queue.retention.ages(),
    }


def kinds(states: list[StateCount]) -> dict[str, int]:
    """Sum rows by kind of state."""
    found: dict[str, int] = {}
    for state in states:
        found[state.kind] = found.get(state.kind, 0) + state.rows
    return found


def show(found: dict[str, Any]) -> None:
    for one in found["queues"]:
        staged = len(one["stages"]) > 1
        heads = ["state", "kind", *(["stage"] if staged else []), "rows"]
        rows = [
            [
                state.word or "NULL",
                state.kind,
                *([state.stage or ""] if staged else []),
                marked(state.rows, state.count),
            ]
            for state in one["states"]
        ]
        table(heads, rows, title=f"queue {one['queue']}")
        for line in summary(one):
            print(printable(line))
        print()
    for one in found["limits"]:
        print(printable(of_limit(one)))
    for one in found["schedules"]:
        print(printable(of_schedule(one)))
    for run in found["reconciliations"]:
        print(printable(of_run(run)))
    show_workers(found["workers"])


def show_workers(workers: list[WorkerView]) -> None:
    """Print workers that are alive or silent, and the number of those that stopped."""
    for worker in workers:
        for line in unwritten(worker):
            print(printable(line))
    shown = [worker for worker in workers if not worker.stopped]
    if shown:
        heads = ["worker", "host", "process", "queues", "seen", "is"]
        table(heads, [[w.id, w.host, w.pid, ", ".join(w.queues), ago(w.seen_seconds_ago), status(w)] for w in shown])
    else:
        print("no workers")
    if stopped := len(workers) - len(shown):
        print(f"{stopped:,} stopped in the last hour")


def unwritten(worker: WorkerView) -> Iterator[str]:
    """Yield a line per queue for which a live worker has finished rows that it could not write."""
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


def of_run(run: RunView) -> str:
    started = clock(run.started_at)
    return f"reconciliation {run.name}: drift {run.findings:,}, last run {started}, {run.outcome or 'running'}"


def of_schedule(one: ScheduleView) -> str:
    last = f"last run {clock(one.last.started_at)}, {outcome(one.last)}" if one.last else "never run"
    return f"schedule {one.name}: {'paused' if one.paused_since else f'next run {clock(one.next_at)}'}, {last}"


def summary(one: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines below the table of a queue."""
    parts = []
    if one["oldest_ready_seconds"] is not None:
        parts.append(f"oldest ready row waits {duration(one['oldest_ready_seconds'])}")
    speed = one["throughput"]
    parts.append(speed_of(SettleRate(speed["per_minute"], speed["over_minutes"], speed["idle_minutes"])))
    parts += [f"stage {pause['stage']} is paused" if pause["stage"] else "paused" for pause in one["paused"]]
    yield "; ".join(parts)
    if one["failures"]:
        yield f"failures in the last hour: {by_code(one['failures'], one['failures_count'])}"
    dead: DeadRows = one["dead"]
    if dead.rows:
        without = [("without a code", dead.without_code)] if dead.without_code else []
        yield f"dead rows: {by_code(dead.codes, dead.count, without)}"
    if one["keep_seconds"]:
        yield "; ".join(f"{kind} rows are kept for {duration(age)}" for kind, age in one["keep_seconds"].items())


def speed_of(rate: SettleRate) -> str:
    """Describe how fast rows are settled, or since when none was."""
    if rate.idle_minutes is None:
        return "nothing settled in the last hour"
    if rate.idle_minutes >= IDLE:
        return f"nothing settled for {rate.idle_minutes} min"
    rows = f"{rate.per_minute:,.0f}" if rate.per_minute >= 10 else f"{rate.per_minute:.1f}"
    return f"{rows} rows settled a minute over the last {rate.over_minutes} min"


def by_code(codes: Mapping[str, int], count: How, others: list[tuple[str, int]] | None = None) -> str:
    """List counts by code, most frequent first."""
    listed = [*list(codes.items())[:SHOWN], *(others or [])]
    text = ", ".join(f"{code} {marked(rows, count)}" for code, rows in listed)
    left = len(codes) - SHOWN
    return f"{text}, and {left:,} more {'code' if left == 1 else 'codes'}" if left > 0 else text


def marked(rows: int, count: How) -> str:
    """Format a count, marked as an estimate (~) or a lower bound (≥)."""
    return f"{MARKS[count]}{rows:,}"


def ago(seconds: float) -> str:
    return f"{duration(seconds)} ago"


def status(worker: WorkerView) -> str:
    return "alive" if worker.alive else "stopped" if worker.stopped else "silent"
