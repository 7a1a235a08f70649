"""`rowmill reconcile`: compare inventories, and correct differences."""

import asyncio
from dataclasses import fields
from typing import Annotated, Any

import typer

from rowmill.cli.app import load_mill
from rowmill.cli.exits import Exit, UsageError
from rowmill.cli.help import RUN
from rowmill.cli.logs import LogFormat, start_log
from rowmill.cli.options import AppOption, JsonOption, UrlOption
from rowmill.cli.output import clock, duration, emit, progress, say, table
from rowmill.mill import Mill
from rowmill.model.option_names import listed
from rowmill.reconcile import Reconciled, Reconciliation
from rowmill.reconcile.runs import RunView

SHOWN = 20
"""Findings of a run that are printed for people."""


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=RUN)(reconcile)


def reconcile(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="The reconciliations to run. Default: all.")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Record and correct findings. Default: only list them.")
    ] = False,
    history: Annotated[bool, typer.Option("--history", help="Show the last runs instead.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show at most N runs of each with --history.")] = 20,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Compare inventories of the same items, and list what is missing where. Changes nothing without --execute.

    With --execute, findings are recorded, corrected up to the declared cap, and closed once they are resolved. Exits
    with 5 if there are findings, and with 1 if there are none but an inventory could not be read.

    \b
    Example:
      rowmill reconcile
      rowmill reconcile documents --execute
      rowmill reconcile --history --json
    """
    mill = load_mill(app, database_url)
    chosen = [mill.reconciliations[name] for name in names or mill.reconciliations if known(mill, name)]
    if not chosen:
        raise UsageError("this mill has no reconciliations. Declare one: mill.reconciliation(...)")
    if history:
        past = asyncio.run(remembered(mill, chosen, limit))
        emit({"runs": past}, json, lambda: show_history(past))
        return
    if execute:
        start_log(None, LogFormat.JSON if json else LogFormat.TEXT, default="warning")
    reports = asyncio.run(reconciled(mill, chosen, execute=execute))
    emit({"reconciliations": [as_data(report) for report in reports]}, json, lambda: show(reports))
    if any(report.drift for report in reports):
        raise typer.Exit(Exit.FINDINGS)
    if any(report.unreadable for report in reports):
        raise typer.Exit(Exit.FAILED)


def known(mill: Mill, name: str) -> bool:
    if name not in mill.reconciliations:
        there = listed(mill.reconciliations, name)
        raise UsageError(f"this mill has no reconciliation {name}. It has: {there}")
    return True


async def reconciled(mill: Mill, chosen: list[Reconciliation], *, execute: bool) -> list[Reconciled]:
    reports = []
    async with mill.opened():
        for one in chosen:
            with progress(f"reconcile {one.name}") as tick:
                reports.append(await one.run(execute=execute, progress=tick))
    return reports


async def remembered(mill: Mill, chosen: list[Reconciliation], limit: int) -> list[RunView]:
    async with mill.opened():
        return [run for one in chosen for run in await one.history(limit)]


def as_data(report: Reconciled) -> dict[str, Any]:
    """Return a report for --json, without row contents."""
    names = [field.name for field in fields(report) if field.name != "findings"]
    data = {"drift": report.drift} | {name: getattr(report, name) for name in names}
    return data | {"findings": [finding.as_log() for finding in report.findings]}


def show(reports: list[Reconciled]) -> None:
    for report in reports:
        things = ", ".join(f"{name} {count:,}" for name, count in report.observed.items())
        print(f"{report.name}: {things}")
        for one in report.unreadable:
            upto = f"only up to {one.upto}" if one.upto is not None else "not at all"
            say(f"{report.name}: inventory {one.inventory} was read {upto} ({one.code}: {one.message})")
        if report.findings:
            rows = [[one.kind, one.text, "new" if one.new else clock(one.found_at)] for one in report.findings[:SHOWN]]
            table(["finding", "key", "since"], rows)
            if report.drift > SHOWN:
                print(f"… and {report.drift - SHOWN:,} more: --json shows the first thousand")
        print(summary(report))
        print()


def summary(report: Reconciled) -> str:
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in report.counts.items())
    parts = [f"{report.drift:,} findings ({kinds})" if report.drift else "no findings"]
    if report.executed:
        parts += [f"{report.corrected:,} corrected"] if report.planned else []
        parts += [f"{report.failed:,} corrections failed"] if report.failed else []
        parts += [f"{report.closed:,} closed"] if report.closed else []
    elif report.planned:
        parts.append(f"would correct {report.planned:,}: add --execute")
    parts += [f"{report.remaining:,} left to the next run"] if report.remaining else []
    parts += [f"{report.in_flight:,} in flight"] if report.in_flight else []
    return "; ".join(parts)


def show_history(past: list[RunView]) -> None:
    if not past:
        print("no runs yet")
        return
    heads = [
        "reconciliation",
        "run",
        "started",
        "took",
        "outcome",
        "findings",
        "corrected",
        "left",
        "closed",
        "unreadable",
    ]
    table(heads, [history_row(run) for run in past])


def history_row(run: RunView) -> list[Any]:
    took = duration((run.ended_at - run.started_at).total_seconds()) if run.ended_at and run.started_at else ""
    unreadable = ", ".join(" ".join(filter(None, [one["inventory"], one["code"]])) for one in run.unreadable)
    return [
        run.name, run.id, clock(run.started_at), took, run.outcome or "running",
        run.findings, run.corrected, run.remaining, run.closed, unreadable,
    ]  # fmt: skip
