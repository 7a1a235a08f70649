"""`rowmill schedule`: list schedules and their runs, run one now, pause, resume."""

import asyncio
from typing import Annotated, Any

import typer

from rowmill.cli.app import load_mill
from rowmill.cli.help import LOOK
from rowmill.cli.options import AppOption, JsonOption, LimitOption, UrlOption
from rowmill.cli.output import clock, emit, table
from rowmill.cli.rows import cut, read
from rowmill.mill import Mill
from rowmill.model.schedule import PASSED_OVER, Schedule
from rowmill.schedules import admin
from rowmill.schedules.admin import ScheduleView, TickView
from rowmill.store.own import schema
from rowmill.store.own.schedule_tables import QUEUE

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the schedule.")]
group = typer.Typer(
    help="Schedules: list, history, run now, pause, resume.", no_args_is_help=True, add_completion=False
)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="schedule", rich_help_panel=LOOK)


@group.command("list")
def list_schedules(app: AppOption = None, database_url: UrlOption = None, json: JsonOption = False) -> None:
    """List schedules: expression, zone, the last run and its outcome, the next run. Times are UTC.

    \b
    Example:
      rowmill schedule list
      rowmill schedule list --json
    """
    mill = load_mill(app, database_url)
    found = read(mill, lambda connection: admin.schedules(connection, mill.schedules))

    def shown() -> None:
        heads = ["name", "expression", "zone", "last run", "outcome", "seconds", "next run", ""]
        table(heads, [list_row(one) for one in found])

    emit({"schedules": found}, json, shown if found else "no schedules")


def list_row(one: ScheduleView) -> list[Any]:
    last = one.last
    return [
        one.name,
        one.expression,
        one.zone,
        clock(last.started_at) if last else "never",
        outcome(last) if last else "",
        seconds(last) if last else "",
        "paused" if one.paused_since else clock(one.next_at),
        one.note,
    ]


@group.command()
def history(
    name: NameArgument,
    limit: LimitOption = 20,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """List the ticks of a schedule, newest first: when they were due, started and ended, and their outcome.

    \b
    Example:
      rowmill schedule history cleanup
      rowmill schedule history cleanup --limit 100 --json
    """
    mill = load_mill(app, database_url)
    found = read(mill, lambda connection: admin.history(connection, name, limit))
    if not found:
        mill.find_schedule(name)

    def shown() -> None:
        heads = ["tick", "due", "began", "seconds", "outcome", "attempts", "error"]
        rows = [
            [t.id, clock(t.due_at), clock(t.started_at), seconds(t), outcome(t), t.attempts, cut(t.error)]
            for t in found
        ]
        table(heads, rows)

    emit({"schedule": name, "ticks": found}, json, shown if found else "no tick was due yet")


@group.command("run")
def run_now(
    name: NameArgument, app: AppOption = None, database_url: UrlOption = None, json: JsonOption = False
) -> None:
    """Run a schedule now, even if it is paused. A worker runs it as an extra tick.

    \b
    Example:
      rowmill schedule run cleanup
    """
    mill, schedule = found(app, database_url, name)

    async def running() -> int:
        async with mill.opened() as store:
            key: int = await store.run(schema.checked(lambda connection: admin.run_now(connection, schedule)))
            await store.notify_workers([mill[QUEUE]])
            return key

    key = asyncio.run(running())
    emit({"schedule": name, "tick": key}, json, f"tick {key} of {name} is ready. See: rowmill why {QUEUE} {key}")


@group.command()
def pause(name: NameArgument, app: AppOption = None, database_url: UrlOption = None, json: JsonOption = False) -> None:
    """Stop starting ticks of a schedule. A tick that has started still finishes, including its retries.

    \b
    Example:
      rowmill schedule pause cleanup
    """
    mill, schedule = found(app, database_url, name)
    new = asyncio.run(mill.run(schema.checked(lambda connection: admin.pause(connection, schedule))))
    text = f"schedule {name} is paused" if new else f"schedule {name} was paused already"
    emit({"schedule": name, "paused": True, "changed": new}, json, text)


@group.command()
def resume(name: NameArgument, app: AppOption = None, database_url: UrlOption = None, json: JsonOption = False) -> None:
    """Resume a schedule from now on. Ticks missed during the pause are not run.

    \b
    Example:
      rowmill schedule resume cleanup
    """
    mill, schedule = found(app, database_url, name)
    ended = asyncio.run(mill.run(schema.checked(lambda connection: admin.resume(connection, schedule))))
    text = f"schedule {name} is resumed" if ended else f"schedule {name} was not paused"
    emit({"schedule": name, "paused": False, "changed": ended}, json, text)


def found(app: str | None, database_url: str | None, name: str) -> tuple[Mill, Schedule]:
    mill = load_mill(app, database_url)
    return mill, mill.find_schedule(name)


def seconds(tick: TickView) -> str:
    return "" if tick.seconds is None else f"{tick.seconds:.3f}"


def outcome(tick: TickView) -> str:
    """Describe the state of a tick for people."""
    shown = {"dead": "failed"}.get(tick.state, tick.state)
    if tick.state == "cancelled" and PASSED_OVER in (tick.error or ""):
        shown = PASSED_OVER
    return f"{shown} (by hand)" if tick.manual else shown
