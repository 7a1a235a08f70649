"""`rowmill watch`: raise alerts when a queue is in trouble."""

import asyncio
import os
from typing import Annotated, Any

import typer

from rowmill.cli.app import load_mill
from rowmill.cli.exits import Exit
from rowmill.cli.help import RUN
from rowmill.cli.logs import LogFormat, start_log
from rowmill.cli.options import AppOption, JsonOption, UrlOption
from rowmill.cli.output import emit, table
from rowmill.cli.process import StopSignals
from rowmill.cli.work import FormatOption, LevelOption, MillArgument, QueueOption, one_of
from rowmill.maintenance.watcher import Hook, Watcher
from rowmill.mill import Mill
from rowmill.model.alerts import UNREACHABLE, Alert
from rowmill.observe.webhook import Webhook

VARIABLE = "ROWMILL_ALERT_WEBHOOK"


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=RUN)(watch)


def watch(
    where: MillArgument = None,
    app: AppOption = None,
    queue: QueueOption = None,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=1.0, help="Seconds between two checks.")
    ] = 30.0,
    remind: Annotated[
        float,
        typer.Option("--remind", metavar="SECONDS", min=1.0, help="Repeat an alert that still holds after this time."),
    ] = 3600.0,
    webhook: Annotated[
        str | None,
        typer.Option("--webhook", metavar="URL", help=f"POST alerts to this URL as JSON. Default: {VARIABLE}."),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Check once, print the alerts, and exit with 5 if there are any.")
    ] = False,
    database_url: UrlOption = None,
    log_level: LevelOption = None,
    log_format: FormatOption = LogFormat.TEXT,
    json: JsonOption = False,
) -> None:
    """Watch the queues and raise alerts: backlog, rows that wait too long, dead rows, no workers, drift.

    Run it apart from the workers, so that it detects when they are gone. Each alert is a log record with the fields
    alert and severity. Declare thresholds with each queue: mill.queue(..., alerts=rowmill.Alerts(backlog=10_000)).

    \b
    Example:
      rowmill watch app:mill
      rowmill watch app:mill --once --json
    """
    mill = load_mill(one_of(where, app), database_url)
    address = webhook or os.environ.get(VARIABLE)
    hooks: list[Hook] = [Webhook(address)] if address else []
    if once:
        found = asyncio.run(look(mill, queue, hooks))
        emit({"alerts": found}, json, lambda: show(found))
        raise typer.Exit(Exit.UNREACHABLE if UNREACHABLE in found else Exit.FINDINGS if found else Exit.OK)
    start_log(log_level, log_format)
    signals = StopSignals()
    signals.listen()
    asyncio.run(signals.run_until_stopped(lambda: go_on(mill, queue, hooks, every, remind)))
    raise typer.Exit(signals.code)


def watcher_of(mill: Mill, names: list[str] | None, hooks: list[Hook], remind: float = 3600.0) -> Watcher:
    """Return a watcher of these queues, or of all queues and reconciliations."""
    chosen = [mill[name] for name in names] if names else list(mill.queues.values())
    usual = {} if names else {name: one.declared.alert_above for name, one in mill.reconciliations.items()}
    watched = [(queue, queue.alerts) for queue in chosen]
    return Watcher(mill.store, watched, mill.events, hooks, reconciliations=usual, remind=remind)


async def look(mill: Mill, names: list[str] | None, hooks: list[Hook]) -> list[Alert]:
    watcher = watcher_of(mill, names, hooks)
    try:
        found = await watcher.look()
        if hooks:
            await watcher.tell(found)
        return found
    finally:
        await mill.store.close()


async def go_on(mill: Mill, names: list[str] | None, hooks: list[Hook], every: float, remind: float) -> None:
    try:
        await watcher_of(mill, names, hooks, remind).run(every)
    finally:
        await mill.store.close()


def show(found: list[Alert]) -> None:
    if not found:
        print("no alerts")
        return
    rows: list[list[Any]] = [
        [alert.severity, alert.alert, alert.queue or alert.reconciliation, alert.value, alert.limit] for alert in found
    ]
    table(["severity", "alert", "of", "value", "limit"], rows)
